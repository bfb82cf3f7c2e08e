//! The program `gpumemprof`, with its command line from stormlog 0.3.9.

fn main() -> std::process::ExitCode {
    stormlog::main(stormlog::Dialect::Gpumemprof)
}
