//! The program `stormlog`; all of its code is in the library of this crate.

fn main() -> std::process::ExitCode {
    stormlog::main(stormlog::Dialect::Stormlog)
}
