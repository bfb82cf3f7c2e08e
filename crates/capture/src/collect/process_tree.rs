//! A process and its descendants, from `/proc`.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

/// The process and everything below it, the process first; empty when it is gone.
pub fn descendants(proc: &Path, root: u32) -> Vec<u32> {
    let mut children: HashMap<u32, Vec<u32>> = HashMap::new();
    let mut root_lives = false;
    let Ok(entries) = fs::read_dir(proc) else {
        return Vec::new();
    };
    for entry in entries.flatten() {
        let Some(pid) = entry
            .file_name()
            .to_str()
            .and_then(|name| name.parse().ok())
        else {
            continue;
        };
        root_lives |= pid == root;
        if let Some(parent) = parent_of(proc, pid) {
            children.entry(parent).or_default().push(pid);
        }
    }
    let mut found = Vec::new();
    let mut waiting = if root_lives { vec![root] } else { Vec::new() };
    while let Some(pid) = waiting.pop() {
        // A pid met twice would be a loop made by reuse between two reads.
        if !found.contains(&pid) {
            found.push(pid);
            waiting.extend(children.get(&pid).into_iter().flatten());
        }
    }
    found
}

/// The parent of a process: the second field after the name, which may hold any character.
fn parent_of(proc: &Path, pid: u32) -> Option<u32> {
    let stat = fs::read_to_string(proc.join(pid.to_string()).join("stat")).ok()?;
    let after_name = stat.rsplit_once(')')?.1;
    after_name.split_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_grandchildren_and_survives_odd_names() {
        let proc = tempfile::tempdir().unwrap();
        for (pid, name, parent) in [
            (1, "init", 0),
            (10, "a) S 1 (b", 1),
            (11, "x", 10),
            (12, "y", 11),
        ] {
            let folder = proc.path().join(pid.to_string());
            fs::create_dir(&folder).unwrap();
            fs::write(
                folder.join("stat"),
                format!("{pid} ({name}) S {parent} 0 0"),
            )
            .unwrap();
        }
        assert_eq!(descendants(proc.path(), 10), [10, 11, 12]);
        assert!(descendants(proc.path(), 99).is_empty());
    }
}
