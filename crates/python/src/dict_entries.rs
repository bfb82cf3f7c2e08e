//! Compares dictionaries that have the same keys and arrive one after another, and finds the values
//! that are different objects than in the previous dictionary.

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyString};

/// The keys that all dictionaries have, in the order of the dictionaries, with the values of the
/// last dictionary. The caller has its own order of the keys, such as the sorted order, and refers
/// to a key by its index in that order.
#[derive(Default)]
pub(crate) struct Entries {
    entries: Vec<Entry>,
    /// The position of each key in the dictionaries; the keys are in the caller's order.
    at_index: Vec<usize>,
}

struct Entry {
    key: Py<PyString>,
    index: usize,
    /// The value of the key in the last dictionary. After the JSON text of a value was written,
    /// `settle` drops the value if its type is mutable.
    value: Option<Py<PyAny>>,
}

impl Entries {
    /// Makes entries without values for the keys that each dictionary must have. `keys` is in the
    /// caller's order and contains each key with its position in the dictionaries.
    pub(crate) fn of<'a, 'py: 'a>(
        keys: impl Iterator<Item = (usize, &'a Bound<'py, PyString>)>,
    ) -> Self {
        let mut numbered: Vec<(usize, Entry)> = keys
            .enumerate()
            .map(|(index, (position, key))| {
                let key = key.clone().unbind();
                let value = None;
                (position, Entry { key, index, value })
            })
            .collect();
        let at_index = numbered.iter().map(|(position, _)| *position).collect();
        numbered.sort_unstable_by_key(|(position, _)| *position);
        Self {
            entries: numbered.into_iter().map(|(_, entry)| entry).collect(),
            at_index,
        }
    }

    /// Stores the values of a dictionary and compares them with those of the last dictionary. In
    /// the result, the bit at the caller's index of a key is 1 if the key's value is a different
    /// object than in the last dictionary. The result is `None` when the keys differ.
    #[expect(
        unsafe_code,
        reason = "a safe iterator would change the reference counts of every key and value, \
                  although most values are the same objects as in the last dictionary"
    )]
    pub(crate) fn take(&mut self, dict: &Bound<'_, PyDict>) -> Option<u64> {
        if self.entries.len() != dict.len() || self.entries.is_empty() {
            return None;
        }
        let py = dict.py();
        let mut changed = 0_u64;
        let mut position = 0;
        for entry in &mut self.entries {
            let (mut key, mut value) = (std::ptr::null_mut(), std::ptr::null_mut());
            // SAFETY: the dictionary is alive, and the pointers lead to variables for its position,
            // a key and a value. The dictionary cannot change before the next entry is read: this
            // thread is attached to the interpreter and runs no Python code until then. The objects
            // that this loop drops are `None`, numbers, booleans and strings, which run no code
            // when they are dropped; `settle` has already dropped all other values.
            let found = unsafe {
                let pointers = (&raw mut position, &raw mut key, &raw mut value);
                ffi::PyDict_Next(dict.as_ptr(), pointers.0, pointers.1, pointers.2)
            };
            if found == 0 || entry.key.as_ptr() != key {
                return None;
            }
            let last = entry.value.as_ref();
            if last.is_some_and(|last| last.as_ptr() == value) {
                continue;
            }
            // SAFETY: an entry of the dictionary was found, so the pointer leads to the value of
            // the entry, which the dictionary keeps alive.
            let value = unsafe { Bound::from_borrowed_ptr(py, value) };
            let last = entry.value.replace(value.unbind());
            drop(last.map(|last| last.into_bound(py)));
            changed |= 1 << entry.index;
        }
        Some(changed)
    }

    /// The value that the last dictionary has for a key, by the caller's index of the key; `None`
    /// before the first dictionary and after `settle` dropped the value.
    pub(crate) fn value<'a, 'py>(
        &'a self,
        py: Python<'py>,
        index: usize,
    ) -> Option<&'a Bound<'py, PyAny>> {
        let entry = &self.entries[self.at_index[index]];
        entry.value.as_ref().map(|value| value.bind(py))
    }

    /// Drops the stored value of a key, by the caller's index of the key, if its type is mutable,
    /// because the content of the same object may be different later.
    pub(crate) fn settle(&mut self, py: Python<'_>, index: usize) {
        let value = &mut self.entries[self.at_index[index]].value;
        if value
            .as_ref()
            .is_some_and(|value| !cannot_change(value.bind(py)))
        {
            *value = None;
        }
    }
}

/// Whether an object is `None`, a number, a boolean or a string, and therefore cannot change.
fn cannot_change(object: &Bound<'_, PyAny>) -> bool {
    object.is_exact_instance_of::<PyInt>()
        || object.is_exact_instance_of::<PyString>()
        || object.is_none()
        || object.is_exact_instance_of::<PyFloat>()
        || object.is_exact_instance_of::<PyBool>()
}
