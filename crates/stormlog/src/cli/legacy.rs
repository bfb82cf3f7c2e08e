//! The command lines of stormlog 0.3.9. They record, draw and diagnose with parts of this program;
//! their analyses and texts are in the compat crate.

mod framework;
pub(super) mod gpumemprof;
pub(super) mod jaxmemprof;
pub(super) mod tfmemprof;
