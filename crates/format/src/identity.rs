//! The identity of a process in a distributed run: job, rank, local rank and world size.

use serde::Serialize;

use crate::event::IDENTITY_FIELDS;
use crate::fields::{at_least, name};
use crate::record_error::RecordError;
use crate::text::Text;
use crate::value::{Map, Value};

/// The job and the ranks that identify one process in a distributed run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DistributedIdentity {
    /// The id of the job that the processes share, if any.
    pub job_id: Option<Text>,
    /// The index of the process among all processes of the job, from 0.
    pub rank: i64,
    /// The index of the process among the job's processes on its host, from 0.
    pub local_rank: i64,
    /// The number of processes of the job.
    pub world_size: i64,
}

/// The sources of a process's identity. Each value is taken from the first source that has it, in
/// the order of these fields.
#[derive(Clone, Debug, Default)]
pub struct IdentityInput<'a> {
    /// Job id, rank, local rank and world size as the caller passed them. `null` counts as missing.
    pub explicit: [Option<&'a Value>; 4],
    /// Metadata that may contain the keys of [`IDENTITY_FIELDS`].
    pub metadata: Option<&'a Map>,
    /// The values that the launcher of the process set, in the order of [`IDENTITY_FIELDS`].
    pub launched: [Option<Value>; 4],
}

impl IdentityInput<'_> {
    /// The explicitly given value of one of [`IDENTITY_FIELDS`], otherwise the value in the
    /// metadata.
    fn given(&self, index: usize) -> Option<&Value> {
        let metadata = || self.metadata?.get(IDENTITY_FIELDS[index]);
        let is_known = |value: &&Value| !value.is_null();
        let explicit = self.explicit[index].filter(is_known);
        explicit.or_else(|| metadata().filter(is_known))
    }

    /// Whether rank, local rank or world size is given neither explicitly nor in the metadata.
    pub fn lacks_ranks(&self) -> bool {
        (1..IDENTITY_FIELDS.len()).any(|index| self.given(index).is_none())
    }
}

/// Determines the identity of a process from explicit values, metadata and the launcher, in this
/// order. By default, the rank is 0 and the world size 1.
pub fn resolve(input: &IdentityInput<'_>) -> Result<DistributedIdentity, RecordError> {
    let find = |index: usize| input.given(index).or(input.launched[index].as_ref());
    let job_id = find(0).map(|value| name("job_id", value)).transpose()?;
    let [rank, local_rank, world_size] = [find(1), find(2), find(3)];
    let rank = rank.map_or(Ok(0), |value| at_least("rank", value, 0))?;
    let local_rank = local_rank.map_or(Ok(rank), |value| at_least("local_rank", value, 0))?;
    let world_size = world_size.map_or(Ok(1), |value| at_least("world_size", value, 1))?;
    if rank >= world_size {
        return Err(RecordError::RankOutsideWorld("rank"));
    }
    if local_rank >= world_size {
        return Err(RecordError::RankOutsideWorld("local_rank"));
    }
    Ok(DistributedIdentity {
        job_id,
        rank,
        local_rank,
        world_size,
    })
}
