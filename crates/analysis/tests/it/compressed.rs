//! Tests every format compressed, both complete and truncated.

use flate2::Compression;
use stormlog_analysis::LoadError;

use crate::support::{
    events, fixture, folder, gzip, lines, load, load_around_damage, refused, steps, write,
};

#[test]
fn every_format_and_compression_gives_the_same_events() {
    let plain = events(&load(&fixture("compressed/events.jsonl")));
    assert_eq!(plain.len(), 8);
    for format in ["jsonl", "json", "csv"] {
        for suffix in ["", ".gz", ".zst"] {
            let path = fixture(&format!("compressed/events.{format}{suffix}"));
            assert_eq!(events(&load(&path)), plain, "{}", path.display());
        }
    }
}

#[test]
fn a_sink_may_have_compressed_segments() {
    let loaded = load(&fixture("compressed/sink"));
    assert_eq!(events(&loaded), events(&load(&fixture("two_ranks"))));
    assert_eq!(loaded.damage, []);
}

#[test]
fn of_several_copies_of_a_segment_one_is_read() {
    let packed = || gzip(lines(2).as_bytes(), Compression::fast());
    for suffixes in [["", ".gz"], ["", ".zst"], [".gz", ".zst"]] {
        let folder = folder();
        for suffix in suffixes {
            let content = match suffix {
                "" => lines(2).into_bytes(),
                _ => packed(),
            };
            write(&folder, &format!("segment-000001.jsonl{suffix}"), content);
        }
        assert_eq!(events(&load(folder.path())).len(), 2, "{suffixes:?}");
    }
}

#[test]
fn a_cut_file_of_lines_gives_what_came_before_the_cut() {
    let loaded = load(&fixture("compressed/truncated.jsonl.gz"));
    let steps = steps(&events(&loaded));
    assert!(steps.len() > 5);
    assert_eq!(steps, (0..).take(steps.len()).collect::<Vec<_>>());
    let last = loaded.damage.last().expect("damage is listed");
    assert!(last.reason.starts_with("the file ends too early"), "{last}");
}

#[test]
fn cut_documents_and_tables_end() {
    let folder = folder();
    for name in ["events.json", "events.csv"] {
        for suffix in ["gz", "zst"] {
            let whole =
                std::fs::read(fixture(&format!("compressed/{name}.{suffix}"))).expect("readable");
            for cut in [3, 10, whole.len() / 2, whole.len() - 5] {
                let path = write(&folder, &format!("{name}.{suffix}"), &whole[..cut]);
                // A file truncated within its first bytes is not recognized as compressed.
                let error = refused(&path);
                assert!(
                    matches!(
                        error,
                        LoadError::Io { .. }
                            | LoadError::Csv { .. }
                            | LoadError::Json { .. }
                            | LoadError::NotUtf8 { .. }
                    ),
                    "{name}.{suffix} cut at {cut}: {error:?}"
                );
                if cut > 10 {
                    assert!(matches!(error, LoadError::Io { .. }), "{error:?}");
                    let loaded = load_around_damage(&path);
                    assert!(events(&loaded).len() <= 8);
                    assert_eq!(loaded.damage.len(), 1, "{:?}", loaded.damage);
                }
            }
        }
    }
}

#[test]
fn bundles_may_be_compressed() {
    for (bundle, file) in [
        ("diagnose_bundle", "telemetry_timeline.json"),
        (
            "oom_bundle/oom_dump_20261115T070544Z_962_cuda_1",
            "events.json",
        ),
    ] {
        let plain = load(&fixture(bundle));
        let folder = folder();
        let read = |name: &str| std::fs::read(fixture(bundle).join(name)).expect("readable");
        write(&folder, "manifest.json", read("manifest.json"));
        write(
            &folder,
            &format!("{file}.gz"),
            gzip(&read(file), Compression::fast()),
        );
        let packed = load(folder.path());
        assert_eq!(events(&packed), events(&plain), "{bundle}");
        assert_eq!(packed.damage, []);
    }
}
