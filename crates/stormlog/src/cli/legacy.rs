//! The command lines of stormlog 0.3.9. The commands of stormlog 0.3.9 use the recorder, the charts
//! and the diagnosis of `stormlog`; their analyses and printed texts are in the compat crate.

mod framework;
pub(super) mod gpumemprof;
pub(super) mod jaxmemprof;
pub(super) mod tfmemprof;
