//! Finds the rank of a process in a distributed run from its launcher's environment variables.

use stormlog_format::{
    DistributedIdentity, IdentityInput, IntegerError, Map, RecordError, Text, Value, parse_integer,
};

/// The environment variables that each launcher sets for rank, local rank and world size.
const LAUNCHERS: [[&str; 3]; 3] = [
    ["RANK", "LOCAL_RANK", "WORLD_SIZE"],
    [
        "OMPI_COMM_WORLD_RANK",
        "OMPI_COMM_WORLD_LOCAL_RANK",
        "OMPI_COMM_WORLD_SIZE",
    ],
    ["SLURM_PROCID", "SLURM_LOCALID", "SLURM_NTASKS"],
];

/// The environment variables that Lightning sets in the processes it starts, which have no `RANK`.
const LIGHTNING: [&str; 3] = ["NODE_RANK", "LOCAL_RANK", "WORLD_SIZE"];

const JOB_VARIABLES: [&str; 2] = ["TORCHELASTIC_RUN_ID", "SLURM_JOB_ID"];

/// Determines the rank, local rank and world size of a process in a distributed run. Environment
/// variables of the launcher supply the numbers that the given identity leaves out.
pub fn resolve(
    mut input: IdentityInput<'_>,
    env: Option<&Map>,
) -> Result<DistributedIdentity, RecordError> {
    if let Some(env) = env {
        let ranks = if input.lacks_ranks() {
            launched_ranks(env)?
        } else {
            None
        };
        let [rank, local_rank, world_size] = ranks.map_or([None, None, None], |ranks| {
            ranks.map(|rank| Some(Value::Int(rank)))
        });
        input.launched = [job_variable(env), rank, local_rank, world_size];
    }
    stormlog_format::resolve(&input)
}

/// Determines the identity of a process that `stormlog run` records, from the environment variables
/// of its launcher. Blank variables count as unset. A process whose variables are invalid has rank
/// 0, and the error is returned too.
pub fn resolve_or_alone(env: &Map) -> (DistributedIdentity, Option<RecordError>) {
    let is_set = |value: &Value| !value.as_text().is_some_and(Text::is_blank);
    let set = env.iter().filter(|(_, value)| is_set(value));
    let set: Map = set
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    match resolve(IdentityInput::default(), Some(&set)) {
        Ok(identity) => (identity, None),
        Err(error) => {
            let alone = DistributedIdentity {
                job_id: None,
                rank: 0,
                local_rank: 0,
                world_size: 1,
            };
            (alone, Some(error))
        }
    }
}

/// Whether the environment sets a rank or a world size, but does not set all variables of any one
/// launcher.
pub fn launcher_variables_incomplete(env: &Map) -> bool {
    let named = |key: &&str| env.contains(key);
    let complete = LAUNCHERS
        .iter()
        .any(|[rank, _, size]| named(rank) && named(size));
    !complete && ranks_of_lightning(env).is_none() && LAUNCHERS.iter().flatten().any(named)
}

fn launched_ranks(env: &Map) -> Result<Option<[i64; 3]>, RecordError> {
    for [rank, local_rank, size] in LAUNCHERS {
        let (Some(rank), Some(size)) = (env.get(rank), env.get(size)) else {
            continue;
        };
        let rank = integer_text("rank", rank)?;
        let local_rank = match env.get(local_rank) {
            Some(value) if !value.as_text().is_some_and(Text::is_blank) => {
                integer_text("local_rank", value)?
            }
            _ => rank,
        };
        let size = integer_text("world_size", size)?;
        return Ok(Some([
            at_least("rank", rank, 0)?,
            at_least("local_rank", local_rank, 0)?,
            at_least("world_size", size, 1)?,
        ]));
    }
    Ok(ranks_of_lightning(env))
}

/// Rank, local rank and world size of a process that Lightning started on the first node. On other
/// nodes the rank is unknown, because the variables do not contain the number of processes of a
/// node.
fn ranks_of_lightning(env: &Map) -> Option<[i64; 3]> {
    let number = |name| integer_text(name, env.get(name)?).ok();
    let [Some(0), Some(local_rank), Some(size)] = LIGHTNING.map(number) else {
        return None;
    };
    (0..size)
        .contains(&local_rank)
        .then_some([local_rank, local_rank, size])
}

fn job_variable(env: &Map) -> Option<Value> {
    JOB_VARIABLES
        .iter()
        .filter_map(|key| env.text(key))
        .map(Text::stripped)
        .find(|text| !text.is_blank())
        .map(Value::Text)
}

/// Parses the integer in the value of an environment variable. The errors name `field`, such as
/// `rank`.
fn integer_text(field: &str, value: &Value) -> Result<i64, RecordError> {
    let text = value
        .as_text()
        .ok_or_else(|| RecordError::NotAnInteger(field.into()))?;
    parse_integer(&text.stripped()).map_err(|error| match error {
        IntegerError::TooLarge => RecordError::IntegerTooLarge(field.into()),
        _ => RecordError::NotAnInteger(field.into()),
    })
}

fn at_least(field: &str, value: i64, minimum: i64) -> Result<i64, RecordError> {
    if value < minimum {
        return Err(RecordError::TooSmall {
            field: field.into(),
            minimum,
        });
    }
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variables(pairs: &[(&str, &str)]) -> Map {
        let mut env = Map::new();
        for (name, value) in pairs {
            env.insert(*name, *value);
        }
        env
    }

    #[test]
    fn the_launcher_fills_in_what_is_not_given() {
        let env = variables(&[
            ("SLURM_PROCID", "3"),
            ("SLURM_NTASKS", "8"),
            ("SLURM_JOB_ID", "7"),
        ]);
        let rank = Value::Int(5);
        let input = IdentityInput {
            explicit: [None, Some(&rank), None, None],
            ..IdentityInput::default()
        };
        let identity = resolve(input, Some(&env)).unwrap();
        assert_eq!(
            (identity.rank, identity.local_rank, identity.world_size),
            (5, 3, 8)
        );
        assert_eq!(identity.job_id.unwrap(), "7");
    }

    #[test]
    fn a_bad_variable_is_an_error_only_where_it_is_needed() {
        let env = variables(&[("RANK", "two"), ("WORLD_SIZE", "4")]);
        let error = resolve(IdentityInput::default(), Some(&env)).unwrap_err();
        assert!(matches!(error, RecordError::NotAnInteger(field) if field == "rank"));
        let (rank, size) = (Value::Int(0), Value::Int(1));
        let given = IdentityInput {
            explicit: [None, Some(&rank), Some(&rank), Some(&size)],
            ..IdentityInput::default()
        };
        assert_eq!(resolve(given, Some(&env)).unwrap().world_size, 1);
    }

    #[test]
    fn a_process_of_lightning_has_a_rank_on_the_first_node() {
        let of = |node: &str, local: &str| {
            let env = variables(&[
                ("NODE_RANK", node),
                ("LOCAL_RANK", local),
                ("WORLD_SIZE", "4"),
            ]);
            let identity = resolve(IdentityInput::default(), Some(&env)).unwrap();
            let is_incomplete = launcher_variables_incomplete(&env);
            (identity.rank, identity.world_size, is_incomplete)
        };
        assert_eq!(of("0", "1"), (1, 4, false));
        assert_eq!(of("1", "1"), (0, 1, true));
        assert_eq!(of("0", "4"), (0, 1, true));
        assert_eq!(of("", "1"), (0, 1, true));
    }

    #[test]
    fn a_recorded_process_has_an_identity_whatever_its_variables_are() {
        let ranks = |pairs: &[(&str, &str)]| {
            let (identity, error) = resolve_or_alone(&variables(pairs));
            (identity.rank, identity.world_size, error.is_some())
        };
        assert_eq!(ranks(&[("RANK", "1"), ("WORLD_SIZE", "2")]), (1, 2, false));
        assert_eq!(ranks(&[("RANK", ""), ("WORLD_SIZE", "2")]), (0, 1, false));
        let slurm = [("SLURM_PROCID", "1"), ("SLURM_NTASKS", "2")];
        let blank = [("RANK", " "), ("WORLD_SIZE", ""), slurm[0], slurm[1]];
        assert_eq!(ranks(&blank), (1, 2, false));
        let outside = [("SLURM_PROCID", "5"), ("SLURM_NTASKS", "2")];
        assert_eq!(ranks(&outside), (0, 1, true));
    }

    #[test]
    fn a_rank_without_a_world_is_incomplete() {
        assert!(launcher_variables_incomplete(&variables(&[("RANK", "0")])));
        let complete = variables(&[("RANK", "0"), ("WORLD_SIZE", "2")]);
        assert!(!launcher_variables_incomplete(&complete));
    }
}
