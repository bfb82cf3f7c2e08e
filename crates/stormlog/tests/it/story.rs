//! Runs the commands of pages under docs and compares what they print. With `STORMLOG_WRITE_DOCS=1`
//! the pages are written again with what the commands print.

use std::path::Path;

use crate::artifacts::{program, repository};

/// A command of the page, what it prints, and how it ends.
struct Step {
    command: String,
    prints: String,
    code: i32,
}

fn steps(page: &str) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    let mut inside = false;
    for line in page.lines() {
        match (line, inside) {
            ("```console", _) => inside = true,
            ("```", _) => inside = false,
            (line, true) => match (line.strip_prefix("$ "), line.strip_prefix("? ")) {
                (Some(command), _) => steps.push(Step {
                    command: command.into(),
                    prints: String::new(),
                    code: 0,
                }),
                (None, Some(code)) => {
                    let step = steps.last_mut().expect("a command before its end");
                    step.code = code.parse().expect("an exit code");
                }
                (None, None) => {
                    let step = steps.last_mut().expect("a command before its text");
                    step.prints.push_str(line);
                    step.prints.push('\n');
                }
            },
            _ => {}
        }
    }
    steps
}

/// The words of a command line; quotes keep words together.
fn words(command: &str) -> Vec<String> {
    let parts = command.split('\'').enumerate();
    let mut words = Vec::new();
    for (place, part) in parts {
        if place % 2 == 1 {
            words.push(part.to_owned());
        } else {
            words.extend(part.split_whitespace().map(str::to_owned));
        }
    }
    words
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("a folder");
    for entry in std::fs::read_dir(from).expect("the fixture") {
        let entry = entry.expect("an entry");
        let to = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &to);
        } else {
            std::fs::copy(entry.path(), to).expect("a copy");
        }
    }
}

#[test]
fn the_page_on_issues_tells_what_happens() {
    replay("docs/issues.md", 6);
}

#[test]
fn the_page_on_comparing_tells_what_happens() {
    replay("docs/compare.md", 5);
}

#[test]
fn the_page_on_analyzing_shows_what_is_printed() {
    replay("docs/analyze.md", 1);
}

fn replay(name: &str, at_least: usize) {
    let file = repository(name);
    let mut page = std::fs::read_to_string(&file).expect("the page");
    let folder = tempfile::tempdir().expect("a folder");
    let steps = steps(&page);
    assert!(steps.len() >= at_least, "the story is on the page");
    let writes = std::env::var_os("STORMLOG_WRITE_DOCS").is_some();
    for step in steps {
        let words = words(&step.command);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        match words.as_slice() {
            ["cp", "-r", from, to] => {
                let from = repository(from);
                let name = from.file_name().expect("a name");
                copy(&from, &folder.path().join(to).join(name));
            }
            ["stormlog", arguments @ ..] => {
                let output = program(folder.path()).args(arguments).output();
                let output = output.expect("the program starts");
                let out = String::from_utf8(output.stdout).expect("text");
                if writes {
                    let block = |printed: &str| format!("$ {}\n{printed}", step.command);
                    page = page.replacen(&block(&step.prints), &block(&out), 1);
                } else {
                    assert_eq!(out, step.prints, "$ {}", step.command);
                }
                assert_eq!(output.status.code(), Some(step.code), "$ {}", step.command);
            }
            other => panic!("the page may use cp -r and stormlog, not {other:?}"),
        }
    }
    if writes {
        std::fs::write(file, page).expect("the page is written");
    }
}
