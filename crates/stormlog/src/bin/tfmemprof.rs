//! The command `tfmemprof`.

fn main() -> std::process::ExitCode {
    stormlog::main(stormlog::Dialect::Tfmemprof)
}
