#!/bin/sh
# Slurm prolog (runs as root on each node when a job starts): records the node's GPUs while the job
# runs, one recording per job and node, and writes metrics for node_exporter's textfile collector.
#
# Never fails the job: a prolog that exits with another code than 0 drains the node.

stormlog=${STORMLOG:-/usr/local/bin/stormlog}
runs=${STORMLOG_RUNS:-/var/lib/stormlog}
metrics=${STORMLOG_METRICS:-/var/lib/prometheus/node-exporter}
job=${SLURM_JOB_ID:-}

# The id becomes part of paths.
case $job in '' | *[!0-9]*) exit 0 ;; esac
[ -x "$stormlog" ] || exit 0
mkdir -p "$runs/pids" "$metrics" || exit 0

# Its own session, and none of the prolog's descriptors: Slurm waits until they are closed.
setsid nice "$stormlog" track --interval 1 --job-id "$job" \
    --sink "$runs/job-$job/$(hostname -s)" \
    --metrics-file "$metrics/stormlog-job-$job.prom" \
    </dev/null >"$runs/job-$job.log" 2>&1 &
echo $! >"$runs/pids/$job"
exit 0
