//! What the pages need to know of the machine: the time, its processes, its user. The program
//! passes it in, so that everything else depends on files alone.

use stormlog_analysis::query::Surroundings;

/// The machine that the server runs on.
pub trait Machine: Send + Sync {
    /// The time.
    fn now_ns(&self) -> i64;
    /// Who decides about issues here.
    fn user(&self) -> String;
    /// Asks a question that depends on the time and on processes.
    fn surroundings(&self, ask: &mut dyn FnMut(&Surroundings<'_>));
}
