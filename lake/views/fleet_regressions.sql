-- Peak memory of each program by commit and framework version, and the change against the version
-- that was first run before it. Programs are compared at the same world size only.
CREATE VIEW fleet_regressions AS
SELECT
  versions.program AS program,
  versions.world_size AS world_size,
  versions.git_commit AS git_commit,
  versions.framework AS framework,
  versions.framework_version AS framework_version,
  versions.runs AS runs,
  versions.first_started_ns AS first_started_ns,
  versions.peak_allocated_bytes AS peak_allocated_bytes,
  versions.peak_reserved_bytes AS peak_reserved_bytes,
  versions.peak_allocated_bytes - LAG(versions.peak_allocated_bytes) OVER (
    PARTITION BY versions.program, versions.world_size ORDER BY versions.first_started_ns
  ) AS change_bytes,
  CAST(
    versions.peak_allocated_bytes - LAG(versions.peak_allocated_bytes) OVER (
      PARTITION BY versions.program, versions.world_size ORDER BY versions.first_started_ns
    ) AS DOUBLE
  ) / NULLIF(
    CAST(
      LAG(versions.peak_allocated_bytes) OVER (
        PARTITION BY versions.program, versions.world_size ORDER BY versions.first_started_ns
      ) AS DOUBLE
    ),
    0.0
  ) AS change_share
FROM (
  SELECT
    program,
    world_size,
    git_commit,
    framework,
    framework_version,
    COUNT(*) AS runs,
    MIN(started_at_ns) AS first_started_ns,
    MAX(peak_allocated_bytes) AS peak_allocated_bytes,
    MAX(peak_reserved_bytes) AS peak_reserved_bytes
  FROM runs
  WHERE program IS NOT NULL
  GROUP BY program, world_size, git_commit, framework, framework_version
) AS versions
