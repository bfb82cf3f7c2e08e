//! Names, shapes and types of tensors by the address of their storage, read from
//! `cuda_tensor_attribution.json`.

use std::collections::HashMap;

use schemars::JsonSchema;
use serde::Serialize;
use stormlog_format::json::{self, JsonError};
use stormlog_format::{Map, Value};

use crate::untrusted::{cut, text};

/// Maximum number of names in [`Owner::names`].
const MOST_NAMES: usize = 8;
/// Longest tensor name in characters. Longer names are cut, because each block of memory gets its
/// own copy of the names of its tensors.
const LONGEST_TEXT: usize = 200;
/// Maximum number of dimensions in [`Owner::shape`]; further dimensions are left out.
const MOST_DIMENSIONS: usize = 16;

/// The tensors that share one storage.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Owner {
    /// Names of the tensors, the most descriptive first.
    pub names: Vec<String>,
    /// The shape of the first tensor, such as `[512, 64]`.
    pub shape: Option<String>,
    /// The data type of the first tensor, without the prefix `torch.`.
    pub dtype: Option<String>,
}

/// Maps the device address of each known storage to the tensors that share the storage.
#[derive(Clone, Debug, Default)]
pub struct Owners(HashMap<u64, Owner>);

impl Owners {
    /// Parses the content of `cuda_tensor_attribution.json`; invalid entries are skipped.
    pub fn parse(document: &[u8]) -> Result<Self, JsonError> {
        let document = json::parse(document)?;
        let map = document.as_map();
        let entries = map.map_or(&[][..], |map| map.list("attributed_storage_pointers"));
        let owners = entries
            .iter()
            .filter_map(Value::as_map)
            .filter_map(|entry| {
                let address = entry.get("storage_ptr_int").and_then(Value::as_int)?;
                Some((u64::try_from(address).ok()?, owner(entry)))
            });
        Ok(Self(owners.collect()))
    }

    /// The tensors whose storage begins at a device address; `None` when no storage does.
    pub fn at(&self, address: u64) -> Option<&Owner> {
        self.0.get(&address)
    }
}

fn owner(entry: &Map) -> Owner {
    let names = entry.list("names").iter();
    let names = names.filter_map(|name| cut(name, LONGEST_TEXT));
    let first = entry.list("tensors").first().and_then(Value::as_map);
    let dtype = first.and_then(|tensor| text(tensor, "dtype", LONGEST_TEXT));
    Owner {
        names: names.take(MOST_NAMES).collect(),
        shape: first.and_then(shape),
        dtype: dtype.map(|dtype| dtype.strip_prefix("torch.").unwrap_or(&dtype).to_owned()),
    }
}

fn shape(tensor: &Map) -> Option<String> {
    let Some(Value::List(sizes)) = tensor.get("shape") else {
        return None;
    };
    let sizes: Vec<String> = sizes
        .iter()
        .take(MOST_DIMENSIONS)
        .filter_map(Value::as_int)
        .map(|size| size.to_string())
        .collect();
    Some(format!("[{}]", sizes.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_makes_no_sense_is_skipped() {
        let document = br#"{"attributed_storage_pointers": [
            {"storage_ptr_int": 256, "names": ["fc.weight", 7], "tensors": [
                {"shape": [512, 64, "x"], "dtype": "torch.float32"}, {"shape": [1]}]},
            {"storage_ptr_int": -1, "names": ["negative"]},
            {"storage_ptr_int": 512, "names": "text", "tensors": {}},
            "text"]}"#;
        let owners = Owners::parse(document).unwrap();
        assert_eq!(owners.0.len(), 2);
        let owner = owners.at(256).unwrap();
        assert_eq!(owner.names, ["fc.weight"]);
        assert_eq!(owner.shape.as_deref(), Some("[512, 64]"));
        assert_eq!(owner.dtype.as_deref(), Some("float32"));
        assert_eq!(owners.at(512), Some(&Owner::default()));
        let long = format!(
            r#"{{"attributed_storage_pointers": [{{"storage_ptr_int": 1, "names": ["{}"]}}]}}"#,
            "x".repeat(10_000)
        );
        let owners = Owners::parse(long.as_bytes()).unwrap();
        assert_eq!(owners.at(1).unwrap().names[0].len(), LONGEST_TEXT);
        assert!(Owners::parse(b"[1]").unwrap().0.is_empty());
        assert!(Owners::parse(b"{").is_err());
    }
}
