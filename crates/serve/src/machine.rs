//! What the pages need to know about the machine: the time, its processes, its user. The calling
//! program provides this information, so that all other code of the crate depends only on files.

use stormlog_analysis::query::Surroundings;

/// What the server asks about the machine that it runs on.
pub trait Machine: Send + Sync {
    /// The current time in nanoseconds since the Unix epoch.
    fn now_ns(&self) -> i64;
    /// The name of the user who changes the state of issues on this machine.
    fn user(&self) -> String;
    /// Calls `ask` with the current time and a way to check whether processes are running.
    fn surroundings(&self, ask: &mut dyn FnMut(&Surroundings<'_>));
}
