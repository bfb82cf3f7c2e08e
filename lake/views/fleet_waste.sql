-- Memory that allocators hold and do not use, in GiB-hours, by job and owner. Each minute of a track
-- counts with the time between its first and last sample plus one sampling interval, at most a minute.
CREATE VIEW fleet_waste AS
SELECT
  minutes.job_id AS job_id,
  minutes.owner AS owner,
  COUNT(DISTINCT minutes.session_id) AS sessions,
  SUM(minutes.hours) AS device_hours,
  SUM(minutes.reserved_gib * minutes.hours) AS reserved_gib_hours,
  SUM(minutes.unused_gib * minutes.hours) AS unused_gib_hours,
  SUM(minutes.unused_gib * minutes.hours)
    / NULLIF(SUM(minutes.reserved_gib * minutes.hours), 0.0) AS unused_share
FROM (
  SELECT
    rollups.job_id AS job_id,
    sessions.owner AS owner,
    rollups.session_id AS session_id,
    LEAST(
      CAST(rollups.last_ns - rollups.first_ns AS DOUBLE) / 1.0e9
        + CAST(rollups.sampling_interval_ms AS DOUBLE) / 1.0e3,
      60.0
    ) / 3600.0 AS hours,
    CAST(rollups.reserved_sum_bytes AS DOUBLE)
      / NULLIF(CAST(rollups.reserved_known AS DOUBLE), 0.0) / 1073741824.0 AS reserved_gib,
    CAST(rollups.unused_sum_bytes AS DOUBLE)
      / NULLIF(CAST(rollups.unused_known AS DOUBLE), 0.0) / 1073741824.0 AS unused_gib
  FROM rollups
  LEFT JOIN (
    SELECT session_id, MIN(owner) AS owner FROM sessions GROUP BY session_id
  ) AS sessions
    ON rollups.session_id = sessions.session_id
  WHERE rollups.device_id >= 0
) AS minutes
GROUP BY minutes.job_id, minutes.owner
