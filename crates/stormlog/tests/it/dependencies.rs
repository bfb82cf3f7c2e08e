//! What the program depends on keeps to deny.toml: licences, sources, and no newer Rust than
//! Cargo.toml declares. `cargo deny check` checks advisories too.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

/// The quoted words of a list in deny.toml.
fn allowed_licences() -> Vec<String> {
    let text = std::fs::read_to_string(root().join("deny.toml")).expect("it is there");
    let (_, list) = text.split_once("allow = [").expect("a list of licences");
    let (list, _) = list.split_once(']').expect("the end of the list");
    let words = list.split('"').skip(1).step_by(2);
    words.map(str::to_owned).collect()
}

/// Whether an SPDX expression can be met with some licences. `/` is how older crates write `OR`.
fn is_met(expression: &str, allowed: &[String]) -> bool {
    let spaced = expression.replace('/', " OR ");
    let spaced = spaced.replace('(', " ( ").replace(')', " ) ");
    let mut words = spaced.split_whitespace().peekable();
    any(&mut words, allowed)
}

type Words<'a> = std::iter::Peekable<std::str::SplitWhitespace<'a>>;

fn any(words: &mut Words<'_>, allowed: &[String]) -> bool {
    let mut met = all(words, allowed);
    while words.next_if_eq(&"OR").is_some() {
        met |= all(words, allowed);
    }
    met
}

fn all(words: &mut Words<'_>, allowed: &[String]) -> bool {
    let mut met = one(words, allowed);
    while words.next_if_eq(&"AND").is_some() {
        met &= one(words, allowed);
    }
    met
}

fn one(words: &mut Words<'_>, allowed: &[String]) -> bool {
    let mut licence = words.next().expect("a licence").to_owned();
    if licence == "(" {
        let met = any(words, allowed);
        assert_eq!(words.next(), Some(")"));
        return met;
    }
    if words.next_if_eq(&"WITH").is_some() {
        licence = format!("{licence} WITH {}", words.next().expect("an exception"));
    }
    allowed.contains(&licence)
}

fn version(text: &str) -> Vec<u32> {
    let numbers = text.split('.').map(|number| number.parse());
    let mut numbers: Vec<u32> = numbers.collect::<Result<_, _>>().expect("numbers");
    numbers.resize(3, 0);
    numbers
}

#[test]
fn dependencies_keep_to_the_licences_the_registry_and_the_rust_version() {
    let listed = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--locked"])
        .current_dir(root())
        .output()
        .expect("cargo runs");
    let errors = String::from_utf8_lossy(&listed.stderr);
    assert!(listed.status.success(), "{errors}");
    let metadata: Value = serde_json::from_slice(&listed.stdout).expect("JSON");
    let packages = metadata["packages"].as_array().expect("packages");
    let own = |package: &&Value| package["source"].is_null();
    let declared: Vec<&str> = packages
        .iter()
        .filter(own)
        .map(|package| package["rust_version"].as_str().expect("it is declared"))
        .collect();
    assert!(
        declared.iter().all(|one| *one == declared[0]),
        "{declared:?}"
    );
    let allowed = allowed_licences();
    for package in packages {
        let name = &package["name"];
        let licence = package["license"].as_str().unwrap_or_default();
        assert!(is_met(licence, &allowed), "{name}: licence '{licence}'");
        let source = package["source"].as_str();
        let registry = "registry+https://github.com/rust-lang/crates.io-index";
        assert!(
            source.is_none_or(|source| source == registry),
            "{name}: {source:?}"
        );
        let needed = package["rust_version"].as_str();
        let is_older = |needed: &str| version(needed) <= version(declared[0]);
        assert!(needed.is_none_or(is_older), "{name} needs Rust {needed:?}");
    }
}

#[test]
fn expressions_of_licences() {
    let allowed = ["MIT", "Zlib", "Apache-2.0 WITH LLVM-exception"].map(str::to_owned);
    for met in [
        "MIT",
        "GPL-3.0 OR MIT",
        "Unlicense/MIT",
        "(MIT OR X) AND Zlib",
        "Apache-2.0 WITH LLVM-exception",
    ] {
        assert!(is_met(met, &allowed), "{met}");
    }
    for unmet in [
        "GPL-3.0",
        "MIT AND GPL-3.0",
        "(MIT OR X) AND Y",
        "Apache-2.0",
    ] {
        assert!(!is_met(unmet, &allowed), "{unmet}");
    }
}
