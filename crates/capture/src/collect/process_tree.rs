//! Finds a process and its descendants in `/proc`.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

/// The pids of a process and its descendants, the process itself first; empty when the process has
/// ended.
///
/// A kernel built with `CONFIG_PROC_CHILDREN` lists the children of each thread in a file. Reading
/// the children of a thread from the file costs a microsecond; without the file, every process of
/// the machine is read, which costs milliseconds.
pub fn descendants(proc: &Path, root: u32) -> Vec<u32> {
    if !proc.join(root.to_string()).is_dir() {
        return Vec::new();
    }
    let children = if has_children_files(proc, root) {
        Children::Listed(proc)
    } else {
        Children::Scanned(children_by_parent(proc))
    };
    let mut found = Vec::new();
    let mut waiting = vec![root];
    while let Some(pid) = waiting.pop() {
        // If a pid is reused between two reads, the process tree can contain a loop, so each pid is
        // followed once.
        if !found.contains(&pid) {
            found.push(pid);
            waiting.extend(children.of(pid));
        }
    }
    found
}

enum Children<'a> {
    /// The children of a process are read from the `children` file of each thread.
    Listed(&'a Path),
    /// The children of a process are found by reading the parent of every process of the machine.
    Scanned(HashMap<u32, Vec<u32>>),
}

impl Children<'_> {
    fn of(&self, pid: u32) -> Vec<u32> {
        match self {
            Self::Listed(proc) => listed_children(proc, pid),
            Self::Scanned(by_parent) => by_parent.get(&pid).cloned().unwrap_or_default(),
        }
    }
}

fn has_children_files(proc: &Path, pid: u32) -> bool {
    let pid = pid.to_string();
    proc.join(&pid)
        .join("task")
        .join(&pid)
        .join("children")
        .is_file()
}

fn listed_children(proc: &Path, pid: u32) -> Vec<u32> {
    let threads = fs::read_dir(proc.join(pid.to_string()).join("task"));
    let threads = threads.into_iter().flatten().flatten();
    let lists =
        threads.filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
    lists
        .flat_map(|list| {
            let pids = list.split_whitespace().filter_map(|pid| pid.parse().ok());
            pids.collect::<Vec<u32>>()
        })
        .collect()
}

fn children_by_parent(proc: &Path) -> HashMap<u32, Vec<u32>> {
    let mut children: HashMap<u32, Vec<u32>> = HashMap::new();
    for entry in fs::read_dir(proc).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let Some(pid) = name.to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        if let Some(parent) = parent_of(proc, pid) {
            children.entry(parent).or_default().push(pid);
        }
    }
    children
}

/// The pid of a process's parent, which is the second field after the program's name in the
/// kernel's file `stat`. The name is in parentheses and may itself contain spaces and parentheses,
/// so the fields are counted from the last closing parenthesis.
pub(crate) fn parent_of(proc: &Path, pid: u32) -> Option<u32> {
    let stat = fs::read_to_string(proc.join(pid.to_string()).join("stat")).ok()?;
    let after_name = stat.rsplit_once(')')?.1;
    after_name.split_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROCESSES: [(u32, &str, u32); 4] = [
        (1, "init", 0),
        (10, "a) S 1 (b", 1),
        (11, "x", 10),
        (12, "y", 11),
    ];

    #[test]
    fn finds_grandchildren_and_survives_odd_names() {
        let proc = tempfile::tempdir().unwrap();
        for (pid, name, parent) in PROCESSES {
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

    #[test]
    fn follows_the_lists_of_the_kernel_where_it_keeps_them() {
        let proc = tempfile::tempdir().unwrap();
        for (pid, children) in [(10, "11 \n"), (11, "12"), (12, "")] {
            let folder = proc.path().join(format!("{pid}/task/{pid}"));
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join("children"), children).unwrap();
        }
        // In this test, a second thread of the process has a child of its own.
        let thread = proc.path().join("10/task/77");
        fs::create_dir_all(&thread).unwrap();
        fs::write(thread.join("children"), "13").unwrap();
        let mut found = descendants(proc.path(), 10);
        found.sort_unstable();
        assert_eq!(found, [10, 11, 12, 13]);
    }
}
