//! The name of a run in lists.

use stormlog_analysis::timeline::Program;

use crate::time::LocalTime;

/// The name of a run where a list shows it: the name that the user gave it (`batch 64`), or else its
/// program and the local time at which it started (`train.py 12:58`). A run without a program is
/// named by its job (`job 4711 12:58`), or `run 12:58`.
///
/// The name comes from a recording, so the caller escapes it for its output.
pub fn run_name(
    program: &Program,
    job: Option<&str>,
    started_ns: Option<i64>,
    local: &LocalTime,
) -> String {
    if let Some(name) = &program.run_name {
        return name.clone();
    }
    let name = match (program.name.as_deref(), job) {
        (Some(name), _) if !name.is_empty() => name.to_owned(),
        (_, Some(job)) if !job.trim().is_empty() => format!("job {job}"),
        _ => "run".to_owned(),
    };
    match started_ns {
        Some(started_ns) => format!("{name} {}", local.short(started_ns)),
        None => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: i64 = 1_794_726_516_168_924_406;

    #[test]
    fn a_run_has_its_own_name_or_that_of_its_program_and_its_start() {
        let local = LocalTime::in_utc(AT + 1);
        let program = Program {
            name: Some("train.py".to_owned()),
            ..Program::default()
        };
        let named = Program {
            run_name: Some("batch 64".to_owned()),
            ..program.clone()
        };
        let name = |program: &Program, job| run_name(program, job, Some(AT), &local);
        assert_eq!(name(&program, Some("7")), "train.py 07:08");
        assert_eq!(name(&named, None), "batch 64");
        assert_eq!(name(&Program::default(), Some("7")), "job 7 07:08");
        assert_eq!(name(&Program::default(), None), "run 07:08");
        assert_eq!(run_name(&program, None, None, &local), "train.py");
    }
}
