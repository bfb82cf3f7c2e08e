//! Tests reading snapshots of PyTorch's allocator: a real one, and malicious pickles.

use std::path::PathBuf;

use proptest::prelude::*;
use stormlog_analysis::allocator_snapshot::{
    Account, Action, Owners, Snapshot, SnapshotError, Totals, is_pickle, read,
};

fn fixture(name: &str) -> PathBuf {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/snapshots");
    root.join("h200_train").join(name)
}

fn real() -> Vec<u8> {
    read(&fixture("cuda_allocator_snapshot.pickle")).expect("the fixture")
}

fn owners() -> Owners {
    let path = fixture("cuda_tensor_attribution.json");
    let document = std::fs::read(path).expect("the fixture");
    Owners::parse(&document).expect("its JSON")
}

#[test]
fn a_real_snapshot() {
    assert!(is_pickle(&fixture("cuda_allocator_snapshot.pickle")));
    assert!(!is_pickle(&fixture("cuda_tensor_attribution.json")));
    let bytes = real();
    let snapshot = Snapshot::parse(&bytes).unwrap();
    assert_eq!(snapshot.devices(), [0]);
    let account = Account::of(&snapshot, &owners(), 0);
    let totals = account.totals;
    // Python computes the same totals for this file.
    assert_eq!(totals.requested_bytes, 234_633_728);
    assert_eq!(totals.allocated_bytes, 238_698_496);
    assert_eq!(totals.reserved_bytes, 325_058_560);
    assert_eq!(totals.peak_requested_bytes, Some(280_352_900));
    assert_eq!(totals.peak_reserved_bytes, Some(325_058_560));
    assert_eq!((totals.segments, totals.live_blocks), (26, 111));
    assert_eq!(
        (totals.events, totals.named_blocks, totals.ooms),
        (300, 4, 0)
    );
    let last = account.moments.last().unwrap();
    assert_eq!(last.allocated_bytes, totals.requested_bytes);
    assert_eq!(account.live.len(), 111);
    assert_eq!(account.live[0].bytes, 33_554_432);
    let named = &account.live[0].owner;
    assert_eq!(named.names, ["embedding.weight"]);
    assert_eq!(named.shape.as_deref(), Some("[16384, 512]"));
    assert_eq!(account.spans.len(), 2);
    assert_eq!(account.spans[0].name, "Optimizer.zero_grad#AdamW.zero_grad");
    let at_peak: i64 = account.holders.iter().map(|one| one.at_peak_bytes).sum();
    assert_eq!(Some(at_peak), totals.peak_requested_bytes);
    assert!(
        account
            .holders
            .iter()
            .any(|one| one.place.contains("train.py:"))
    );
    assert!(
        account
            .holders
            .iter()
            .any(|one| one.place.starts_with("backward pass ("))
    );
    let allocations = account.moments.iter();
    assert!(
        allocations
            .filter(|moment| moment.action == Action::Alloc)
            .any(|moment| account
                .place_at(moment)
                .is_some_and(|line| line.contains(".py:")))
    );
}

#[test]
fn a_device_without_memory_and_a_snapshot_without_anything() {
    let bytes = real();
    let snapshot = Snapshot::parse(&bytes).unwrap();
    let other = Account::of(&snapshot, &owners(), 3);
    assert_eq!(other.totals, Totals::default());
    assert!(other.moments.is_empty() && other.holders.is_empty());
    let empty = Snapshot::parse(b"\x80\x04}.").unwrap();
    assert_eq!(
        Account::of(&empty, &Owners::default(), 0).totals,
        Totals::default()
    );
    let list = Snapshot::parse(b"\x80\x04].").unwrap();
    assert!(list.devices().is_empty());
}

fn refused(bytes: &[u8]) -> String {
    match Snapshot::parse(bytes) {
        Ok(_) => "read".to_owned(),
        Err(error) => error.to_string(),
    }
}

#[test]
fn what_is_no_snapshot_is_refused() {
    assert!(refused(b"").contains("not a snapshot of PyTorch's allocator"));
    assert!(refused(b"{\"segments\": []}").contains("not a snapshot"));
    // pickle.dumps(7), and a snapshot whose segments are a number.
    assert!(refused(b"\x80\x04K\x07.").contains("not a snapshot"));
    assert!(refused(b"\x80\x04}\x8c\x08segmentsK\x07s.").contains("not a snapshot"));
    let real = real();
    assert!(refused(&real[..real.len() / 2]).contains("not a snapshot"));
    let endless = read(std::path::Path::new("/dev/zero"));
    let endless = endless.expect_err("a device is refused").to_string();
    assert_eq!(endless, "it is a character device, not a regular file");
    let sparse = tempfile::NamedTempFile::new().unwrap();
    sparse.as_file().set_len((64 << 20) + 1).unwrap();
    let sparse = read(sparse.path()).expect_err("it is refused").to_string();
    assert!(sparse.starts_with("it is a sparse file"), "{sparse}");
    let large = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(large.path(), vec![0; (64 << 20) + 1]).unwrap();
    assert!(matches!(read(large.path()), Err(SnapshotError::TooLarge)));
}

#[test]
fn nothing_is_run() {
    // A malicious pickle that calls `os.system("touch ...")` next to its segments.
    let marker = tempfile::tempdir().unwrap();
    let path = marker.path().join("ran");
    let command = format!("touch {}", path.display());
    let length = u8::try_from(command.len()).unwrap();
    let call = [
        b"cos\nsystem\n\x8c",
        &[length][..],
        command.as_bytes(),
        b"\x85R",
    ]
    .concat();
    let bytes = [b"\x80\x04}\x8c\x08segments]s\x8c\x01x", &call[..], b"s."].concat();
    assert_eq!(refused(&bytes), "read");
    assert!(!path.exists());
}

#[test]
fn neither_depth_nor_repetition_hurts() {
    // A million nested tuples, which overflow the stack of a recursive reader.
    let mut deep = b"\x80\x04}\x8c\x04deep)".to_vec();
    deep.extend(std::iter::repeat_n(0x85, 1_000_000));
    deep.extend(b"s.");
    assert_eq!(refused(&deep), "read");
    // Each list contains the previous one twice, which gives 2 to the power of 60 items.
    let mut bomb = b"\x80\x04]q\x000".to_vec();
    for place in 0..60_u8 {
        bomb.extend([
            b']',
            b'q',
            place + 1,
            b'h',
            place,
            b'a',
            b'h',
            place,
            b'a',
            b'0',
        ]);
    }
    bomb.extend(b"}\x8c\x04laugh\x3cs.");
    assert_eq!(refused(&bomb), "it repeats the same values too often");
    // A dictionary that contains itself.
    assert_eq!(refused(b"\x80\x04}q\x00\x8c\x04selfh\x00s."), "read");
    // Every byte creates a value.
    let mut dense = b"\x80\x04(".to_vec();
    dense.extend(b"N".repeat(9 << 20));
    assert!(refused(&dense).contains("more than 8388608 values"));
    // One long list of entries that is referenced very often.
    let mut again = b"\x80\x04}\x8c\x0ddevice_traces](](".to_vec();
    again.extend(b"}".repeat(30_000));
    again.extend(b"eq\x00");
    again.extend(b"h\x00".repeat(20_000));
    again.extend(b"es.");
    assert_eq!(refused(&again), "it repeats the same values too often");
}

/// A pickle that begins with a text of ten thousand letters, which `h\x00` refers to.
fn with_long_text(rest: &[&[u8]]) -> Vec<u8> {
    let text = [b"X\x10\x27\0\0", "x".repeat(10_000).as_bytes()].concat();
    [b"\x80\x04", &text[..], b"q\x000", &rest.concat()].concat()
}

#[test]
fn long_texts_are_not_copied_for_everything_that_refers_to_them() {
    let segments = b"}\x8c\x0csegment_typeh\x00s".repeat(3);
    let listed = with_long_text(&[b"](", &segments, b"e."]);
    let snapshot = Snapshot::parse(&listed).unwrap();
    let account = Account::of(&snapshot, &Owners::default(), 0);
    assert_eq!(account.segments.len(), 3);
    assert!(account.segments.iter().all(|one| one.pool.len() < 200));

    let annotation = |stage: &[u8]| {
        [
            b"(\x8c\x04nameh\x00\x8c\x05stage\x8c\x05",
            stage,
            b"\x8c\x07time_usK\x01d",
        ]
        .concat()
    };
    let pair = [annotation(b"START"), annotation(b"ENDED")].concat();
    let annotated = with_long_text(&[b"}\x8c\x14external_annotations](", &pair, b"es."]);
    let snapshot = Snapshot::parse(&annotated).unwrap();
    let account = Account::of(&snapshot, &Owners::default(), 0);
    assert_eq!(account.spans.len(), 1);
    assert!(account.spans[0].name.len() < 200);
}

#[test]
fn more_devices_than_there_are_is_refused() {
    let segments = |count: u8| {
        let one = |device| [b"}\x8c\x06deviceK", &[device][..], b"s"].concat();
        let all: Vec<u8> = (0..count).flat_map(one).collect();
        [b"\x80\x04](", &all[..], b"e."].concat()
    };
    assert_eq!(refused(&segments(128)), "read");
    assert!(refused(&segments(129)).contains("more than 128 devices"));
}

#[test]
fn a_tensor_without_a_name_is_not_counted_as_named() {
    let listed = b"\x80\x04]}\x8c\x06blocks](}\x8c\x07addressK\x01s}\x8c\x07addressK\x02sesa.";
    let owners = br#"{"attributed_storage_pointers": [
        {"storage_ptr_int": 1, "names": []}, {"storage_ptr_int": 2, "names": ["fc.weight"]}]}"#;
    let snapshot = Snapshot::parse(listed).unwrap();
    let account = Account::of(&snapshot, &Owners::parse(owners).unwrap(), 0);
    let totals = account.totals;
    assert_eq!((totals.live_blocks, totals.named_blocks), (2, 1));
}

#[test]
fn a_segment_without_a_device_is_counted_once() {
    let reserved = |bytes: &[u8], device| {
        let snapshot = Snapshot::parse(bytes).unwrap();
        let account = Account::of(&snapshot, &Owners::default(), device);
        account.totals.reserved_bytes
    };
    let alone = b"\x80\x04]}\x8c\x0atotal_sizeK\x07sa.";
    assert_eq!((reserved(alone, 0), reserved(alone, 3)), (7, 7));
    let two = b"\x80\x04](}\x8c\x0atotal_sizeK\x07s}\x8c\x06deviceK\x01se.";
    assert_eq!((reserved(two, 0), reserved(two, 1)), (7, 0));
}

#[test]
fn older_snapshots_say_where_a_block_is_in_its_past() {
    let block = b"}\x8c\x07history]}\x8c\x04addrK\x07sas";
    let listed = [b"\x80\x04]}\x8c\x06blocks]", &block[..], b"asa."].concat();
    let snapshot = Snapshot::parse(&listed).unwrap();
    let account = Account::of(&snapshot, &Owners::default(), 0);
    assert_eq!(account.live[0].address, Some(7));
    let nowhere = Snapshot::parse(b"\x80\x04]}\x8c\x06blocks]}asa.").unwrap();
    let account = Account::of(&nowhere, &Owners::default(), 0);
    assert_eq!(account.live[0].address, None);
}

#[test]
fn a_dictionary_of_something_else_has_no_content() {
    let has_content = |bytes: &[u8]| Snapshot::parse(bytes).unwrap().has_content();
    assert!(has_content(&real()));
    assert!(has_content(b"\x80\x04}\x8c\x08segments]s."));
    assert!(!has_content(b"\x80\x04}\x8c\x05modelK\x07s."));
}

fn damaged(mut bytes: Vec<u8>, changes: &[(usize, u8)]) -> Vec<u8> {
    for (place, byte) in changes {
        let place = place % bytes.len();
        bytes[place] = *byte;
    }
    bytes
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let _ = Snapshot::parse(&bytes);
        let _ = Owners::parse(&bytes);
    }

    #[test]
    fn a_damaged_snapshot_is_refused_or_told(
        changes in proptest::collection::vec((any::<usize>(), any::<u8>()), 1..20)
    ) {
        let bytes = damaged(real(), &changes);
        if let Ok(snapshot) = Snapshot::parse(&bytes) {
            for device in [-1, 0, 1, i64::MAX] {
                let account = Account::of(&snapshot, &owners(), device);
                prop_assert!(account.moments.iter().all(|one| one.allocated_bytes >= 0));
            }
        }
    }
}
