//! Sends request bodies to one address on a thread of its own. Offering a body never blocks the
//! caller: if the bounded queue is full, a body is dropped. Bodies also count as dropped if the
//! receiver refuses them or they cannot be sent in time.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use rustls::crypto::ring;
use ureq::Agent;
use ureq::http::StatusCode;
use ureq::tls::{RootCerts, TlsConfig, TlsProvider};

use crate::address::Address;

/// The time limit for one HTTP request including its response.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// The longest wait before a body is sent again, even if the receiver asks for a longer wait.
const LONGEST_WAIT: Duration = Duration::from_mins(1);

/// The largest number of response bytes that are read. A response is read only so that its
/// connection can be reused; the connection of a longer response is closed.
const MOST_RESPONSE_BYTES: u64 = 16 << 10;

/// Which request body is dropped when the queue is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhenFull {
    /// When the queue is full, the new body is dropped, because the first alerts matter most.
    DropNewest,
    /// When the queue is full, the oldest body is dropped, because the latest metrics matter most.
    DropOldest,
}

/// How many request bodies a [`Delivery`] keeps in its queue, and how many times it tries to send
/// each of them.
#[derive(Clone, Copy, Debug)]
pub struct Policy {
    /// The largest number of bodies that wait in the queue.
    pub capacity: usize,
    /// Which body is dropped when the queue is full.
    pub when_full: WhenFull,
    /// How many times the delivery tries to send one body.
    pub attempts: u32,
    /// The wait after the first failed attempt; the wait doubles after each further failure, up to
    /// one minute.
    pub first_wait: Duration,
}

impl Policy {
    /// The limits for alerts, which are few and worth several attempts.
    pub const ALERTS: Self = Self {
        capacity: 64,
        when_full: WhenFull::DropNewest,
        attempts: 8,
        first_wait: Duration::from_secs(1),
    };

    /// The limits for metrics, where a lost body is soon replaced by a newer one.
    pub const METRICS: Self = Self {
        capacity: 8,
        when_full: WhenFull::DropOldest,
        attempts: 3,
        first_wait: Duration::from_secs(1),
    };
}

/// How many request bodies a [`Delivery`] has sent and dropped so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Delivered {
    /// Bodies that the receiver accepted.
    pub sent: u64,
    /// Bodies that were lost because the queue was full, or because the receiver refused them or
    /// did not answer.
    pub dropped: u64,
    /// Why the last attempt to send a body failed. The text does not contain the receiver's
    /// address, which may be a secret.
    pub problem: Option<String>,
}

/// Sends HTTP request bodies to one address on a background thread.
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
    /// Starts the thread that sends each body to `address` as a POST request with the given content
    /// type and headers.
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

    /// Adds a request body to the queue without waiting. If the queue is full, this body or the
    /// oldest one is dropped; after [`finish`](Self::finish), every new body is dropped.
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

    /// How many request bodies were sent and how many were dropped so far.
    pub fn delivered(&self) -> Delivered {
        self.shared.lock().delivered.clone()
    }

    /// Sends the waiting bodies, for at most `patience` in all. An attempt that begins after this
    /// call is not repeated when it fails. Returns as soon as the queue is empty. Bodies that the
    /// receiver has not accepted by then count as dropped.
    pub fn finish(&self, patience: Duration) -> Delivered {
        let mut state = self.shared.lock();
        state.is_finishing = true;
        self.shared.changed.notify_all();
        let is_busy = |state: &mut State| !state.queue.is_empty() || state.is_sending;
        let waited = self
            .shared
            .changed
            .wait_timeout_while(state, patience, is_busy);
        let mut state = waited.unwrap_or_else(PoisonError::into_inner).0;
        state.is_closed = true;
        let unsent = state.queue.len() as u64 + u64::from(state.is_sending);
        state.queue.clear();
        state.delivered.dropped += unsent;
        if unsent > 0 && state.delivered.problem.is_none() {
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
        .timeout_global(Some(REQUEST_TIMEOUT))
        // Redirects are not followed: the receiver could redirect to any other address, such as an
        // internal service of the cloud.
        .max_redirects(0)
        .max_redirects_will_error(false)
        .http_status_as_error(false)
        .user_agent(concat!("stormlog/", env!("CARGO_PKG_VERSION")))
        .build();
    Agent::new_with_config(config)
}

/// The result of one attempt to send a request body.
enum Outcome {
    Accepted,
    /// The receiver refused the body, and another attempt would be refused too.
    Refused(String),
    /// The attempt failed, but another attempt may succeed; contains the wait that the receiver
    /// asked for, if any.
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
                // The body was already counted as dropped when the delivery was closed.
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

    /// Waits for the next body in the queue; `None` when the delivery is closed.
    fn next(&self) -> Option<Vec<u8>> {
        let must_wait = |state: &mut State| !state.is_closed && state.queue.is_empty();
        let waited = self
            .shared
            .changed
            .wait_while(self.shared.lock(), must_wait);
        let mut state = waited.unwrap_or_else(PoisonError::into_inner);
        if state.is_closed {
            return None;
        }
        state.is_sending = true;
        state.queue.pop_front()
    }

    /// Tries to send a body until the receiver accepts or refuses it, all attempts have failed, or
    /// the delivery is closed.
    fn deliver(&self, body: &[u8]) -> Result<(), String> {
        let policy = self.shared.policy;
        let mut wait = policy.first_wait;
        let mut tries = 0;
        loop {
            let was_finishing = self.shared.lock().is_finishing;
            tries += 1;
            let (problem, retry_after) = match self.post(body) {
                Outcome::Accepted => return Ok(()),
                Outcome::Refused(problem) => return Err(problem),
                Outcome::Failed(problem, retry_after) => (problem, retry_after),
            };
            if tries >= policy.attempts || was_finishing {
                return Err(problem);
            }
            self.shared.lock().delivered.problem = Some(problem);
            self.pause(retry_after.unwrap_or(wait).min(LONGEST_WAIT));
            wait = (wait * 2).min(LONGEST_WAIT);
            if self.shared.lock().is_closed {
                return Err("the program ended".into());
            }
        }
    }

    /// Waits for `duration`, or less if the delivery finishes or is closed earlier.
    fn pause(&self, duration: Duration) {
        let state = self.shared.lock();
        let goes_on = |state: &mut State| !state.is_finishing && !state.is_closed;
        let waited = self
            .shared
            .changed
            .wait_timeout_while(state, duration, goes_on);
        drop(waited);
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
        let retry_after = response.headers().get("retry-after");
        let retry_after = retry_after.and_then(|seconds| seconds.to_str().ok()?.parse().ok());
        let retry_after = retry_after.map(Duration::from_secs);
        // If the response cannot be read to its end, the connection is closed and nothing else is
        // lost, so this error is ignored.
        let body = response.body_mut().with_config().limit(MOST_RESPONSE_BYTES);
        let _ = body.read_to_vec();
        match status {
            status if status.is_success() => Outcome::Accepted,
            StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_MANY_REQUESTS => {
                Outcome::Failed(answered(status), retry_after)
            }
            status if status.is_server_error() => Outcome::Failed(answered(status), retry_after),
            status => Outcome::Refused(answered(status)),
        }
    }
}

fn answered(status: StatusCode) -> String {
    format!("the receiver answered {}", status.as_u16())
}

/// Why a request failed. The error texts of the HTTP library are not used, because some of them
/// repeat the address, which may be a secret.
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
    "the receiver's certificate is not trusted; set SSL_CERT_FILE to a file of trusted ones";

/// Whether a connection failed because the receiver's certificate is not trusted.
fn is_untrusted(error: &io::Error) -> bool {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref());
    matches!(inner, Some(rustls::Error::InvalidCertificate(_)))
}
