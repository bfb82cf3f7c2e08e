use std::fs;

use stormlog_capture::oom::{Dump, Retention, prune, write};
use stormlog_format::Map;
use stormlog_format::json::parse;

fn dump() -> Dump {
    let mut secret = Map::new();
    secret.insert("api_key", "hunter2");
    secret.insert("batch", 8);
    Dump {
        reason: "r".into(),
        exception: ["E".into(), "m".into(), "text".into()],
        context: None,
        backend: "tf gpu/0".into(),
        events: vec![Map::new()],
        custom_metadata: secret,
        session: None,
        system: Map::new(),
        pid: 7,
        cwd: "/".into(),
    }
}

#[test]
fn a_bundle_is_whole_and_holds_no_secret() {
    let root = tempfile::tempdir().unwrap();
    let path = write(root.path(), dump(), "S", "C", 1).unwrap();
    assert_eq!(path.file_name().unwrap(), "oom_dump_S_7_tf_gpu_0_1");
    let again = write(root.path(), dump(), "S", "C", 1).unwrap();
    assert_eq!(again.file_name().unwrap(), "oom_dump_S_7_tf_gpu_0_2");
    for name in [
        "manifest.json",
        "events.json",
        "metadata.json",
        "environment.json",
    ] {
        let text = fs::read(path.join(name)).unwrap();
        parse(&text).unwrap();
        assert!(!String::from_utf8(text).unwrap().contains("hunter2"));
    }
    let file = root.path().join("file");
    fs::write(&file, "x").unwrap();
    assert!(write(&file, dump(), "S", "C", 1).is_err());
}

#[test]
fn links_and_other_directories_are_left_alone() {
    let root = tempfile::tempdir().unwrap();
    let elsewhere = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(elsewhere.path(), root.path().join("oom_dump_link")).unwrap();
    fs::create_dir(root.path().join("other")).unwrap();
    for name in ["oom_dump_a", "oom_dump_b"] {
        fs::create_dir(root.path().join(name)).unwrap();
    }
    let retention = Retention {
        max_dumps: 1,
        max_total_mb: 0,
    };
    prune(root.path(), retention);
    assert!(elsewhere.path().exists());
    assert_eq!(fs::read_dir(root.path()).unwrap().count(), 3);
}

#[test]
fn of_bundles_of_one_moment_the_last_ones_stay() {
    let root = tempfile::tempdir().unwrap();
    let now = std::time::SystemTime::now();
    for number in 1..=11 {
        let bundle = root.path().join(format!("oom_dump_S_7_cuda_{number}"));
        fs::create_dir(&bundle).unwrap();
        fs::File::open(&bundle).unwrap().set_modified(now).unwrap();
    }
    let retention = Retention {
        max_dumps: 2,
        max_total_mb: 0,
    };
    prune(root.path(), retention);
    let mut left: Vec<_> = fs::read_dir(root.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    left.sort();
    assert_eq!(left, ["oom_dump_S_7_cuda_10", "oom_dump_S_7_cuda_11"]);
}
