-- Out-of-memory errors of each session, with the device hours that it was recorded.
CREATE VIEW fleet_ooms AS
SELECT
  sessions.host AS host,
  sessions.job_id AS job_id,
  sessions.owner AS owner,
  sessions.session_id AS session_id,
  COALESCE(failed.ooms, 0) AS ooms,
  failed.last_oom_ns AS last_oom_ns,
  COALESCE(recorded.device_hours, 0.0) AS device_hours
FROM (
  SELECT session_id, MIN(host) AS host, MIN(job_id) AS job_id, MIN(owner) AS owner
  FROM sessions
  GROUP BY session_id
) AS sessions
LEFT JOIN (
  SELECT session_id, COUNT(*) AS ooms, MAX(timestamp_ns) AS last_oom_ns
  FROM events
  WHERE is_oom
  GROUP BY session_id
) AS failed
  ON sessions.session_id = failed.session_id
LEFT JOIN (
  SELECT
    session_id,
    SUM(
      LEAST(
        CAST(last_ns - first_ns AS DOUBLE) / 1.0e9 + CAST(sampling_interval_ms AS DOUBLE) / 1.0e3,
        60.0
      )
    ) / 3600.0 AS device_hours
  FROM rollups
  WHERE device_id >= 0
  GROUP BY session_id
) AS recorded
  ON sessions.session_id = recorded.session_id
