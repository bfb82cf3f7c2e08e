//! Workers that are killed while they answer.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::util::pretty::pretty_format_batches;
use futures::TryStreamExt;
use stormlog_lake_ask::{AskError, Asker};

use crate::questions::{asker, fixture, ingested};
use crate::workers::Workers;

/// Reads every sample on the workers, shuffles and joins.
const QUESTION: &str = "SELECT s.rank, s.device_id, count(*) AS samples, sum(s.allocator_allocated_bytes) AS bytes, \
     max(r.allocated_max_bytes) AS most FROM samples s JOIN rollups r ON s.session_id = r.session_id \
     GROUP BY s.rank, s.device_id ORDER BY s.rank, s.device_id";

async fn answer(asker: &Asker) -> Result<String, AskError> {
    let rows = asker.sql(QUESTION).await?;
    let rows: Vec<RecordBatch> = rows.try_collect().await?;
    Ok(pretty_format_batches(&rows).unwrap().to_string())
}

fn kill(pid: u32) {
    let killed = Command::new("kill").args(["-9", &pid.to_string()]).status();
    assert!(killed.unwrap().success());
}

fn lake() -> tempfile::TempDir {
    ingested(&[
        fixture("recordings/ddp_two_ranks"),
        fixture("recordings/losses_to_oom"),
        fixture("recordings/shared_kv_cache"),
        fixture("runs/v040_rank_leak"),
    ])
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_that_loses_a_worker_has_the_right_answer() {
    let lake = lake();
    let expected = answer(&asker(lake.path()).await).await.unwrap();
    for delay_ms in [0, 20, 60, 120, 250] {
        let workers = Workers::start(lake.path(), 3);
        let asker = workers.asker(lake.path()).await;
        let pids = workers.pids();
        let killing = tokio::spawn(async move {
            tokio::time::sleep(Duration::from_millis(delay_ms)).await;
            kill(pids[0]);
            tokio::time::sleep(Duration::from_millis(delay_ms)).await;
            kill(pids[1]);
        });
        // Until a question was asked after both were killed.
        loop {
            let is_last = killing.is_finished();
            assert_eq!(answer(&asker).await.unwrap(), expected, "{delay_ms} ms");
            if is_last {
                break;
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_workers_there_is_an_error_and_no_answer() {
    let lake = lake();
    let workers = Workers::start(lake.path(), 2);
    let asker = workers.asker(lake.path()).await;
    assert!(answer(&asker).await.is_ok());
    for pid in workers.pids() {
        kill(pid);
    }
    let error = answer(&asker).await.unwrap_err();
    assert!(error.to_string().contains("lost"), "{error}");
    let text = printed_error(lake.path(), &workers.addresses);
    assert!(text.contains("refused") && text.contains("hint:"), "{text}");
}

fn printed_error(lake: &Path, engine: &str) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_stormlog-lake"))
        .args(["waste", "--engine", engine, "--at"])
        .arg(lake)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn workers_end_with_the_process_that_started_them() {
    let lake = lake();
    let workers = Workers::start(lake.path(), 2);
    let pids = workers.pids();
    assert_eq!(pids.len(), 2);
    drop(workers);
    let is_running = |pid: &u32| {
        let status = std::fs::read_to_string(format!("/proc/{pid}/stat"));
        status.is_ok_and(|status| !status.contains(") Z "))
    };
    let deadline = Instant::now() + Duration::from_mins(1);
    while pids.iter().any(is_running) {
        assert!(Instant::now() < deadline, "a worker is left");
        std::thread::sleep(Duration::from_millis(20));
    }
}
