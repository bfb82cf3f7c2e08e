//! Questions about a fleet: the views, chosen and ordered.

use datafusion::execution::SendableRecordBatchStream;

use crate::asker::{Asker, quoted};
use crate::error::AskError;

/// A ready question about a fleet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FleetQuestion {
    /// Memory that grows without end.
    Leaks,
    /// Memory that is reserved and not used.
    Waste,
    /// Out-of-memory errors, compared with device hours.
    Ooms(OomGroup),
    /// How close jobs came to the limit of their devices.
    Headroom,
    /// Peak memory by commit and framework version.
    Regressions,
}

/// What out-of-memory errors are counted by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OomGroup {
    /// A host.
    Host,
    /// A job.
    Job,
    /// The owner of jobs.
    Owner,
}

/// Which rows are wanted; what is not given does not matter.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// Only of this job.
    pub job_id: Option<String>,
    /// Only of this owner.
    pub owner: Option<String>,
    /// Only of this program.
    pub program: Option<String>,
}

impl Asker {
    /// The answer to a question about the fleet.
    pub async fn fleet(
        &self,
        question: &FleetQuestion,
        filter: &Filter,
        limit: usize,
    ) -> Result<SendableRecordBatchStream, AskError> {
        let conditions: Vec<String> = [
            ("job_id", &filter.job_id),
            ("owner", &filter.owner),
            ("program", &filter.program),
        ]
        .into_iter()
        .filter_map(|(column, wanted)| Some(format!("{column} = {}", quoted(wanted.as_ref()?))))
        .chain(["TRUE".to_owned()])
        .collect();
        let condition = conditions.join(" AND ");
        // Equal rows are ordered too, so that the same lake gives the same answer.
        let statement = match question {
            FleetQuestion::Leaks => format!(
                "SELECT * FROM fleet_leaks WHERE {condition} ORDER BY \
                 rate_bytes_per_s DESC NULLS LAST, magnitude_bytes DESC NULLS LAST, run_id, kind, rank"
            ),
            FleetQuestion::Waste => format!(
                "SELECT * FROM fleet_waste WHERE {condition} ORDER BY \
                 unused_gib_hours DESC NULLS LAST, job_id, owner"
            ),
            FleetQuestion::Ooms(group) => ooms(*group),
            FleetQuestion::Headroom => format!(
                "SELECT * FROM fleet_headroom WHERE {condition} ORDER BY \
                 headroom_share NULLS LAST, job_id, owner"
            ),
            FleetQuestion::Regressions => format!(
                "SELECT * FROM fleet_regressions WHERE {condition} ORDER BY \
                 change_share DESC NULLS LAST, program, world_size, first_started_ns"
            ),
        };
        self.sql(&format!("{statement} LIMIT {limit}")).await
    }
}

/// Errors by group. `times_expected` is how many times its share of the device hours a group has of
/// all errors.
fn ooms(group: OomGroup) -> String {
    let column = match group {
        OomGroup::Host => "host",
        OomGroup::Job => "job_id",
        OomGroup::Owner => "owner",
    };
    format!(
        "SELECT {column}, sessions, ooms, last_oom_ns, device_hours, \
         1000.0 * CAST(ooms AS DOUBLE) / NULLIF(device_hours, 0.0) AS ooms_per_1000_device_hours, \
         CAST(ooms AS DOUBLE) * sum(device_hours) OVER () \
          / NULLIF(device_hours * CAST(sum(ooms) OVER () AS DOUBLE), 0.0) AS times_expected \
         FROM (SELECT {column}, count(*) AS sessions, sum(ooms) AS ooms, \
          max(last_oom_ns) AS last_oom_ns, sum(device_hours) AS device_hours \
          FROM fleet_ooms GROUP BY {column}) \
         ORDER BY ooms DESC, times_expected DESC NULLS LAST, {column}"
    )
}
