//! Describes what could not be recorded of the devices of a run, and what to do about it.

use std::collections::BTreeSet;

use stormlog_analysis::timeline::{DeviceMemory, Run, Track};

/// A label and a sentence for each kind of data that could not be recorded (such as the program's
/// own share of a device) and for devices that share memory with the host. The list is empty if
/// there is nothing to report.
pub fn limits_of_recording<'a>(
    runs: impl IntoIterator<Item = &'a Run>,
) -> Vec<(&'static str, String)> {
    let tracks: Vec<&Track> = runs.into_iter().flat_map(|run| &run.tracks).collect();
    let devices = |is_meant: &dyn Fn(&Track) -> bool| {
        let meant = tracks.iter().filter(|track| is_meant(track));
        let devices: BTreeSet<i64> = meant.map(|track| track.device_id).collect();
        let names = devices.iter().map(|index| format!("GPU {index}"));
        (!devices.is_empty()).then(|| names.collect::<Vec<_>>().join(", "))
    };
    let mut lines = Vec::new();
    if let Some(devices) = devices(&Track::is_share_hidden) {
        lines.push((
            "share",
            format!(
                "the program's own share of {devices} is unknown: the driver lists processes by \
                 other pids, as in containers; start the container with --pid=host to record it"
            ),
        ));
    }
    if let Some(devices) = devices(&|track| track.device_memory == Some(DeviceMemory::Integrated)) {
        lines.push((
            "unified",
            format!("{devices} has no memory of its own: what it uses is host memory"),
        ));
    }
    if let Some(devices) = devices(&|track| track.device_memory == Some(DeviceMemory::Coherent)) {
        lines.push((
            "unified",
            format!(
                "{devices} and the host can use each other's memory; the memory of each is \
                 recorded separately"
            ),
        ));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(tracks: Vec<Track>) -> Run {
        Run {
            tracks,
            ..Run::default()
        }
    }

    fn hidden(device_id: i64) -> Track {
        Track {
            device_id,
            t_ns: vec![1],
            used: [Some(9)].into_iter().collect(),
            unassigned: [Some(9)].into_iter().collect(),
            ..Track::default()
        }
    }

    #[test]
    fn a_run_that_was_recorded_whole_has_no_limits() {
        assert_eq!(limits_of_recording([&run(vec![Track::default()])]), []);
    }

    #[test]
    fn devices_with_a_hidden_share_are_named_once() {
        let runs = [run(vec![hidden(0), hidden(1)]), run(vec![hidden(0)])];
        let lines = limits_of_recording(&runs);
        assert_eq!(lines.len(), 1);
        assert_eq!(lines[0].0, "share");
        assert!(lines[0].1.contains("share of GPU 0, GPU 1 is unknown"));
        assert!(lines[0].1.contains("--pid=host"));
    }

    #[test]
    fn unified_memory_is_named() {
        let with = |memory| Track {
            device_memory: Some(memory),
            ..Track::default()
        };
        let both = run(vec![
            with(DeviceMemory::Integrated),
            with(DeviceMemory::Coherent),
        ]);
        let labels: Vec<_> = limits_of_recording([&both])
            .into_iter()
            .map(|(label, _)| label)
            .collect();
        assert_eq!(labels, ["unified", "unified"]);
    }
}
