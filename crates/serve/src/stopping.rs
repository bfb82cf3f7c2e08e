//! How tasks learn that the server stops.

use tokio::sync::watch;

/// A handle with which an asynchronous task can wait until the server is stopped.
#[derive(Clone, Debug)]
pub struct Stopping(watch::Receiver<bool>);

impl Stopping {
    pub(crate) fn new(is_stopped: watch::Receiver<bool>) -> Self {
        Self(is_stopped)
    }

    /// Waits until the server is stopped.
    pub async fn wait(&mut self) {
        // An error of `wait_for` means that the server no longer exists, which counts as stopped
        // too.
        let _ = self.0.wait_for(|stopped| *stopped).await;
    }
}
