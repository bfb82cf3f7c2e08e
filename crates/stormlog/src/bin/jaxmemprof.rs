//! The command `jaxmemprof`.

fn main() -> std::process::ExitCode {
    stormlog::main(stormlog::Dialect::Jaxmemprof)
}
