//! Joins the modules of the script of pages into one file, which `html.rs` includes.

#[path = "src/join.rs"]
mod join;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

/// The modules that do something by themselves.
const ENTRIES: [&str; 2] = ["plot.js", "held.js"];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo::rerun-if-changed=assets/page");
    println!("cargo::rerun-if-changed=src/join.rs");
    let modules = read(Path::new("assets/page"))?;
    let script = join::join(&modules, &ENTRIES)?;
    let out = env::var_os("OUT_DIR").ok_or("cargo sets OUT_DIR")?;
    fs::write(PathBuf::from(out).join("page.js"), script)?;
    Ok(())
}

/// The text of each script of a folder by its file name.
fn read(folder: &Path) -> io::Result<BTreeMap<String, String>> {
    let mut modules = BTreeMap::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|end| end == "js")
            && let Some(name) = path.file_name()
        {
            let name = name.to_string_lossy().into_owned();
            modules.insert(name, fs::read_to_string(&path)?);
        }
    }
    Ok(modules)
}
