//! Finds secrets in the arguments of commands: `--api-key X`, `curl -u me:X`, `wandb login X`. A
//! command is given as a list of words, or it is part of a text such as `Command '['curl', '-u',
//! 'me:X']' failed`.

use std::ops::Range;

use super::formats::looks_random;
use super::names::{is_secret_flag_value, is_secret_name};
use super::prose::is_common_word;
use super::{HIDDEN, Hidden};

/// A flag whose value is a secret although the name of the flag does not show it, such as `-p`.
/// The flag has this meaning only for the programs in `programs`.
struct Flag {
    programs: &'static [&'static str],
    name: &'static str,
    /// Whether the value of the flag is part of the same word as the flag, as in `-pX`.
    is_attached: bool,
    /// Whether the value of the flag is a secret only after the subcommand `login`.
    is_of_login: bool,
}

const fn flag(programs: &'static [&'static str], name: &'static str) -> Flag {
    Flag {
        programs,
        name,
        is_attached: false,
        is_of_login: false,
    }
}

const fn attached(programs: &'static [&'static str], name: &'static str) -> Flag {
    Flag {
        is_attached: true,
        ..flag(programs, name)
    }
}

const MYSQL: &[&str] = &["mysql", "mysqldump", "mysqladmin", "mysqlimport", "mariadb"];
const LDAP: &[&str] = &["ldapsearch", "ldapadd", "ldapmodify", "ldapwhoami"];
/// Programs whose subcommand `login` has the flag `-p` for a password.
const REGISTRIES: &[&str] = &[
    "docker", "podman", "buildah", "skopeo", "helm", "oc", "az", "nerdctl",
];

const FLAGS: &[Flag] = &[
    flag(&["curl"], "-u"),
    flag(&["curl"], "--user"),
    flag(&["curl"], "-U"),
    flag(&["curl"], "--proxy-user"),
    flag(&["http", "https"], "-a"),
    flag(&["http", "https"], "--auth"),
    Flag {
        is_of_login: true,
        ..flag(REGISTRIES, "-p")
    },
    flag(&["sshpass", "twine", "mongo", "mongosh", "mongodump"], "-p"),
    flag(&["redis-cli"], "-a"),
    flag(&["zip", "unzip", "sqlcmd", "bcp"], "-P"),
    flag(LDAP, "-w"),
    flag(&["smbclient"], "-U"),
    flag(&["doctl"], "-t"),
    attached(MYSQL, "-p"),
    attached(&["7z", "7za", "sshpass"], "-p"),
];

/// Programs of Oracle, whose login is a word `user/X@service`.
const ORACLE: &[&str] = &["sqlplus", "sqlldr", "expdp", "impdp", "rman"];

/// Pairs of words after which a secret follows without a flag, as in `wandb login X`.
const BEFORE_SECRET: &[[&str; 2]] = &[
    ["wandb", "login"],
    ["vault", "login"],
    ["ngrok", "authtoken"],
    ["config", "add-authtoken"],
    ["rclone", "obscure"],
];

/// The least length, in characters, of a word that counts as a secret although no flag is before
/// it, as in `wandb login X`.
const ALONE_LENGTH: usize = 12;

/// After the name of a program in a text, this many words are searched for the flags of that
/// program. Later words probably belong to something else. A command line has no such limit.
const WORDS_OF_COMMAND: usize = 40;

/// Whether words are the arguments of a command, or part of a text of any kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// The words are the arguments of a command.
    Command,
    /// The words are from a text such as a log message, which may mention a flag in a sentence.
    Text,
}

/// Reads the words of a command one by one and finds the secrets of the command.
pub(super) struct Arguments<'a> {
    origin: Origin,
    /// The last two words that were read, the later one second.
    last: [&'a str; 2],
    program: Option<&'a str>,
    words_of_program: usize,
    /// Whether the subcommand `login` was among the words so far.
    is_login: bool,
    next: Next<'a>,
}

/// What the words so far show about the next word of the command.
#[derive(Clone, Copy)]
enum Next<'a> {
    Anything,
    /// The next word is the value of this flag, whose name shows that the value is a secret, such
    /// as `--api-key`.
    ValueOf(&'a str),
    /// The next word is a secret, because the word before it is a known flag of the program, such
    /// as `-u` of `curl`.
    Secret,
    /// The next word is a secret if it looks random; it follows words such as `wandb login`.
    Alone,
}

impl<'a> Arguments<'a> {
    pub(super) fn new(origin: Origin) -> Self {
        Self {
            origin,
            last: [""; 2],
            program: None,
            words_of_program: 0,
            is_login: false,
            next: Next::Anything,
        }
    }

    /// Whether the next word may be a secret; quotes around a word are parsed only then.
    fn is_waiting(&self) -> bool {
        !matches!(self.next, Next::Anything)
    }

    /// Resets the state at a line end, where a command ends.
    fn end_command(&mut self) {
        *self = Self::new(self.origin);
    }

    /// Reads the next word and returns the part of it that is a secret.
    pub(super) fn take(&mut self, word: &'a str) -> Option<Range<usize>> {
        let next = std::mem::replace(&mut self.next, Next::Anything);
        let is_flag = word.starts_with('-') && word.len() > 1;
        let is_sentence = self.origin == Origin::Text && is_common_word(word);
        let is_secret = !word.is_empty() && !is_flag && !is_sentence && word != HIDDEN && {
            match next {
                Next::Anything => false,
                Next::ValueOf(name) => is_secret_flag_value(name, word),
                Next::Secret => {
                    !word.contains("://")
                        && (self.program != Some("smbclient") || word.contains('%'))
                }
                Next::Alone => looks_random(word, ALONE_LENGTH) && !word.contains('/'),
            }
        };
        if is_secret {
            self.remember(word);
            return Some(0..word.len());
        }
        let attached = if is_flag {
            self.take_flag(word, next)
        } else if let Some(secret) = self.login_of_oracle(word) {
            self.program = None;
            Some(secret)
        } else {
            self.take_word(word, next);
            None
        };
        self.remember(word);
        attached
    }

    /// The password in a login of a program of Oracle.
    fn login_of_oracle(&self, word: &str) -> Option<Range<usize>> {
        let program = self.program.filter(|program| ORACLE.contains(program))?;
        let (user, rest) = word.split_once('/')?;
        let end = rest.find('@').unwrap_or(rest.len());
        let is_login = !user.is_empty() && name_of(word) != program && rest[..end] != *HIDDEN;
        (is_login && end > 0).then_some(user.len() + 1..user.len() + 1 + end)
    }

    fn take_flag(&mut self, word: &'a str, next: Next<'a>) -> Option<Range<usize>> {
        // Other flags may come between the command and its secret, as in `wandb login --relogin X`.
        if matches!(next, Next::Alone) {
            self.next = next;
        }
        if word.contains('=') {
            return None;
        }
        let of_program = FLAGS.iter().find(|flag| {
            let has_flag = if flag.is_attached {
                word.len() > flag.name.len() && word.starts_with(flag.name)
            } else {
                word == flag.name
            };
            has_flag
                && (self.is_login || !flag.is_of_login)
                && self
                    .program
                    .is_some_and(|program| flag.programs.contains(&program))
        });
        if let Some(flag) = of_program {
            if flag.is_attached {
                // A value that starts with `[redacted` is already hidden. The closing bracket is
                // not compared: a bracket ends a word of a text, so it may be missing in this word.
                let is_hidden = word[flag.name.len()..].starts_with(HIDDEN.trim_end_matches(']'));
                return (!is_hidden).then_some(flag.name.len()..word.len());
            }
            self.next = Next::Secret;
        } else if is_secret_name(word.trim_start_matches('-')) {
            self.next = Next::ValueOf(word);
        }
        None
    }

    fn take_word(&mut self, word: &'a str, next: Next<'a>) {
        // A word after another flag is the value of that flag, such as an address, and the secret
        // may still follow.
        let is_of_flag = self.last[1].starts_with("--");
        if matches!(next, Next::Alone) && is_of_flag {
            self.next = next;
        }
        let [before, last] = self.last;
        let pair = [name_of(last), word];
        if BEFORE_SECRET.contains(&pair) {
            self.next = Next::Alone;
        }
        // In a line of a netrc file, a secret follows `password`: `login me password X`.
        if before == "login" && word == "password" {
            self.next = Next::Secret;
        }
        // In `aws configure set NAME VALUE`, the value is a secret if NAME is the name of a secret.
        if last == "set" && before == "configure" && is_secret_name(word) {
            self.next = Next::Secret;
        }
        self.is_login |= word == "login";
        let name = name_of(word);
        if is_program(name) {
            self.program = Some(name);
            self.words_of_program = 0;
            self.is_login = false;
        }
    }

    fn remember(&mut self, word: &'a str) {
        self.last = [self.last[1], word];
        self.words_of_program += 1;
        let is_far = self.origin == Origin::Text && self.words_of_program > WORDS_OF_COMMAND;
        if matches!(word, "|" | "||" | "&&" | ";") || is_far {
            self.program = None;
        }
    }
}

/// Whether [`FLAGS`] lists a flag of this program whose value is a secret. A quick check of length
/// and letters comes first, because most words of a text fail it.
fn is_program(name: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    (2..=11).contains(&name.len())
        && name.bytes().all(fits)
        && (ORACLE.contains(&name) || FLAGS.iter().any(|flag| flag.programs.contains(&name)))
}

/// The name of a program without its directory: `curl` for `/usr/bin/curl`.
fn name_of(word: &str) -> &str {
    word.rsplit('/').next().unwrap_or(word)
}

/// Replaces secret arguments of commands in a text; returns `None` when the text has no such
/// argument.
pub(super) fn without_arguments(plain: &str, origin: Origin) -> Option<String> {
    if !may_have_arguments(plain) {
        return None;
    }
    let bytes = plain.as_bytes();
    let mut out = Hidden::new(plain);
    let mut arguments = Arguments::new(origin);
    let mut at = 0;
    while at < bytes.len() {
        match bytes[at] {
            b'\n' => {
                // After a backslash at the end of a line, a command continues on the next line.
                if at == 0 || bytes[at - 1] != b'\\' {
                    arguments.end_command();
                }
                at += 1;
            }
            b'[' if plain[at..].starts_with(HIDDEN) => {
                arguments.take(HIDDEN);
                at += HIDDEN.len();
            }
            byte if is_between(byte) => at += 1,
            quote @ (b'\'' | b'"') => {
                let inner = &plain[at + 1..];
                let length = arguments
                    .is_waiting()
                    .then(|| quoted(inner, quote))
                    .flatten();
                if let Some(length) = length {
                    // In a JSON document inside another one, a backslash precedes each quote; the
                    // backslash is not part of the word.
                    let word = inner[..length].trim_end_matches('\\');
                    if arguments.take(word).is_some() {
                        out.hide(at + 1, at + 1 + word.len());
                    }
                }
                at += 1 + length.map_or(0, |length| length + 1);
            }
            _ => {
                let length = bare_length(&bytes[at..]);
                let word = &plain[at..at + length];
                // In a list of words, a value such as `null` is not a word of the command.
                if is_item(word) && is_between_commas(bytes, at, length) {
                    at += length;
                    continue;
                }
                if let Some(secret) = arguments.take(word) {
                    out.hide(at + secret.start, at + secret.end);
                }
                at += length;
                at += closing_quote(&bytes[at..]);
                // When punctuation follows a flag, a sentence only mentions the flag, and the next
                // word is not its value.
                let ends = bytes.get(at).is_some_and(|byte| b",;)]".contains(byte));
                let is_quoted = at > 0 && matches!(bytes[at - 1], b'\'' | b'"');
                if word.ends_with([':', '.', '!', '?']) || (ends && !is_quoted) {
                    arguments.next = Next::Anything;
                }
            }
        }
    }
    out.finish()
}

/// Whether a word is a JSON or Python value that is not a text, such as `null`.
fn is_item(word: &str) -> bool {
    matches!(word, "null" | "true" | "false" | "None" | "True" | "False")
        || word.parse::<f64>().is_ok()
}

/// Whether a word has a comma before it and a comma after it; spaces between the word and the
/// commas are ignored. The word begins at `at` and has `length` bytes. Such a word is an item of a
/// list.
fn is_between_commas(bytes: &[u8], at: usize, length: usize) -> bool {
    let mut before = bytes[..at].iter().rev().skip_while(|byte| **byte == b' ');
    let mut after = bytes[at + length..]
        .iter()
        .skip_while(|byte| **byte == b' ');
    before.next() == Some(&b',') && after.next() == Some(&b',')
}

/// A cheap test that excludes most texts: whether the text has a flag, or words after which a
/// secret may follow.
fn may_have_arguments(plain: &str) -> bool {
    let bytes = plain.as_bytes();
    let has_flag = memchr::memchr_iter(b'-', bytes).any(|at| {
        let starts = at == 0 || is_between(bytes[at - 1]) || matches!(bytes[at - 1], b'\'' | b'"');
        starts
            && bytes
                .get(at + 1)
                .is_some_and(|next| next.is_ascii_alphabetic() || *next == b'-')
    });
    has_flag
        || [
            "login",
            "authtoken",
            "configure",
            "obscure",
            "sqlplus",
            "sqlldr",
            "expdp",
            "impdp",
            "rman",
        ]
        .iter()
        .any(|word| memchr::memmem::find(bytes, word.as_bytes()).is_some())
}

/// Whether a byte separates words of a command, such as a space, a comma or a bracket. Quotes do
/// not separate words; they enclose them.
pub(super) const fn is_between(byte: u8) -> bool {
    byte.is_ascii_whitespace()
        || matches!(
            byte,
            b',' | b'[' | b']' | b'(' | b')' | b'{' | b'}' | b'`' | b'\\' | b'<' | b'>'
        )
}

/// The length of the word at the start of `rest`, which is not in quotes.
fn bare_length(rest: &[u8]) -> usize {
    let ends = |index: &usize| {
        let byte = rest[*index];
        let is_escape = byte == b'\\'
            && rest
                .get(index + 1)
                .is_none_or(|next| matches!(next, b'\'' | b'"' | b'\n' | b'n'));
        byte.is_ascii_whitespace()
            || matches!(byte, b'\'' | b'"' | b'`')
            || is_escape
            || (matches!(byte, b',' | b')' | b']' | b'}' | b';')
                && rest
                    .get(index + 1)
                    .is_none_or(|next| is_between(*next) || b"'\"".contains(next)))
    };
    let length = (1..rest.len()).find(ends);
    length.unwrap_or(rest.len())
}

/// The length of the quotation mark that ends a word, including the backslashes before it; 0 if
/// `rest` does not begin with such a mark.
fn closing_quote(rest: &[u8]) -> usize {
    let slashes = rest.iter().take_while(|byte| **byte == b'\\').count();
    match rest.get(slashes) {
        Some(b'\'' | b'"') => slashes + 1,
        _ => 0,
    }
}

/// The longest text in quotes, in bytes, that is read as one word of a command.
const LONGEST_QUOTED: usize = 1024;

/// The length of a text in quotes, if the closing quote is on the same line.
fn quoted(rest: &str, quote: u8) -> Option<usize> {
    let mut bytes = rest.bytes().take(LONGEST_QUOTED);
    let length = bytes.position(|byte| byte == quote || byte == b'\n')?;
    (rest.as_bytes()[length] == quote).then_some(length)
}
