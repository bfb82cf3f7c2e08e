//! Predefined queries about a fleet (all jobs in a lake). Each selects rows of a SQL view, such as
//! `fleet_leaks`, and sorts them.

use datafusion::execution::SendableRecordBatchStream;

use crate::asker::{Asker, quoted};
use crate::error::AskError;

/// A predefined query about a fleet (all jobs in a lake).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FleetQuestion {
    /// Runs whose memory grows without end.
    Leaks,
    /// Memory that jobs reserve and do not use.
    Waste,
    /// The number of out-of-memory errors of each group, and their rate per device hour.
    Ooms(OomGroup),
    /// How close jobs came to the memory limit of their devices.
    Headroom,
    /// How much the peak memory of each program has changed from one commit or framework version
    /// to the next.
    Regressions,
}

/// The column by which out-of-memory errors are grouped and counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OomGroup {
    /// A host.
    Host,
    /// A job.
    Job,
    /// The owner of a job: the user to whom its recorded files belong.
    Owner,
}

/// Which rows a query about a fleet returns; a field that is `None` excludes no rows.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// Selects only rows of the job with this id.
    pub job_id: Option<String>,
    /// Selects only rows of jobs whose recorded files belong to this user.
    pub owner: Option<String>,
    /// Selects only rows of jobs that ran this program, such as `train.py`.
    pub program: Option<String>,
}

impl Asker {
    /// Runs a predefined query about the fleet and returns at most `limit` rows.
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
        // Rows whose main values are equal are sorted by further columns, so that the same lake
        // always gives the same result.
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

/// A query for the number of out-of-memory errors by group. The column `times_expected` is a
/// group's share of all errors, divided by its share of all device hours.
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
