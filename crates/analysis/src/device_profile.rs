//! Reads JAX's device memory profiles, which show what holds device memory. The function
//! `jax.profiler.save_device_memory_profile` writes such profiles as `pprof` protocol buffers,
//! usually gzipped.
//!
//! A profile is hostile input, so its unpacked size and its number of frames are limited.

mod wire;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;

use wire::{Field, fields, numbers};

/// Largest unpacked profile that is read, in bytes.
const MOST_BYTES: u64 = 64 << 20;
/// Maximum number of frames in all stacks of a profile together; a frame takes 16 bytes.
const MOST_FRAMES: usize = 1 << 24;
/// Maximum number of entries of each table of a profile: stacks, locations, functions, names.
const MOST_ENTRIES: usize = 1 << 20;
/// Largest entry for one stack, in bytes; a location takes at most ten.
const MOST_STACK_BYTES: usize = 1 << 20;
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// Why a device memory profile cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProfileError {
    /// The file cannot be read or unpacked.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// The unpacked profile is larger than 64 MiB.
    #[error("it is larger than {} MiB", MOST_BYTES >> 20)]
    TooLarge,
    /// The profile has more stacks, locations, functions or names than are read.
    #[error("it has more entries than are read")]
    TooManyEntries,
    /// The file is not a device memory profile.
    #[error("not a device memory profile of JAX")]
    Malformed,
}

/// Memory allocated by one call stack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Allocation {
    /// The functions of the call stack, the outermost first.
    pub stack: Vec<Arc<str>>,
    /// The values that the profile has for the call stack: the number of allocations and their
    /// bytes.
    pub values: Vec<i64>,
}

impl Allocation {
    /// The allocated bytes, which are the last of `values`.
    pub fn bytes(&self) -> i64 {
        self.values.last().copied().unwrap_or(0)
    }
}

/// The memory attributed to a function of a profile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FunctionShare {
    /// The name of the function.
    pub name: Arc<str>,
    /// Bytes that the function allocated itself, without its callees.
    pub own_bytes: i64,
    /// Bytes that the function and its callees allocated.
    pub total_bytes: i64,
}

/// Reads a profile from a file.
pub fn read(path: &Path) -> Result<Vec<Allocation>, ProfileError> {
    parse(&bounded(crate::regular_file::open(path)?, MOST_BYTES)?)
}

/// Parses the allocations from the bytes of a profile.
pub fn parse(bytes: &[u8]) -> Result<Vec<Allocation>, ProfileError> {
    if bytes.starts_with(&GZIP) {
        decode(&bounded(
            flate2::read::MultiGzDecoder::new(bytes),
            MOST_BYTES,
        )?)
    } else {
        decode(bytes)
    }
}

fn bounded(source: impl Read, most: u64) -> Result<Vec<u8>, ProfileError> {
    let mut bytes = Vec::new();
    source.take(most + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        return Err(ProfileError::TooLarge);
    }
    Ok(bytes)
}

/// The memory of each function, the largest total first.
pub fn by_function(allocations: &[Allocation]) -> Vec<FunctionShare> {
    let mut shares: BTreeMap<&Arc<str>, (i64, i64)> = BTreeMap::new();
    for allocation in allocations {
        let bytes = allocation.bytes();
        if let Some(last) = allocation.stack.last() {
            let share = shares.entry(last).or_default();
            share.0 = share.0.saturating_add(bytes);
        }
        // A recursive function is counted once per stack.
        let names: HashSet<&Arc<str>> = allocation.stack.iter().collect();
        for name in names {
            let share = shares.entry(name).or_default();
            share.1 = share.1.saturating_add(bytes);
        }
    }
    let share = |(name, (own, total)): (&Arc<str>, (i64, i64))| FunctionShare {
        name: Arc::clone(name),
        own_bytes: own,
        total_bytes: total,
    };
    let mut shares: Vec<FunctionShare> = shares.into_iter().map(share).collect();
    shares.sort_by_key(|share| std::cmp::Reverse(share.total_bytes));
    shares
}

#[derive(Default)]
struct Tables<'a> {
    strings: Vec<&'a [u8]>,
    /// For each function id of the profile, the index of the function's name in `strings`.
    functions: HashMap<u64, u64>,
    /// For each location id of the profile (a position in the code), the functions at that
    /// location, the innermost first. A location has several functions if calls were inlined.
    locations: HashMap<u64, Vec<u64>>,
    samples: Vec<&'a [u8]>,
}

fn decode(bytes: &[u8]) -> Result<Vec<Allocation>, ProfileError> {
    let tables = tables(bytes).ok_or(ProfileError::Malformed)?;
    let mut names: HashMap<u64, Arc<str>> = HashMap::new();
    let mut allocations = Vec::new();
    let mut frames = 0;
    let mut stacks = tables.samples.iter();
    if tables.is_full() || stacks.any(|stack| stack.len() > MOST_STACK_BYTES) {
        return Err(ProfileError::TooManyEntries);
    }
    for sample in &tables.samples {
        let (locations, values) = sample_of(sample).ok_or(ProfileError::Malformed)?;
        let mut stack = Vec::new();
        for location in locations.iter().rev() {
            let functions = tables
                .locations
                .get(location)
                .map_or(&[][..], Vec::as_slice);
            for function in functions.iter().rev() {
                let name = names
                    .entry(*function)
                    .or_insert_with(|| tables.name(*function));
                stack.push(Arc::clone(name));
                frames += 1;
                if frames > MOST_FRAMES {
                    return Err(ProfileError::TooLarge);
                }
            }
        }
        allocations.push(Allocation { stack, values });
    }
    Ok(allocations)
}

impl Tables<'_> {
    /// Whether a table has too many entries.
    fn is_full(&self) -> bool {
        let entries = [
            self.samples.len(),
            self.locations.len(),
            self.functions.len(),
            self.strings.len(),
        ];
        entries.into_iter().any(|entries| entries > MOST_ENTRIES)
    }

    fn name(&self, function: u64) -> Arc<str> {
        let index = self.functions.get(&function);
        let index = index.and_then(|index| usize::try_from(*index).ok());
        let name = index.and_then(|index| self.strings.get(index));
        name.map_or("?".into(), |name| String::from_utf8_lossy(name).into())
    }
}

fn tables(bytes: &[u8]) -> Option<Tables<'_>> {
    let mut tables = Tables::default();
    for field in fields(bytes) {
        if tables.is_full() {
            break;
        }
        match field? {
            Field::Bytes(2, sample) => tables.samples.push(sample),
            Field::Bytes(4, location) => {
                let (id, functions) = location_of(location)?;
                tables.locations.insert(id, functions);
            }
            Field::Bytes(5, function) => {
                let (id, name) = two_numbers(function)?;
                tables.functions.insert(id, name);
            }
            Field::Bytes(6, string) => tables.strings.push(string),
            _ => {}
        }
    }
    // The file is a profile only if it has a string table whose first entry is empty.
    tables.strings.first()?.is_empty().then_some(tables)
}

fn sample_of(bytes: &[u8]) -> Option<(Vec<u64>, Vec<i64>)> {
    let (mut locations, mut values) = (Vec::new(), Vec::new());
    for field in fields(bytes) {
        match field? {
            Field::Number(1, location) => locations.push(location),
            Field::Bytes(1, packed) => locations.extend(numbers(packed)?),
            Field::Number(2, value) => values.push(value.cast_signed()),
            Field::Bytes(2, packed) => {
                values.extend(numbers(packed)?.into_iter().map(u64::cast_signed));
            }
            _ => {}
        }
    }
    Some((locations, values))
}

fn location_of(bytes: &[u8]) -> Option<(u64, Vec<u64>)> {
    let (mut id, mut functions) = (0, Vec::new());
    for field in fields(bytes) {
        match field? {
            Field::Number(1, number) => id = number,
            Field::Bytes(4, line) => functions.push(two_numbers(line)?.0),
            _ => {}
        }
    }
    Some((id, functions))
}

/// The numbers in the fields 1 and 2 of a message; 0 for a missing number.
fn two_numbers(bytes: &[u8]) -> Option<(u64, u64)> {
    let mut found = (0, 0);
    for field in fields(bytes) {
        match field? {
            Field::Number(1, value) => found.0 = value,
            Field::Number(2, value) => found.1 = value,
            _ => {}
        }
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use proptest::prelude::*;

    use super::*;

    fn message(number: u8, content: &[u8]) -> Vec<u8> {
        let mut bytes = vec![number << 3 | 2, u8::try_from(content.len()).unwrap()];
        bytes.extend_from_slice(content);
        bytes
    }

    /// A profile in which `main` calls `grow`, which holds 300 bytes in two allocations.
    fn profile() -> Vec<u8> {
        let mut bytes = message(
            2,
            &[message(1, &[2, 1]), message(2, &[2, 0xac, 2])].concat(),
        );
        for (id, function) in [(1, 1), (2, 2)] {
            let line = message(4, &[1 << 3, function, 2 << 3, 7]);
            bytes.extend(message(4, &[vec![1 << 3, id], line].concat()));
        }
        bytes.extend(message(5, &[1 << 3, 1, 2 << 3, 1]));
        bytes.extend(message(5, &[1 << 3, 2, 2 << 3, 2]));
        for name in ["", "main", "grow"] {
            bytes.extend(message(6, name.as_bytes()));
        }
        bytes
    }

    #[test]
    fn a_profile_with_and_without_gzip() {
        let plain = parse(&profile()).unwrap();
        let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        packed.write_all(&profile()).unwrap();
        assert_eq!(parse(&packed.finish().unwrap()).unwrap(), plain);
        let names: Vec<&str> = plain[0].stack.iter().map(|name| &**name).collect();
        assert_eq!(
            (names, plain[0].values.as_slice()),
            (vec!["main", "grow"], &[2, 300][..])
        );
        let shares = by_function(&plain);
        let of = |name: &str| shares.iter().find(|share| &*share.name == name).unwrap();
        assert_eq!((of("grow").own_bytes, of("grow").total_bytes), (300, 300));
        assert_eq!((of("main").own_bytes, of("main").total_bytes), (0, 300));
    }

    #[test]
    fn other_bytes_are_no_profile() {
        for bytes in [&b""[..], b"{}", b"\x0a", &[0xff; 30]] {
            assert!(matches!(parse(bytes), Err(ProfileError::Malformed)));
        }
        let torn = &profile()[..20];
        assert!(parse(torn).is_err());
    }

    #[test]
    fn what_unpacks_to_too_much_is_refused() {
        let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        packed.write_all(&[0; 1000]).unwrap();
        let packed = packed.finish().unwrap();
        let unpack = |most| bounded(flate2::read::MultiGzDecoder::new(&*packed), most);
        assert!(matches!(unpack(999), Err(ProfileError::TooLarge)));
        assert_eq!(unpack(1000).unwrap().len(), 1000);
        let endless = read(Path::new("/dev/zero"));
        let endless = endless.expect_err("a device is refused").to_string();
        assert_eq!(endless, "it is a character device, not a regular file");
        let sparse = tempfile::NamedTempFile::new().unwrap();
        sparse.as_file().set_len(MOST_BYTES + 1).unwrap();
        let sparse = read(sparse.path()).expect_err("it is refused").to_string();
        assert!(sparse.contains("sparse file"), "{sparse}");
        let many = [profile(), b"\x32\x00".repeat(MOST_ENTRIES)].concat();
        assert!(matches!(parse(&many), Err(ProfileError::TooManyEntries)));
    }

    proptest! {
        #[test]
        fn nothing_panics(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = parse(&bytes);
            let _ = parse(&[profile(), bytes].concat());
        }
    }
}
