//! Finds the rank in the name of a file or folder.

use stormlog_format::{Text, integer_of_text};

/// The number in `rank3`, `run.rank_3` or `rank-3`, but not in `local_rank3` or `crank3`.
pub fn rank_in_name(name: &str) -> Option<i64> {
    let name = name.to_lowercase();
    let found = name.match_indices("rank").find_map(|(place, word)| {
        let before = &name[..place];
        let joined = before.ends_with(|ch: char| ch.is_ascii_alphanumeric());
        if joined || before.ends_with("local_") || before.ends_with("local-") {
            return None;
        }
        let rest = &name[place + word.len()..];
        let digits = rest.strip_prefix(['_', '-']).unwrap_or(rest);
        let end = digits
            .find(|ch: char| !is_digit(ch))
            .unwrap_or(digits.len());
        integer_of_text(&Text::from(&digits[..end]))
    });
    found.filter(|rank| *rank >= 0)
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
        }
    }
}
