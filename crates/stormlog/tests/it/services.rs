//! Logging to experiment trackers, where there is no Python to do it.

use crate::support::stormlog;

#[test]
fn without_python_the_flags_end_before_any_work() {
    let folder = tempfile::tempdir().expect("a directory");
    for flag in ["--wandb", "--mlflow"] {
        for command in ["diagnose", "track"] {
            let sink = folder.path().join("out");
            let out = if command == "track" {
                "--sink"
            } else {
                "--output"
            };
            let mut program = stormlog(&[command, flag, out]);
            let output = program.arg(&sink).output().expect("it starts");
            assert_eq!(output.status.code(), Some(1));
            assert!(!sink.exists() && output.stdout.is_empty());
            let key = flag.trim_start_matches('-');
            assert_eq!(
                String::from_utf8_lossy(&output.stderr),
                format!(
                    "error: '{flag}' needs the Python package; this program runs without it\n\
                     hint: run the 'stormlog' command installed by \"pip install 'stormlog[{key}]'\"\n"
                )
            );
        }
    }
}
