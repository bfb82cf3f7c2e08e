//! Names of the folders in the folder of a run. Each of them contains the recording of one part of
//! the run.
//!
//! Code in Python names two further kinds: `gpu-1` for each further device of a process, and
//! `pid-1234` for each further process of a rank.

use crate::identity::DistributedIdentity;

/// The folder for the devices of a program that was recorded from outside.
pub const OUTSIDE: &str = "outside";
/// The folder for host memory, if the job has only one rank.
const HOST: &str = "host";
const RANK_PREFIX: &str = "rank-";

/// The name of the folder for a rank: `rank-0003`. `None` if the job has only one rank, which is
/// recorded into the folder of the run itself.
pub fn of_rank(identity: &DistributedIdentity) -> Option<String> {
    (identity.world_size > 1).then(|| format!("{RANK_PREFIX}{:04}", identity.rank))
}

/// The name of the folder for the host memory of a rank: `host-rank-0003`, or `host` if the job has
/// only one rank.
pub fn of_host(identity: &DistributedIdentity) -> String {
    of_rank(identity).map_or_else(|| HOST.to_owned(), |rank| format!("{HOST}-{rank}"))
}

/// Whether a name is that of a folder with a part of a run. When a name is in use, a recorder
/// appends a number (`host-2`) or its process id (`rank-0003-pid1234`) to it.
pub fn is_part(name: &str) -> bool {
    let is_numbered = |rest: &str| rest.starts_with(|first: char| first.is_ascii_digit());
    let is_of = |prefix: &str| name.strip_prefix(prefix).is_some_and(is_numbered);
    let is_base_or_copy = |base: &str| {
        let rest = name.strip_prefix(base);
        rest.is_some_and(|rest| match rest.strip_prefix('-') {
            None => rest.is_empty(),
            Some(copy) => {
                let number = copy.strip_prefix("pid").or(copy.strip_prefix(RANK_PREFIX));
                is_numbered(number.unwrap_or(copy))
            }
        })
    };
    [RANK_PREFIX, "gpu-", "pid-"].into_iter().any(is_of)
        || [HOST, OUTSIDE].into_iter().any(is_base_or_copy)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_folders_that_recorders_create_are_parts() {
        let identity = |rank, world_size| DistributedIdentity {
            job_id: None,
            rank,
            local_rank: rank,
            world_size,
        };
        assert_eq!(of_host(&identity(0, 1)), "host");
        assert_eq!(of_host(&identity(3, 8)), "host-rank-0003");
        assert_eq!(of_rank(&identity(3, 8)).unwrap(), "rank-0003");
        assert_eq!(of_rank(&identity(0, 1)), None);
        for part in [
            "host",
            "host-2",
            "host-pid12",
            "host-rank-0003",
            "host-rank-0003-2",
            "rank-0003",
            "rank-12345-pid7",
            "gpu-1",
            "pid-1234",
            "outside",
            "outside-2",
        ] {
            assert!(is_part(part), "{part}");
        }
        for other in [
            "hosts",
            "host-a",
            "host-",
            "rank-",
            "rank-one",
            "gpu",
            "run-1",
            "outside.d",
        ] {
            assert!(!is_part(other), "{other}");
        }
    }
}
