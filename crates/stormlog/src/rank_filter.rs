//! Parses a list of ranks of a distributed job: `all`, or numbers and ranges such as `0,2,4-7`.

/// The ranks of a distributed job to show: all, or those in some ranges, each given by its first
/// and its last rank.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum RankFilter {
    #[default]
    All,
    Some(Vec<(i64, i64)>),
}

impl RankFilter {
    /// Whether a rank is selected.
    pub(crate) fn keeps(&self, rank: i64) -> bool {
        match self {
            Self::All => true,
            Self::Some(ranges) => ranges
                .iter()
                .any(|(first, last)| (*first..=*last).contains(&rank)),
        }
    }
}

impl std::str::FromStr for RankFilter {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let text = text.trim();
        if text.is_empty() || text == "*" || text.eq_ignore_ascii_case("all") {
            return Ok(Self::All);
        }
        let number = |text: &str| {
            let digits = text.trim();
            let plain = digits.bytes().all(|byte| byte.is_ascii_digit());
            let value = digits.parse::<i64>().ok().filter(|_| plain);
            value.ok_or_else(|| {
                format!("'{digits}' is not a rank; use all, or a list such as 0,2,4-7")
            })
        };
        let mut ranges = Vec::new();
        for part in text.split(',').filter(|part| !part.trim().is_empty()) {
            let range = match part.split_once('-') {
                Some((first, last)) => (number(first)?, number(last)?),
                None => (number(part)?, number(part)?),
            };
            if range.0 > range.1 {
                return Err(format!(
                    "'{}' is an empty range: the first rank is above the last",
                    part.trim()
                ));
            }
            ranges.push(range);
        }
        Ok(Self::Some(ranges))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_ranges_and_all() {
        let filter: RankFilter = "0, 2,4-7".parse().unwrap();
        let kept: Vec<i64> = (0..9).filter(|rank| filter.keeps(*rank)).collect();
        assert_eq!(kept, [0, 2, 4, 5, 6, 7]);
        for all in ["all", "*", "", " ALL "] {
            assert_eq!(all.parse::<RankFilter>().unwrap(), RankFilter::All);
        }
        for bad in ["a", "3-1", "1-", "-1", "1,x", "+1"] {
            assert!(bad.parse::<RankFilter>().is_err(), "{bad}");
        }
    }
}
