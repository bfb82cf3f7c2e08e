//! The command `stormlog`.

fn main() -> std::process::ExitCode {
    stormlog::main(stormlog::Dialect::Stormlog)
}
