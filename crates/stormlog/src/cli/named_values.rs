//! Parses flags whose value is one of a fixed list of names.

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};

/// A clap parser for a flag whose value is one of `names`.
pub(crate) fn named<T: Clone + Send + Sync + 'static>(
    names: impl Into<PossibleValuesParser>,
    parse: fn(&str) -> Option<T>,
) -> impl TypedValueParser<Value = T> {
    let names: PossibleValuesParser = names.into();
    names.try_map(move |name| parse(&name).ok_or("unknown name"))
}

/// Names with descriptions, which may be empty, for the help of a flag.
pub(crate) fn described(
    names: &'static [(&'static str, &'static str)],
) -> impl Iterator<Item = PossibleValue> {
    names.iter().map(|(name, help)| {
        let value = PossibleValue::new(*name);
        if help.is_empty() {
            value
        } else {
            value.help(*help)
        }
    })
}
