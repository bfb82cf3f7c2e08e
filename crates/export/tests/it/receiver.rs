//! Receivers on this machine: one that answers, one that is slow, one that is hostile.

use std::io::{BufRead as _, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver as Channel, channel};
use std::time::Duration;

/// A request that came in.
pub(crate) struct Request {
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

/// Listens on a free port and answers requests.
pub(crate) struct Receiver {
    pub(crate) url: String,
    requests: Channel<Request>,
}

impl Receiver {
    /// Starts a receiver. `answer` writes the response to a request and gets its number, counted
    /// from 0.
    pub(crate) fn start(
        mut answer: impl FnMut(usize, &mut TcpStream) -> std::io::Result<()> + Send + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (sender, requests) = channel();
        std::thread::spawn(move || {
            for (number, stream) in listener.incoming().enumerate() {
                let mut stream = stream.unwrap();
                if let Some(request) = read(&stream) {
                    let _ = sender.send(request);
                }
                let _ = answer(number, &mut stream);
            }
        });
        Self { url, requests }
    }

    /// Answers every request with a status.
    pub(crate) fn answering(status: &'static str) -> Self {
        Self::start(move |_, stream| respond(stream, status, ""))
    }

    /// The next request.
    pub(crate) fn next(&self) -> Request {
        let patience = Duration::from_secs(30);
        self.requests.recv_timeout(patience).expect("a request")
    }

    /// Whether no request is waiting.
    pub(crate) fn is_quiet(&self) -> bool {
        self.requests.try_recv().is_err()
    }
}

pub(crate) fn respond(stream: &mut impl Write, status: &str, headers: &str) -> std::io::Result<()> {
    write!(
        stream,
        "HTTP/1.1 {status}\r\ncontent-length: 0\r\nconnection: close\r\n{headers}\r\n"
    )
}

/// Reads a request up to the end of its body.
pub(crate) fn read(stream: impl Read) -> Option<Request> {
    let mut reader = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut head).ok()? == 0 {
            return None;
        }
    }
    let lower = head.to_ascii_lowercase();
    let length = lower.split("content-length: ").nth(1)?;
    let length: usize = length.lines().next()?.trim().parse().ok()?;
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some(Request { head, body })
}
