-- Memory that grows without end, by run: what, on which rank, since when and how fast.
CREATE VIEW fleet_leaks AS
SELECT
  runs.job_id AS job_id,
  runs.owner AS owner,
  findings.run_id AS run_id,
  findings.kind AS kind,
  findings.severity AS severity,
  findings.rank AS rank,
  findings.device_id AS device_id,
  findings.session_id AS session_id,
  findings.onset_ns AS onset_ns,
  findings.magnitude_bytes AS magnitude_bytes,
  findings.rate_bytes_per_s AS rate_bytes_per_s,
  findings.time_to_full_s AS time_to_full_s,
  findings.confidence AS confidence,
  findings.explanation AS explanation
FROM findings
LEFT JOIN (
  SELECT run_id, MIN(job_id) AS job_id, MIN(owner) AS owner FROM runs GROUP BY run_id
) AS runs
  ON findings.run_id = runs.run_id
WHERE findings.kind IN ('allocator_leak', 'hidden_drift', 'host_leak')
