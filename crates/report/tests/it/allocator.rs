//! Pages of snapshots of PyTorch's allocator.

use std::path::Path;

use stormlog_analysis::allocator_snapshot::{Account, Owners, Snapshot, read};
use stormlog_report::{AllocatorLimits, Theme, allocator_page, allocator_still};

fn account(owners: &str) -> Account {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/snapshots");
    let bytes = read(&root.join("h200_train/cuda_allocator_snapshot.pickle")).expect("the fixture");
    let snapshot = Snapshot::parse(&bytes).expect("a snapshot");
    let owners = Owners::parse(owners.as_bytes()).expect("names");
    Account::of(&snapshot, &owners, 0)
}

/// The largest block of the fixture, with a name of our own.
fn named(name: &str) -> Account {
    let largest = account("{}").live[0].address.expect("an address");
    let name = serde_json::to_string(name).expect("text");
    account(&format!(
        "{{\"attributed_storage_pointers\": [{{\"storage_ptr_int\": {largest}, \"names\": [{name}], \
         \"tensors\": [{{\"shape\": [2, 3], \"dtype\": {name}}}]}}]}}"
    ))
}

fn rows(page: &str, table: &str) -> usize {
    let (_, rest) = page
        .split_once(&format!("id=\"{table}\""))
        .expect("the table");
    let (table, _) = rest.split_once("</table>").expect("its end");
    table.matches("<tr>").count() - 1
}

#[test]
fn a_page_has_everything() {
    let page = allocator_page(&named("fc.weight"), Theme::Light).unwrap();
    assert_eq!(rows(&page, "live"), 111);
    assert!(rows(&page, "holders") > 10);
    assert_eq!(page.matches("<figure").count(), 26);
    for text in [
        "267 MiB",
        "310 MiB",
        "fc.weight",
        "[2, 3]",
        "step (train.py:26)",
    ] {
        assert!(page.contains(text), "{text}");
    }
    // The notes of the timeline are in its data.
    assert!(page.contains("+7.81 MiB step (train.py:26)"));
    let page = page.replace("http://www.w3.org/2000/svg", "");
    assert!(!page.contains("http:") && !page.contains("https:"));
}

#[test]
fn names_that_mean_harm_are_text() {
    let hostile = "</script><script>alert(1)</script>\" onload=\"x\u{202e}\u{1b}[31m";
    let account = named(hostile);
    for page in [
        allocator_page(&account, Theme::Dark).unwrap(),
        allocator_still(&account, &AllocatorLimits::PAGE).unwrap(),
    ] {
        assert!(page.contains("alert(1)"));
        assert!(!page.contains("<script>alert"));
        assert!(!page.contains("\" onload"));
        assert!(!page.contains(['\u{202e}', '\u{1b}']));
    }
}

#[test]
fn a_page_without_scripts_keeps_to_its_limits() {
    let limits = AllocatorLimits {
        timeline_points: 40,
        marks: 2,
        holders: 3,
        live: 4,
        segments: 5,
    };
    let page = allocator_still(&named("fc.weight"), &limits).unwrap();
    assert!(!page.contains("<script"));
    assert_eq!((rows(&page, "holders"), rows(&page, "live")), (3, 4));
    assert_eq!(page.matches("<figure").count(), 5);
    assert!(page.contains("107 smaller blocks not listed"));
    // Once for light and once for dark.
    assert_eq!(page.matches("aria-label").count(), 5);
    assert_eq!(page.matches("<svg xmlns").count(), 2);
    let none = AllocatorLimits {
        timeline_points: 0,
        marks: 0,
        holders: 0,
        live: 0,
        segments: 0,
    };
    assert!(allocator_still(&account("{}"), &none).is_ok());
}

#[test]
fn a_snapshot_without_a_history_has_no_timeline() {
    let snapshot = Snapshot::parse(b"\x80\x04}.").unwrap();
    let empty = Account::of(&snapshot, &Owners::default(), 1);
    let page = allocator_page(&empty, Theme::Light).unwrap();
    assert!(page.contains("no history recorded") && page.contains("not recorded"));
    assert!(page.contains("cuda:1") && !page.contains("<svg xmlns"));
}

#[test]
fn a_segment_with_very_many_blocks_shows_the_largest() {
    // A thousand blocks of a byte, and behind them one of 250.
    let blocks = b"}\x8c\x04sizeK\x01s".repeat(1000);
    let pickle = [
        b"\x80\x04]}\x8c\x06blocks](",
        &blocks[..],
        b"}\x8c\x04sizeK\xfasesa.",
    ]
    .concat();
    let snapshot = Snapshot::parse(&pickle).unwrap();
    let account = Account::of(&snapshot, &Owners::default(), 0);
    let page = allocator_page(&account, Theme::Light).unwrap();
    assert_eq!(page.matches("<title>1 B ").count(), 399);
    assert_eq!(page.matches("<title>250 B ").count(), 1);
    assert!(page.contains("601 smaller blocks not drawn"));
}
