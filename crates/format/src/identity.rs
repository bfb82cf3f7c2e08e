//! Where a process stands in a distributed run: job, rank, local rank, world size.

use crate::number::{IntegerError, parse_integer};
use crate::record::{RecordError, at_least, name};
use crate::text::Text;
use crate::value::{Map, Value};

/// The identity of one process in a distributed run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DistributedIdentity {
    /// The job that the processes share, when there is one.
    pub job_id: Option<Text>,
    /// The process's number among all.
    pub rank: i64,
    /// The process's number on its host.
    pub local_rank: i64,
    /// The number of processes.
    pub world_size: i64,
}

/// Where to look for the identity, the first source that knows a value wins.
#[derive(Clone, Copy, Debug, Default)]
pub struct IdentityInput<'a> {
    /// Given job id, rank, local rank and world size; `null` counts as not given.
    pub explicit: [Option<&'a Value>; 4],
    /// Metadata that may hold the same keys.
    pub metadata: Option<&'a Map>,
    /// Environment variables, when they may be consulted.
    pub env: Option<&'a Map>,
}

/// Launchers and their variables for rank, local rank and world size.
const LAUNCHERS: [[&str; 3]; 3] = [
    ["RANK", "LOCAL_RANK", "WORLD_SIZE"],
    [
        "OMPI_COMM_WORLD_RANK",
        "OMPI_COMM_WORLD_LOCAL_RANK",
        "OMPI_COMM_WORLD_SIZE",
    ],
    ["SLURM_PROCID", "SLURM_LOCALID", "SLURM_NTASKS"],
];

const JOB_VARIABLES: [&str; 2] = ["TORCHELASTIC_RUN_ID", "SLURM_JOB_ID"];

/// Finds the identity from what is given, metadata and environment.
pub fn resolve(input: &IdentityInput<'_>) -> Result<DistributedIdentity, RecordError> {
    let given = |index: usize, key: &str| {
        let explicit = input.explicit[index].filter(|value| !value.is_null());
        let metadata = || {
            input
                .metadata
                .and_then(|map| map.get(key))
                .filter(|value| !value.is_null())
        };
        explicit.or_else(metadata).cloned()
    };
    let mut job_id = given(0, "job_id");
    let mut values = [
        given(1, "rank"),
        given(2, "local_rank"),
        given(3, "world_size"),
    ];
    if let Some(env) = input.env {
        if values.iter().any(Option::is_none)
            && let Some(launched) = launcher_places(env)?
        {
            for (slot, value) in values.iter_mut().zip(launched) {
                slot.get_or_insert(Value::Int(value));
            }
        }
        job_id = job_id.or_else(|| job_variable(env));
    }
    let job_id = match job_id {
        Some(value) => Some(name("job_id", &value)?),
        None => None,
    };
    let [rank, local_rank, world_size] = values;
    let rank = rank.map_or(Ok(0), |value| at_least("rank", &value, 0))?;
    let local_rank = local_rank.map_or(Ok(rank), |value| at_least("local_rank", &value, 0))?;
    let world_size = world_size.map_or(Ok(1), |value| at_least("world_size", &value, 1))?;
    let identity = DistributedIdentity {
        job_id,
        rank,
        local_rank,
        world_size,
    };
    check_ranks(&identity)?;
    Ok(identity)
}

/// Checks that both ranks lie inside the world.
pub(crate) fn check_ranks(identity: &DistributedIdentity) -> Result<(), RecordError> {
    if identity.rank >= identity.world_size {
        return Err(RecordError::RankOutsideWorld("rank"));
    }
    if identity.local_rank >= identity.world_size {
        return Err(RecordError::RankOutsideWorld("local_rank"));
    }
    Ok(())
}

/// Whether the environment names a rank or a world size but no launcher's full set.
pub fn launcher_variables_incomplete(env: &Map) -> bool {
    let named = |key: &&str| env.contains(key);
    let complete = LAUNCHERS
        .iter()
        .any(|[rank, _, size]| named(rank) && named(size));
    !complete && LAUNCHERS.iter().flatten().any(named)
}

fn launcher_places(env: &Map) -> Result<Option<[i64; 3]>, RecordError> {
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
        let values = [rank, local_rank, integer_text("world_size", size)?].map(Value::Int);
        let [rank, local_rank, size] = &values;
        return Ok(Some([
            at_least("rank", rank, 0)?,
            at_least("local_rank", local_rank, 0)?,
            at_least("world_size", size, 1)?,
        ]));
    }
    Ok(None)
}

fn job_variable(env: &Map) -> Option<Value> {
    JOB_VARIABLES
        .iter()
        .filter_map(|key| env.get(key).and_then(Value::as_text))
        .map(Text::stripped)
        .find(|text| !text.is_blank())
        .map(Value::Text)
}

/// An integer in a variable's text.
fn integer_text(field: &str, value: &Value) -> Result<i64, RecordError> {
    let text = value
        .as_text()
        .ok_or_else(|| RecordError::NotAnInteger(field.into()))?;
    parse_integer(&text.stripped()).map_err(|error| match error {
        IntegerError::TooLarge => RecordError::IntegerTooLarge(field.into()),
        _ => RecordError::NotAnInteger(field.into()),
    })
}
