//! The warnings about the paths given to a query, each listed once.

use std::hash::BuildHasher;

use hashbrown::{DefaultHashBuilder, HashTable};

use super::catalog::CatalogWarning;

/// Warnings in the order in which they were added. A file full of damage may have a hundred
/// thousand of them, so a warning that is already in the list is found by its hash.
#[derive(Debug, Default)]
pub(super) struct Warnings {
    pub(super) list: Vec<CatalogWarning>,
    /// Indices in `list`, by the hash of the warning.
    indices: HashTable<usize>,
    hasher: DefaultHashBuilder,
}

impl Warnings {
    /// Adds a warning, unless it is in the list.
    pub(super) fn add(&mut self, warning: CatalogWarning) {
        let Self {
            list,
            indices,
            hasher,
        } = self;
        let hash = hasher.hash_one(&warning);
        if indices
            .find(hash, |index| list[*index] == warning)
            .is_some()
        {
            return;
        }
        indices.insert_unique(hash, list.len(), |index| hasher.hash_one(&list[*index]));
        list.push(warning);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_warning_is_listed_once_in_the_order_of_the_first() {
        let mut warnings = Warnings::default();
        for number in (0..1000).chain(500..1500) {
            warnings.add(CatalogWarning {
                path: "run.jsonl".into(),
                message: format!("line {number}"),
            });
        }
        let numbers = (0..1500).map(|number| format!("line {number}"));
        let listed = warnings.list.into_iter().map(|warning| warning.message);
        assert!(listed.eq(numbers));
    }
}
