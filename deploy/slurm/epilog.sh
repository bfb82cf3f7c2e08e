#!/bin/sh
# Slurm epilog (runs as root on each node when a job ends): ends the recorder that prolog.sh started.
# The recording stays; the metrics file goes with the recorder.

runs=${STORMLOG_RUNS:-/var/lib/stormlog}
job=${SLURM_JOB_ID:-}

case $job in '' | *[!0-9]*) exit 0 ;; esac
file=$runs/pids/$job
[ -f "$file" ] || exit 0
pid=$(cat "$file")
rm -f "$file"
case $pid in '' | *[!0-9]*) exit 0 ;; esac
# A number that was given to another process since is left alone.
if tr '\0' ' ' <"/proc/$pid/cmdline" 2>/dev/null | grep -q -e "--job-id $job "; then
    kill -TERM "$pid"
fi
exit 0
