//! Help texts, bad usage, completions.

use crate::artifacts::repository;
use crate::support::{out, transcript};

/// The commands that a help text lists, `help` left out.
fn commands_in(help: &str) -> Vec<&str> {
    let commands = help.split_once("Commands:\n").map_or("", |(_, rest)| rest);
    let commands = commands.split_once("\n\n").map_or("", |(list, _)| list);
    commands
        .lines()
        .filter(|line| line.starts_with("  ") && !line.starts_with("   "))
        .filter_map(|line| line.split_whitespace().next())
        .filter(|name| *name != "help")
        .collect()
}

#[test]
fn every_command_has_help_with_examples() {
    let help = out(&["--help"]);
    assert!(help.contains("Examples:\n  stormlog run "), "{help}");
    let names = commands_in(&help);
    for known in ["show", "validate", "convert", "completions"] {
        assert!(names.contains(&known), "{known}");
    }
    for name in names {
        let help = out(&[name, "--help"]);
        assert!(help.contains("Usage: stormlog"), "{name}");
        assert!(help.contains("Examples:\n  stormlog "), "{name}");
    }
}

#[test]
fn help_fits_80_columns_when_the_width_is_unknown() {
    let mut pages = vec![vec!["--help".to_owned()]];
    while let Some(page) = pages.pop() {
        let words: Vec<&str> = page.iter().map(String::as_str).collect();
        let help = out(&words);
        for line in help.lines().filter(|line| !line.starts_with("Usage: ")) {
            assert!(line.chars().count() <= 80, "{words:?}: {line}");
        }
        for name in commands_in(&help) {
            let mut below = page.clone();
            below.insert(page.len() - 1, name.to_owned());
            pages.push(below);
        }
    }
}

/// The long options that a help text describes.
fn options_in(help: &str) -> impl Iterator<Item = &str> {
    let lines = help.lines().map(str::trim_start);
    let lines = lines.filter(|line| line.starts_with('-'));
    lines.filter_map(|line| line.split_whitespace().find(|word| word.starts_with("--")))
}

#[test]
fn every_command_has_a_page_that_names_its_options() {
    let read = |name: &str| std::fs::read_to_string(repository(name)).unwrap_or_default();
    let index = read("docs/README.md");
    let exports = read("docs/exports.md");
    for name in commands_in(&out(&["--help"])) {
        let page = read(&format!("docs/{name}.md"));
        assert!(
            page.contains(&format!("`stormlog {name}")),
            "docs/{name}.md"
        );
        assert!(
            index.contains(&format!("({name}.md)")),
            "docs/README.md: {name}.md"
        );
        for option in options_in(&out(&[name, "--help"])) {
            let is_described = page.contains(option) || exports.contains(option);
            assert!(
                is_described || option == "--help",
                "docs/{name}.md: {option}"
            );
        }
    }
}

#[test]
fn help_texts() {
    for command in commands_in(&out(&["--help"])) {
        insta::assert_snapshot!(
            format!("help_of_{command}"),
            transcript(&[command, "--help"])
        );
    }
}

#[test]
fn without_arguments_the_help_is_bad_usage() {
    let output = crate::support::stormlog(&[]).output().expect("it starts");
    assert_eq!(output.status.code(), Some(1));
    assert!(output.stdout.is_empty());
    assert_eq!(String::from_utf8_lossy(&output.stderr), out(&["--help"]));
}

#[test]
fn bad_usage_is_told_on_standard_error_and_ends_with_1() {
    let usages: [&[&str]; 5] = [
        &["shw"],
        &["pack"],
        &["show", "--jsn", "x"],
        &["convert", "x"],
        &["completions", "cmd"],
    ];
    for (number, usage) in usages.into_iter().enumerate() {
        insta::assert_snapshot!(format!("bad_usage_{number}"), transcript(usage));
    }
}

#[test]
fn the_version() {
    assert_eq!(
        out(&["--version"]),
        format!("stormlog {}\n", env!("CARGO_PKG_VERSION"))
    );
}

#[test]
fn completions_name_every_command() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = out(&["completions", shell]);
        for command in ["show", "validate", "convert", "completions"] {
            assert!(script.contains(command), "{command} in {shell}");
        }
    }
}
