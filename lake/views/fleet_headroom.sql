-- How close each job came to the limit of a device: the fullest track decides.
CREATE VIEW fleet_headroom AS
SELECT
  tracks.job_id AS job_id,
  tracks.owner AS owner,
  COUNT(*) AS tracks,
  MAX(tracks.peak_allocated_bytes) AS peak_allocated_bytes,
  MAX(tracks.peak_reserved_bytes) AS peak_reserved_bytes,
  MAX(tracks.peak_used_bytes) AS peak_used_bytes,
  MIN(tracks.total_bytes) AS total_bytes,
  MIN(tracks.total_bytes - tracks.peak_used_bytes) AS headroom_bytes,
  MIN(
    CAST(tracks.total_bytes - tracks.peak_used_bytes AS DOUBLE)
      / NULLIF(CAST(tracks.total_bytes AS DOUBLE), 0.0)
  ) AS headroom_share
FROM (
  SELECT
    rollups.job_id AS job_id,
    sessions.owner AS owner,
    rollups.source_id AS source_id,
    rollups.session_id AS session_id,
    rollups.rank AS rank,
    rollups.device_id AS device_id,
    MAX(rollups.allocated_max_bytes) AS peak_allocated_bytes,
    MAX(rollups.reserved_max_bytes) AS peak_reserved_bytes,
    MAX(rollups.used_max_bytes) AS peak_used_bytes,
    MAX(rollups.total_max_bytes) AS total_bytes
  FROM rollups
  LEFT JOIN (
    SELECT session_id, MIN(owner) AS owner FROM sessions GROUP BY session_id
  ) AS sessions
    ON rollups.session_id = sessions.session_id
  WHERE rollups.device_id >= 0
  GROUP BY
    rollups.job_id, sessions.owner, rollups.source_id, rollups.session_id, rollups.rank,
    rollups.device_id
) AS tracks
WHERE tracks.total_bytes IS NOT NULL AND tracks.peak_used_bytes IS NOT NULL
GROUP BY tracks.job_id, tracks.owner
