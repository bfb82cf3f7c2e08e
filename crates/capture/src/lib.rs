//! What lives in the watched process: it must not panic, block or fill the disk of the
//! run that it watches, and it never writes to the terminal.

pub mod store;
