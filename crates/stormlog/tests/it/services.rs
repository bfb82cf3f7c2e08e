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

#[test]
fn an_invalid_address_in_the_environment_does_not_keep_a_program_from_starting() {
    let folder = tempfile::tempdir().expect("a directory");
    let root = folder.path().join("run");
    let started = |flags: &[&str], variable: Option<&str>| {
        let mut program = stormlog(&["run", "--quiet", "--dir"]);
        program
            .arg(&root)
            .args(flags)
            .args(["--", "echo", "started"]);
        program.env_remove("STORMLOG_ALERT");
        if let Some(url) = variable {
            program.env("STORMLOG_ALERT", url);
        }
        let output = program.output().expect("it starts");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (text(&output.stdout), text(&output.stderr))
    };
    let (out, err) = started(&[], Some("slack:secret"));
    assert_eq!(out, "started\n", "{err}");
    let warnings: Vec<&str> = err
        .lines()
        .filter(|line| line.contains("no alerts are sent"))
        .collect();
    assert_eq!(warnings.len(), 1, "{err}");
    assert!(
        warnings[0].contains("'STORMLOG_ALERT'") && !err.contains("slack:secret"),
        "{err}"
    );
    // A flag is bad usage, as before.
    let (out, err) = started(&["--alert", "slack:secret"], None);
    assert!(out.is_empty() && err.contains("'--alert'"), "{err}");
}
