//! Sends bodies to one address on a thread of its own. Offering never waits: the queue is bounded,
//! and what does not fit, is refused or cannot be sent in time is counted.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustls::crypto::ring;
use ureq::Agent;
use ureq::http::StatusCode;
use ureq::tls::{RootCerts, TlsConfig, TlsProvider};

use crate::address::Address;

/// A request with its answer takes at most this long.
const REQUEST: Duration = Duration::from_secs(10);

/// The longest wait before another try, whatever the receiver asks for.
const LONGEST_WAIT: Duration = Duration::from_mins(1);

/// So much of an answer is read, so that the connection can be used again.
const MOST_ANSWERED: u64 = 16 << 10;

/// What happens to a body that does not fit into the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhenFull {
    /// It is dropped: what came first matters most.
    DropNewest,
    /// The one that waits longest is dropped: the latest numbers matter most.
    DropOldest,
}

/// How a delivery tries.
#[derive(Clone, Copy, Debug)]
pub struct Policy {
    /// Bodies that wait at most.
    pub capacity: usize,
    /// What happens when more come.
    pub when_full: WhenFull,
    /// How often a body is tried.
    pub attempts: u32,
    /// The wait after the first failure; it doubles with each further one, up to a minute.
    pub first_wait: Duration,
}

impl Policy {
    /// For alerts: few, each of them worth several tries.
    pub const ALERTS: Self = Self {
        capacity: 64,
        when_full: WhenFull::DropNewest,
        attempts: 8,
        first_wait: Duration::from_secs(1),
    };

    /// For metrics: the next ones come soon.
    pub const METRICS: Self = Self {
        capacity: 8,
        when_full: WhenFull::DropOldest,
        attempts: 3,
        first_wait: Duration::from_secs(1),
    };
}

/// What became of the bodies so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Delivered {
    /// Those that the receiver accepted.
    pub sent: u64,
    /// Those that are lost: the queue was full, the receiver refused them or did not answer.
    pub dropped: u64,
    /// Why the last try failed, without the address.
    pub problem: Option<String>,
}

/// Sends bodies to one address.
pub struct Delivery {
    shared: Arc<Shared>,
}

struct Shared {
    policy: Policy,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    queue: VecDeque<Vec<u8>>,
    is_sending: bool,
    is_finishing: bool,
    is_closed: bool,
    delivered: Delivered,
}

impl Delivery {
    /// Starts the thread that sends.
    pub fn start(
        address: Address,
        content_type: &'static str,
        headers: Vec<(String, String)>,
        policy: Policy,
    ) -> io::Result<Self> {
        let shared = Arc::new(Shared {
            policy,
            state: Mutex::default(),
            changed: Condvar::new(),
        });
        let worker = Worker {
            shared: shared.clone(),
            agent: agent(),
            address,
            content_type,
            headers,
        };
        thread::Builder::new()
            .name("stormlog-send".into())
            .spawn(move || worker.work())?;
        Ok(Self { shared })
    }

    /// Queues a body. Never waits.
    pub fn offer(&self, body: Vec<u8>) {
        let policy = self.shared.policy;
        let mut state = self.shared.lock();
        if state.is_closed {
            state.delivered.dropped += 1;
            return;
        }
        if state.queue.len() >= policy.capacity {
            state.delivered.dropped += 1;
            match policy.when_full {
                WhenFull::DropNewest => return,
                WhenFull::DropOldest => drop(state.queue.pop_front()),
            }
        }
        state.queue.push_back(body);
        self.shared.changed.notify_all();
    }

    /// What became of the bodies so far.
    pub fn delivered(&self) -> Delivered {
        self.shared.lock().delivered.clone()
    }

    /// Sends what waits, each body tried once more, for at most so long; nothing is waited for when
    /// nothing is left. What was not accepted by then counts as dropped.
    pub fn finish(&self, patience: Duration) -> Delivered {
        let deadline = Instant::now() + patience;
        let mut state = self.shared.lock();
        state.is_finishing = true;
        self.shared.changed.notify_all();
        while !state.queue.is_empty() || state.is_sending {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            let waited = self.shared.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        state.is_closed = true;
        let left = state.queue.len() as u64 + u64::from(state.is_sending);
        state.queue.clear();
        state.delivered.dropped += left;
        if left > 0 && state.delivered.problem.is_none() {
            state.delivered.problem = Some("no answer in time".into());
        }
        self.shared.changed.notify_all();
        state.delivered.clone()
    }
}

impl Drop for Delivery {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.is_closed = true;
        self.shared.changed.notify_all();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn agent() -> Agent {
    let tls = TlsConfig::builder()
        .provider(TlsProvider::Rustls)
        .root_certs(RootCerts::PlatformVerifier)
        .unversioned_rustls_crypto_provider(Arc::new(ring::default_provider()))
        .build();
    let config = Agent::config_builder()
        .tls_config(tls)
        .timeout_global(Some(REQUEST))
        // A receiver that redirects could name any other address, such as one of the cloud's own.
        .max_redirects(0)
        .max_redirects_will_error(false)
        .http_status_as_error(false)
        .user_agent(concat!("stormlog/", env!("CARGO_PKG_VERSION")))
        .build();
    Agent::new_with_config(config)
}

/// How a try ended.
enum Outcome {
    Accepted,
    /// Another try makes no sense.
    Refused(String),
    /// Another try may succeed, after a while that the receiver may name.
    Failed(String, Option<Duration>),
}

struct Worker {
    shared: Arc<Shared>,
    agent: Agent,
    address: Address,
    content_type: &'static str,
    headers: Vec<(String, String)>,
}

impl Worker {
    fn work(self) {
        while let Some(body) = self.next() {
            let outcome = self.deliver(&body);
            let mut state = self.shared.lock();
            state.is_sending = false;
            if state.is_closed {
                // It was counted when the delivery was closed.
                return;
            }
            match outcome {
                Ok(()) => {
                    state.delivered.sent += 1;
                    state.delivered.problem = None;
                }
                Err(problem) => {
                    state.delivered.dropped += 1;
                    state.delivered.problem = Some(problem);
                }
            }
            self.shared.changed.notify_all();
        }
    }

    /// The next body, waited for; nothing once the delivery is closed.
    fn next(&self) -> Option<Vec<u8>> {
        let mut state = self.shared.lock();
        loop {
            if state.is_closed {
                return None;
            }
            if let Some(body) = state.queue.pop_front() {
                state.is_sending = true;
                return Some(body);
            }
            let waited = self.shared.changed.wait(state);
            state = waited.unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Tries a body until it is accepted or refused, the tries are used up, or the end has come.
    fn deliver(&self, body: &[u8]) -> Result<(), String> {
        let policy = self.shared.policy;
        let mut wait = policy.first_wait;
        let mut tries = 0;
        loop {
            let was_finishing = self.shared.lock().is_finishing;
            tries += 1;
            let (problem, asked) = match self.post(body) {
                Outcome::Accepted => return Ok(()),
                Outcome::Refused(problem) => return Err(problem),
                Outcome::Failed(problem, asked) => (problem, asked),
            };
            if tries >= policy.attempts || was_finishing {
                return Err(problem);
            }
            self.shared.lock().delivered.problem = Some(problem);
            self.pause(asked.unwrap_or(wait).min(LONGEST_WAIT));
            wait = (wait * 2).min(LONGEST_WAIT);
            if self.shared.lock().is_closed {
                return Err("the program ended".into());
            }
        }
    }

    /// Waits, but not beyond the moment in which the end is announced.
    fn pause(&self, time: Duration) {
        let until = Instant::now() + time;
        let mut state = self.shared.lock();
        while !state.is_finishing && !state.is_closed {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            let waited = self.shared.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn post(&self, body: &[u8]) -> Outcome {
        let mut request = self
            .agent
            .post(self.address.uri())
            .header("content-type", self.content_type);
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        let mut response = match request.send(body) {
            Ok(response) => response,
            Err(error) => return Outcome::Failed(reason(&error), None),
        };
        let status = response.status();
        let asked = response.headers().get("retry-after");
        let asked = asked.and_then(|seconds| seconds.to_str().ok()?.parse().ok());
        let asked = asked.map(Duration::from_secs);
        // A body that cannot be read to its end closes the connection, no more.
        let body = response.body_mut().with_config().limit(MOST_ANSWERED);
        let _ = body.read_to_vec();
        match status {
            status if status.is_success() => Outcome::Accepted,
            StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_MANY_REQUESTS => {
                Outcome::Failed(answered(status), asked)
            }
            status if status.is_server_error() => Outcome::Failed(answered(status), asked),
            status => Outcome::Refused(answered(status)),
        }
    }
}

fn answered(status: StatusCode) -> String {
    format!("the receiver answered {}", status.as_u16())
}

/// Why a request failed. The texts of some errors repeat the address, which may be a secret.
fn reason(error: &ureq::Error) -> String {
    match error {
        ureq::Error::Rustls(rustls::Error::InvalidCertificate(_)) => UNTRUSTED.into(),
        ureq::Error::Io(error) if is_untrusted(error) => UNTRUSTED.into(),
        ureq::Error::Io(error) => match error.kind() {
            io::ErrorKind::Other => "the connection failed".into(),
            kind => kind.to_string(),
        },
        ureq::Error::Timeout(_) => "no answer in time".into(),
        ureq::Error::HostNotFound => "the host is unknown".into(),
        ureq::Error::ConnectionFailed => "the connection failed".into(),
        ureq::Error::Tls(_) | ureq::Error::Rustls(_) => "TLS failed".into(),
        ureq::Error::Protocol(_) | ureq::Error::LargeResponseHeader(..) => {
            "the answer is not HTTP".into()
        }
        _ => "the request failed".into(),
    }
}

const UNTRUSTED: &str =
    "the receiver's certificate is not trusted; SSL_CERT_FILE names another store";

/// Whether a connection ended because of the receiver's certificate.
fn is_untrusted(error: &io::Error) -> bool {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref());
    matches!(inner, Some(rustls::Error::InvalidCertificate(_)))
}
