//! Finds the rank in the name of a file or folder.

use std::ops::Range;

use stormlog_format::{Text, integer_of_text};

/// The number in `rank3`, `run.rank_3` or `rank-3`, but not in `local_rank3` or `crank3`.
pub fn rank_in_name(name: &str) -> Option<i64> {
    find(name).map(|(rank, _)| rank)
}

/// The name without the number of its rank, which is the same for the files of all ranks; `None` if
/// the name contains no rank.
pub fn name_without_rank(name: &str) -> Option<String> {
    let (_, number) = find(name)?;
    Some(format!("{}{}", &name[..number.start], &name[number.end..]))
}

/// The rank in a name, and where its number and the character that separates it from the word
/// `rank` are.
fn find(name: &str) -> Option<(i64, Range<usize>)> {
    // Lower case of ASCII has the same length, so positions in it are positions in the name.
    let name = name.to_ascii_lowercase();
    let found = name.match_indices("rank").find_map(|(place, word)| {
        let before = &name[..place];
        let joined = before.ends_with(|ch: char| ch.is_ascii_alphanumeric());
        if joined || before.ends_with("local_") || before.ends_with("local-") {
            return None;
        }
        let start = place + word.len();
        let rest = &name[start..];
        let digits = rest.strip_prefix(['_', '-']).unwrap_or(rest);
        let length = digits
            .find(|ch: char| !is_digit(ch))
            .unwrap_or(digits.len());
        let rank = integer_of_text(&Text::from(&digits[..length]))?;
        Some((rank, start..name.len() - digits.len() + length))
    });
    found.filter(|(rank, _)| *rank >= 0)
}

/// Whether Python accepts the character as a digit, in any script.
fn is_digit(ch: char) -> bool {
    ch.is_numeric() && integer_of_text(&Text::from(ch.encode_utf8(&mut [0; 4]) as &str)).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_in_names() {
        assert_eq!(rank_in_name("rank3.json"), Some(3));
        assert_eq!(rank_in_name("run_RANK-12"), Some(12));
        assert_eq!(rank_in_name("rank5_rank6"), Some(5));
        for name in [
            "local_rank7",
            "local-rank8",
            "ranking",
            "crank3",
            "rank_",
            "rank-_3",
        ] {
            assert_eq!(rank_in_name(name), None, "{name}");
            assert_eq!(name_without_rank(name), None, "{name}");
        }
    }

    #[test]
    fn the_files_of_all_ranks_have_one_name_without_their_rank() {
        let shared = |name: &str| name_without_rank(name).unwrap();
        assert_eq!(shared("events_rank0.jsonl"), "events_rank.jsonl");
        assert_eq!(shared("Über.Rank-12.csv"), "Über.Rank.csv");
        assert_eq!(shared("local_rank1_rank_7"), "local_rank1_rank");
    }
}
