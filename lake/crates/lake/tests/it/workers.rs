//! A real cluster: the program's own command, with workers as processes.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use stormlog_lake_ask::{Asker, Cluster};
use stormlog_lake_tables::Lake;

/// Workers that end with the value.
pub(crate) struct Workers {
    cluster: Child,
    /// For `--engine`.
    pub(crate) addresses: String,
}

impl Workers {
    /// Starts workers for a lake.
    pub(crate) fn start(lake: &Path, workers: usize) -> Self {
        let mut cluster = Command::new(env!("CARGO_BIN_EXE_stormlog-lake"))
            .args(["cluster", "--workers", &workers.to_string()])
            .arg("--at")
            .arg(lake)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut addresses = String::new();
        let output = cluster.stdout.take().unwrap();
        BufReader::new(output).read_line(&mut addresses).unwrap();
        let addresses = addresses.trim().to_owned();
        assert_eq!(addresses.split(',').count(), workers, "'{addresses}'");
        Self { cluster, addresses }
    }

    /// An asker whose questions are divided among the workers, however small the tables are.
    pub(crate) async fn asker(&self, lake: &Path) -> Asker {
        let cluster = Cluster::at(&self.addresses).await.unwrap();
        assert!(cluster.warnings().is_empty(), "{:?}", cluster.warnings());
        let lake = Lake::at(lake.to_str().unwrap()).unwrap();
        let cluster = cluster.with_bytes_per_task(1);
        let asker = Asker::on(&lake, cluster).unwrap();
        let plan = asker.explain("SELECT rank, count(*) FROM samples GROUP BY rank");
        let plan = plan.await.unwrap();
        assert!(plan.contains("NetworkShuffleExec"), "{plan}");
        asker
    }

    /// The process ids of the workers.
    pub(crate) fn pids(&self) -> Vec<u32> {
        let id = self.cluster.id();
        let children = std::fs::read_to_string(format!("/proc/{id}/task/{id}/children")).unwrap();
        let mut pids: Vec<u32> = children
            .split_whitespace()
            .map(|pid| pid.parse().unwrap())
            .collect();
        pids.sort_unstable();
        pids
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        // The workers end with the process that started them.
        let _ = self.cluster.kill();
        let _ = self.cluster.wait();
    }
}
