//! The identity of a run: its id, its command, the directory and git commit in which it was
//! started, and its launcher.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use stormlog_analysis::regular_file;
use stormlog_format::{DistributedIdentity, Map, Text, Value, new_session_id};
use stormlog_redact::{redacted, redacted_str, redacted_words};

use super::Plan;

/// The environment variable with the run id; it is set if this command was started by another
/// `stormlog` command, which has assigned the id.
pub(super) const RUN_ID: &str = "STORMLOG_RUN_ID";

/// Environment variables whose value is the same for all processes of one launch and differs
/// between launches.
const LAUNCH_IDS: [&str; 6] = [
    "TORCHELASTIC_RUN_ID",
    "PMIX_NAMESPACE",
    "OMPI_MCA_orte_hnp_uri",
    "PALS_APID",
    "LSB_JOBID",
    "SLURM_JOB_ID",
];

const LAUNCHERS: [&str; 7] = [
    "torchrun",
    "accelerate",
    "deepspeed",
    "mpirun",
    "mpiexec",
    "srun",
    "horovodrun",
];

/// The id of this run. Ranks that a launcher starts separately compute the same id, so that they
/// belong to one run.
pub(super) fn run_id(root: &Path, identity: &DistributedIdentity) -> String {
    let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    if let Some(id) = variable(RUN_ID) {
        return id;
    }
    if identity.world_size > 1 {
        let step = variable("SLURM_STEP_ID").unwrap_or_default();
        let mut launches = LAUNCH_IDS.iter().filter_map(|name| variable(name));
        if let Some(launch) = launches.next() {
            let root = root.display().to_string();
            let parts = [launch, step, root].map(Text::from);
            return stormlog_format::stable_legacy_session_id(&parts).to_string();
        }
    }
    new_session_id().to_string()
}

/// The description of a run (its command, program, name, directory, commit and launcher) that is
/// stored in its first event.
pub(super) fn describe(id: &str, plan: &Plan<'_>, identity: &DistributedIdentity) -> Map {
    let words: Vec<String> = plan
        .command
        .iter()
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    let directory = std::env::current_dir().unwrap_or_default();
    let mut map = Map::new();
    map.insert("id", id);
    let list = words.iter().map(|word| Value::text(&**word)).collect();
    map.insert("command", redacted(Value::List(list)));
    map.insert("program", &*program(&words));
    if let Some(name) = plan.name {
        map.insert("name", redacted_str(name).as_ref());
    }
    map.insert("cwd", &*directory.to_string_lossy());
    map.insert("git_commit", git_commit(&directory).map(Text::from));
    map.insert("launcher", launcher(&words).map(Text::from));
    map.insert("job_id", identity.job_id.clone());
    map.insert("stormlog_version", env!("CARGO_PKG_VERSION"));
    map.insert("interval_s", Value::Float(plan.interval.as_secs_f64()));
    map
}

/// The name of a program for reports: the script, the module, or the command itself.
pub(super) fn program(words: &[String]) -> String {
    let script = words
        .iter()
        .find(|word| Path::new(word).extension().is_some_and(|end| end == "py"));
    let file_name = |path: &str| {
        let name = Path::new(path).file_name();
        name.map_or_else(|| path.into(), OsStr::to_string_lossy)
            .into_owned()
    };
    if let Some(script) = script {
        return file_name(script);
    }
    let module = words.iter().position(|word| word == "-m");
    if let Some(module) = module.and_then(|index| words.get(index + 1)) {
        return module.clone();
    }
    let first = words.first().map(String::as_str).unwrap_or_default();
    redacted_words(&[file_name(first)])
}

fn launcher(words: &[String]) -> Option<&'static str> {
    let mut names = words.iter().take(4).filter_map(|word| {
        let name = Path::new(word).file_name()?.to_str()?;
        let name = name
            .strip_prefix("torch.distributed.")
            .map_or(name, |_| "torchrun");
        LAUNCHERS.into_iter().find(|known| *known == name)
    });
    names.next().or_else(|| {
        let is_set = |name: &str| std::env::var_os(name).is_some();
        let started_by = [
            ("SLURM_STEP_ID", "srun"),
            ("OMPI_COMM_WORLD_SIZE", "mpirun"),
            ("PMIX_RANK", "mpirun"),
            ("TORCHELASTIC_RUN_ID", "torchrun"),
        ];
        let found = started_by.into_iter().find(|(name, _)| is_set(name));
        found.map(|(_, launcher)| launcher)
    })
}

/// The largest git file in bytes that is read; even the `packed-refs` of large repositories is
/// smaller.
const MOST_GIT_BYTES: u64 = 64 << 20;

/// Reads a file of a git repository, which may belong to another user and is therefore not trusted.
fn text_of(file: impl AsRef<Path>) -> Option<String> {
    let bytes = regular_file::read(file.as_ref(), MOST_GIT_BYTES).ok()?;
    String::from_utf8(bytes).ok()
}

/// The commit that is checked out in a directory or one of its parents, read from the files of git.
fn git_commit(directory: &Path) -> Option<String> {
    let mut candidates = directory.ancestors().map(|folder| folder.join(".git"));
    let git = candidates.find(|git| git.exists())?;
    let git = if git.is_dir() {
        git
    } else {
        // In a git worktree, `.git` is a file that contains the path of the git directory.
        let text = text_of(&git)?;
        let named = PathBuf::from(text.trim().strip_prefix("gitdir: ")?);
        git.parent()?.join(named)
    };
    let head = text_of(git.join("HEAD"))?;
    let head = head.trim();
    let Some(reference) = head.strip_prefix("ref: ") else {
        return is_commit(head).then(|| head.to_owned());
    };
    // The branches of a git worktree are stored in the repository to which it belongs.
    let common = text_of(git.join("commondir"));
    let common = common.map_or_else(|| git.clone(), |path| git.join(path.trim()));
    let loose = text_of(common.join(reference));
    let commit = loose.map(|text| text.trim().to_owned()).or_else(|| {
        let packed = text_of(common.join("packed-refs"))?;
        let mut lines = packed.lines();
        lines.find_map(|line| Some(line.strip_suffix(reference)?.trim().to_owned()))
    });
    commit.filter(|commit| is_commit(commit))
}

fn is_commit(text: &str) -> bool {
    text.len() >= 40 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn words(line: &str) -> Vec<String> {
        line.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn a_program_is_known_by_its_script() {
        let cases = [
            ("python /a/train.py --x 1", "train.py"),
            ("torchrun --nproc-per-node 2 train.py", "train.py"),
            ("python -m pkg.train --lr 1", "pkg.train"),
            ("/bin/serve --port 1", "serve"),
        ];
        for (line, name) in cases {
            assert_eq!(program(&words(line)), name);
        }
        assert_eq!(launcher(&words("torchrun train.py")), Some("torchrun"));
    }

    #[test]
    fn the_commit_is_found_in_loose_and_packed_references() {
        let folder = tempfile::tempdir().unwrap();
        let git = folder.path().join(".git");
        let below = folder.path().join("a/b");
        fs::create_dir_all(git.join("refs/heads")).unwrap();
        fs::create_dir_all(&below).unwrap();
        let commit = "0123456789abcdef0123456789abcdef01234567";
        fs::write(git.join("HEAD"), "ref: refs/heads/main\n").unwrap();
        assert_eq!(git_commit(&below), None);
        fs::write(
            git.join("packed-refs"),
            format!("# x\n{commit} refs/heads/main\n"),
        )
        .unwrap();
        assert_eq!(git_commit(&below).as_deref(), Some(commit));
        let newer = commit.replace('0', "f");
        fs::write(git.join("refs/heads/main"), format!("{newer}\n")).unwrap();
        assert_eq!(git_commit(&below), Some(newer.clone()));
        fs::write(git.join("HEAD"), format!("{newer}\n")).unwrap();
        assert_eq!(git_commit(folder.path()), Some(newer));
    }
}
