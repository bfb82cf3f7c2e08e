//! Parses rank filters in the syntax of stormlog 0.3.9: `all`, or `0,2,4-7`.

use std::collections::BTreeSet;

use stormlog_format::{Text, Value, integer_of_text, python_str, strip};

/// Why a rank filter, a text such as `0,2,4-7` that selects ranks, is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the error messages document the variants")]
pub enum RankFilterError {
    #[error("Invalid rank range: {0}")]
    Range(String),
    #[error("Invalid rank range (start>end): {0}")]
    Backwards(String),
    #[error("invalid literal for int() with base 10: {0}")]
    NotANumber(String),
}

/// Parses a rank filter such as `0,2,4-7`, and returns which of the `available` ranks the filter
/// selects. An empty filter, `all` and `*` select every rank.
pub fn parse_rank_filter(text: &str, available: &[i64]) -> Result<BTreeSet<i64>, RankFilterError> {
    let available_ranks: BTreeSet<i64> = available.iter().copied().collect();
    let text = strip(text).to_lowercase();
    if available_ranks.is_empty() || matches!(text.as_str(), "" | "all" | "*") {
        return Ok(available_ranks);
    }
    let mut selected = BTreeSet::new();
    for part in text.split(',').map(strip).filter(|part| !part.is_empty()) {
        match part.split_once('-') {
            None => {
                let rank = number(part)?;
                selected.extend(available_ranks.contains(&rank).then_some(rank));
            }
            Some((first, last)) => {
                let (first, last) = (strip(first), strip(last));
                if first.is_empty() || last.is_empty() {
                    return Err(RankFilterError::Range(quoted(part)));
                }
                let (first, last) = (number(first)?, number(last)?);
                if first > last {
                    return Err(RankFilterError::Backwards(quoted(part)));
                }
                selected.extend(available_ranks.range(first..=last));
            }
        }
    }
    Ok(selected)
}

fn number(text: &str) -> Result<i64, RankFilterError> {
    integer_of_text(&Text::from(text)).ok_or_else(|| RankFilterError::NotANumber(quoted(text)))
}

/// The text in quotes, in the form of Python's `repr`.
fn quoted(text: &str) -> String {
    let list = python_str(&Value::List(vec![Value::text(text)]));
    let list = list.to_str_lossy();
    list.trim_start_matches('[')
        .trim_end_matches(']')
        .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_ranges_and_all() {
        let ranks = |text: &str| {
            let named = parse_rank_filter(text, &[0, 1, 2, 5])?;
            Ok::<_, RankFilterError>(named.into_iter().collect::<Vec<_>>())
        };
        assert_eq!(ranks(" ALL "), Ok(vec![0, 1, 2, 5]));
        assert_eq!(ranks("0,2-3, 9"), Ok(vec![0, 2]));
        let message = |text| ranks(text).map_err(|error| error.to_string());
        assert_eq!(message("1-"), Err("Invalid rank range: '1-'".into()));
        assert_eq!(
            message("2-1"),
            Err("Invalid rank range (start>end): '2-1'".into())
        );
        assert!(message("1,x").is_err());
        assert_eq!(parse_rank_filter("x", &[]), Ok(BTreeSet::new()));
    }
}
