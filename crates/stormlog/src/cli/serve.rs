//! `stormlog serve`: serves pages about the runs in some folders to a web browser.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Serialize;
use stormlog_analysis::query::Surroundings;
use stormlog_report::document::to_value;
use stormlog_report::escape::path_for_terminal;
use stormlog_serve::{Binding, Machine, ServeError, Token, router};

use crate::Exit;
use crate::console::Console;
use crate::failure::hinted;
use crate::machine::{now_ns, on_this_machine};
use crate::signals::Signals;

/// How often `stormlog serve` checks whether a signal such as Ctrl+C has arrived.
const PAUSE: Duration = Duration::from_millis(200);

/// Browse runs in a web browser, live while they are recorded
///
/// Lists the runs under DIR with their state, memory and verdict; the page of a run is updated
/// while it is recorded. Nothing leaves this machine: the pages need no account and load no
/// external files.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "On 127.0.0.1 every user of this machine can read the pages. Changing the
state of an issue needs the token, which is part of the printed address. On any
other address, reading needs the token too. The connection is not encrypted:
prefer to listen on 127.0.0.1 and to connect with
'ssh -L 8321:localhost:8321 HOST'.

Examples:
  stormlog serve runs
  stormlog serve runs /scratch/jobs --listen 127.0.0.1:9000
  stormlog serve runs --listen 0.0.0.0:8321 --token-file ~/.stormlog-token"
)]
pub(crate) struct Arguments {
    /// Folders of recordings, or single recordings
    #[arg(value_name = "DIR", default_value = ".")]
    paths: Vec<PathBuf>,
    /// Address to listen on; port 0 takes a free one
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:8321")]
    listen: String,
    /// Use the first line of this file as the token [default: a new one]
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Print the address and the token as JSON
    #[arg(long)]
    json: bool,
}

/// The addresses on which the server listens, and its token.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Document {
    /// The host and port on which the server listens.
    address: String,
    /// The URL of the first page, with the token.
    url: String,
    /// The token that a request needs to change something; on an address other than loopback, every
    /// request needs it.
    token: String,
}

/// Runs the web server until a signal such as Ctrl+C ends the program.
pub(crate) fn run(arguments: &Arguments, console: &mut Console<'_>) -> anyhow::Result<Exit> {
    for path in &arguments.paths {
        if !path.exists() {
            return Err(hinted(
                anyhow::anyhow!("'{}' does not exist", path_for_terminal(path)),
                "record a program first: stormlog run --dir DIR -- COMMAND",
            ));
        }
    }
    let signals = Signals::that_end()?;
    let token = match &arguments.token_file {
        Some(file) => Token::from_file(file)?,
        None => Token::random(),
    };
    let secret = token.secret().to_owned();
    let binding = Binding::bind(&arguments.listen, token).map_err(in_use)?;
    let machine: Arc<dyn Machine> = Arc::new(ThisMachine);
    let pages = router(arguments.paths.clone(), machine, binding.stopping())?;
    let (address, url) = (binding.address(), binding.url());
    let is_loopback = binding.is_loopback();
    let server = binding.serve(pages)?;
    if arguments.json {
        let document = Document {
            address: address.to_string(),
            url,
            token: secret,
        };
        // The document is printed as one line, so that a program can read it while the server runs.
        writeln!(console.out, "{}", to_value(&document))?;
    } else {
        writeln!(console.out, "{url}")?;
        if !is_loopback {
            writeln!(
                console.err,
                "warning: the connection is not encrypted; whoever sees the token can read everything"
            )?;
        }
        writeln!(console.err, "press Ctrl+C to stop")?;
    }
    console.out.flush()?;
    while signals.take().is_none() {
        if server.is_finished() {
            anyhow::bail!("the server stopped unexpectedly");
        }
        std::thread::sleep(PAUSE);
    }
    server.stop();
    Ok(Exit::Fine)
}

/// If the server cannot listen on the address, adds the hint to choose another port.
fn in_use(error: ServeError) -> anyhow::Error {
    match error {
        ServeError::Listen { .. } => hinted(
            error,
            "choose another port: --listen 127.0.0.1:0 selects a free one",
        ),
        error => error.into(),
    }
}

/// Gives the web server the time, the user, and which processes run on this machine.
struct ThisMachine;

impl Machine for ThisMachine {
    fn now_ns(&self) -> i64 {
        now_ns()
    }

    fn user(&self) -> String {
        std::env::var("USER").unwrap_or_else(|_| "unknown".to_owned())
    }

    fn surroundings(&self, ask: &mut dyn FnMut(&Surroundings<'_>)) {
        on_this_machine(ask);
    }
}
