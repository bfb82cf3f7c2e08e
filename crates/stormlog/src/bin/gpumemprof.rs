//! The command `gpumemprof`.

fn main() -> std::process::ExitCode {
    stormlog::main(stormlog::Dialect::Gpumemprof)
}
