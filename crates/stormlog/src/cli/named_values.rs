//! Parses flags whose value is one of a fixed list of names.

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};

/// A clap parser for a flag whose value is one of `names`. The help of the flag lists the names
/// with their descriptions, which may be empty.
pub(crate) fn named<T: Clone + Send + Sync + 'static>(
    names: &'static [(&'static str, &'static str)],
    parse: fn(&str) -> Option<T>,
) -> impl TypedValueParser<Value = T> {
    let values = names.iter().map(|(name, help)| {
        let value = PossibleValue::new(*name);
        if help.is_empty() {
            value
        } else {
            value.help(*help)
        }
    });
    PossibleValuesParser::new(values).try_map(move |name| parse(&name).ok_or("unknown name"))
}
