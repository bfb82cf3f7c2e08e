//! The ledger of a device (who holds how much of its memory), read from the last `memory_ledger`
//! event. A number that the event does not have stays `None`. The only number computed here is the
//! rest: the bytes in use on the device that belong to no entry.

use stormlog_format::{Map, Value, counted};

use super::windows::{LONGEST_TEXT, MOST, Site, site};
use crate::untrusted::{bytes, maps, text};

/// The owner of a part of a device's memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Owner {
    /// The CUDA context of the recorded process.
    Context,
    /// The memory that PyTorch's caching allocator has reserved outside of private pools.
    Pool,
    /// PyTorch's private pools: those of CUDA graphs, and others that the program created. The
    /// value is how many private pools there are.
    PrivatePools(u64),
    /// A library that allocates through the CUDA driver, and the line of Python that called it.
    Library {
        /// The name of the library; `None` if the caller of the driver could not be found.
        name: Option<String>,
        /// The line of Python that called the library, if known.
        site: Option<Site>,
    },
    /// Another process on the device.
    Process {
        /// The pid of the process. The entry with `None` is the sum of the processes with the least
        /// memory, which are not listed one by one.
        pid: Option<i64>,
        /// The command of the process, if it could be read.
        name: Option<String>,
    },
}

/// One entry of a ledger: an owner and its bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LedgerEntry {
    /// The owner of the memory.
    pub owner: Owner,
    /// The memory that the owner holds, in bytes.
    pub bytes: i64,
}

/// The ledger of a device: which owner holds how much of its memory.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ledger {
    /// The time when the ledger was recorded, in nanoseconds since 1970.
    pub at_ns: i64,
    /// Bytes in use on the whole device, as counted by the driver.
    pub used_bytes: Option<i64>,
    /// The owners with their bytes: the recorded process first, then libraries and other processes,
    /// the largest first.
    pub entries: Vec<LedgerEntry>,
    /// Bytes in use that no entry explains; `None` when `used_bytes` is unknown, or when the sum of
    /// the entries exceeds it by more than 2 %.
    pub rest_bytes: Option<i64>,
    /// Owners whose bytes are unknown and therefore part of `rest_bytes`, each described in words.
    pub unknown: Vec<String>,
    /// Bytes of CUDA managed memory, which may be on the device or on the host and is therefore not
    /// counted in `entries`.
    pub managed_bytes: i64,
}

/// The numbers of a ledger are read one after another, so the sum of its entries may exceed the
/// driver's count of bytes in use. The sum may exceed this count by up to 2 % (the count divided by
/// `SKEW`).
const SKEW: i64 = 50;

impl Ledger {
    /// Parses the ledger from the metadata of an event; `None` when the metadata contains none.
    pub(super) fn of(at_ns: i64, metadata: &Map) -> Option<Self> {
        let ledger = metadata.get("ledger")?.as_map()?;
        let reserved = bytes(ledger, "reserved_bytes")?;
        let mut found = Self {
            at_ns,
            used_bytes: bytes(ledger, "used_bytes"),
            ..Self::default()
        };
        found.add_process(ledger, reserved);
        found.add_libraries(ledger);
        found.add_others(ledger);
        let known = found.entries.iter().map(|entry| entry.bytes);
        let known = known.fold(0_i64, i64::saturating_add);
        found.rest_bytes = found.used_bytes.and_then(|used| {
            let rest = used.saturating_sub(known);
            (rest >= -(used / SKEW)).then_some(rest.max(0))
        });
        Some(found)
    }

    fn add(&mut self, owner: Owner, bytes: i64) {
        if bytes > 0 {
            self.entries.push(LedgerEntry { owner, bytes });
        }
    }

    fn add_process(&mut self, ledger: &Map, reserved: i64) {
        let private = ledger.get("private_pools").and_then(Value::as_map);
        let apart = private
            .and_then(|private| bytes(private, "reserved_bytes"))
            .map_or(0, |apart| apart.min(reserved));
        self.add(Owner::Pool, reserved - apart);
        if let Some(private) = private {
            let pools = private.get("pools").and_then(Value::as_int);
            let pools = pools.and_then(|pools| u64::try_from(pools).ok());
            self.add(Owner::PrivatePools(pools.unwrap_or(0)), apart);
        }
        let context = ledger.get("context").and_then(Value::as_map);
        if let Some(bytes) = context.and_then(|context| bytes(context, "bytes")) {
            self.add(Owner::Context, bytes);
            return;
        }
        let reason = context.and_then(|context| text(context, "reason", LONGEST_TEXT));
        self.unknown.push(match reason {
            Some(reason) => format!("the CUDA context ({reason})"),
            None => "the CUDA context".to_owned(),
        });
    }

    fn add_libraries(&mut self, ledger: &Map) {
        let driver = ledger.get("driver").and_then(Value::as_map);
        let state = driver.and_then(|driver| text(driver, "state", LONGEST_TEXT));
        let reason = driver.and_then(|driver| text(driver, "reason", LONGEST_TEXT));
        let unknown = match (state.as_deref(), reason) {
            (Some("on"), _) => None,
            (Some("ended"), Some(reason)) => Some(format!(
                "memory that libraries allocated after Stormlog stopped recording \
                 their allocations ({reason})"
            )),
            (Some("unavailable"), Some(reason)) => {
                Some(format!("memory that libraries allocate ({reason})"))
            }
            _ => Some(
                "memory that libraries allocate (stormlog run --driver-allocations shows it)"
                    .to_owned(),
            ),
        };
        self.unknown.extend(unknown);
        for one in maps(ledger, "libraries", MOST) {
            let Some(size) = bytes(one, "bytes") else {
                self.add_arrays(one);
                continue;
            };
            if text(one, "kind", LONGEST_TEXT).as_deref() == Some("managed") {
                self.managed_bytes = self.managed_bytes.saturating_add(size);
                continue;
            }
            let owner = Owner::Library {
                name: text(one, "library", LONGEST_TEXT),
                site: one.get("site").and_then(Value::as_map).and_then(site),
            };
            self.add(owner, size);
        }
    }

    /// Adds CUDA arrays to the unknown owners, because the driver does not report their size.
    fn add_arrays(&mut self, one: &Map) {
        let count = one.get("blocks").and_then(Value::as_int);
        let Some(count) = count.filter(|&count| count > 0) else {
            return;
        };
        let arrays = counted(count, "CUDA array");
        let library = text(one, "library", LONGEST_TEXT)
            .map_or_else(String::new, |name| format!(" of {name}"));
        self.unknown.push(format!("{arrays}{library}"));
    }

    fn add_others(&mut self, ledger: &Map) {
        if !matches!(ledger.get("others"), Some(Value::List(_))) {
            self.unknown.push("other processes".to_owned());
        }
        for one in maps(ledger, "others", MOST) {
            let owner = Owner::Process {
                pid: one.get("pid").and_then(Value::as_int),
                name: text(one, "name", LONGEST_TEXT),
            };
            self.add(owner, bytes(one, "bytes").unwrap_or(0));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: &str) -> Option<Ledger> {
        match stormlog_format::json::parse(json.as_bytes()) {
            Ok(Value::Map(map)) => Ledger::of(7, &map),
            other => panic!("{other:?} is no object"),
        }
    }

    #[test]
    fn arrays_have_no_size_and_are_not_forgotten() {
        let found = read(
            r#"{"ledger": {"version": 1, "used_bytes": 1000, "reserved_bytes": 300,
            "context": {"bytes": 200, "reason": null}, "others": [],
            "driver": {"state": "on", "reason": null},
            "libraries": [{"library": "libcudnn.so.9", "kind": "array", "bytes": null, "blocks": 3},
                {"library": null, "kind": "array", "bytes": null, "blocks": 1}]}}"#,
        );
        let found = found.unwrap();
        assert_eq!(found.rest_bytes, Some(500));
        assert_eq!(
            found.unknown,
            ["3 CUDA arrays of libcudnn.so.9", "1 CUDA array"]
        );
    }

    #[test]
    fn what_a_recorder_writes_is_read() {
        let found = read(
            r#"{"ledger": {"version": 1, "used_bytes": 1000, "reserved_bytes": 300,
            "context": {"bytes": 200, "reason": null},
            "private_pools": {"pools": 2, "reserved_bytes": 100, "allocated_bytes": 50},
            "driver": {"state": "on", "reason": null},
            "libraries": [{"library": "libcublas.so.13", "kind": "device", "bytes": 150, "blocks": 6},
                {"library": "a.so", "kind": "managed", "bytes": 70, "blocks": 1},
                {"library": "ctypes", "kind": "device", "bytes": 50, "blocks": 1,
                 "site": {"file": "/a/train.py", "line": 8, "function": "f"}}],
            "others": [{"pid": 12, "name": "python serve.py", "bytes": 250}]}}"#,
        );
        let found = found.unwrap();
        let sizes: Vec<i64> = found.entries.iter().map(|entry| entry.bytes).collect();
        assert_eq!(sizes, [200, 100, 200, 150, 50, 250]);
        assert_eq!(found.entries[1].owner, Owner::PrivatePools(2));
        assert_eq!((found.rest_bytes, found.managed_bytes), (Some(50), 70));
        assert!(found.unknown.is_empty(), "{:?}", found.unknown);
        let Owner::Library {
            site: Some(site), ..
        } = &found.entries[4].owner
        else {
            panic!("{:?}", found.entries[4]);
        };
        assert_eq!(site.place(), "train.py:8");
    }

    #[test]
    fn what_is_not_known_is_named_and_not_zero() {
        let found = read(
            r#"{"ledger": {"used_bytes": null, "reserved_bytes": 300, "private_pools": null,
            "context": {"bytes": null, "reason": "the driver does not list this process"},
            "driver": {"state": "off", "reason": null}, "libraries": null, "others": null}}"#,
        );
        let found = found.unwrap();
        assert_eq!(found.entries.len(), 1);
        assert_eq!((found.used_bytes, found.rest_bytes), (None, None));
        assert_eq!(
            found.unknown,
            [
                "the CUDA context (the driver does not list this process)",
                "memory that libraries allocate (stormlog run --driver-allocations shows it)",
                "other processes"
            ]
        );
    }

    #[test]
    fn nonsense_is_left_out() {
        assert_eq!(read("{}"), None);
        assert_eq!(read(r#"{"ledger": {"reserved_bytes": -1}}"#), None);
        let found = read(
            r#"{"ledger": {"used_bytes": 10, "reserved_bytes": 9223372036854775807,
            "private_pools": {"reserved_bytes": 9223372036854775807}, "context": 3,
            "libraries": [7, {"bytes": "x"}, {"bytes": 5}], "others": [{"pid": "x", "bytes": 3}]}}"#,
        );
        let found = found.unwrap();
        assert_eq!(found.rest_bytes, None, "the entries contradict the driver");
        assert_eq!(found.entries.len(), 3);
    }
}
