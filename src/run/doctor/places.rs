//! `gimlet doctor PATH`: the actions that a run may do there, and its missing permissions.

use std::fmt::Write;

use crate::storage::{Outcome, Path, Probe, StorageError};

/// The attempts in a folder, and whether a run has all permissions.
pub struct Examined {
    /// A line for each attempt.
    pub report: String,
    /// Whether nothing was refused.
    pub is_sound: bool,
}

/// Tries the actions of a run in a folder.
///
/// # Errors
/// The text is not a path.
pub fn examine(place: &str) -> Result<Examined, StorageError> {
    let path = Path::parse(place)?;
    let probes = path.probe();
    let mut report = format!("{path}\n");
    for probe in &probes {
        let _ = writeln!(report, "  {:<18} {}", probe.operation, found(probe));
    }
    let is_refused = |probe: &Probe| matches!(probe.outcome, Outcome::Refused(_));
    Ok(Examined { report, is_sound: !probes.iter().any(is_refused) })
}

fn found(probe: &Probe) -> String {
    match &probe.outcome {
        Outcome::Allowed => "yes".to_string(),
        Outcome::Untried(reason) => format!("not tried: {reason}"),
        Outcome::Refused(error @ StorageError::Denied { .. }) if !probe.permission.is_empty() => {
            format!("no: it needs {}; {error}", probe.permission)
        }
        Outcome::Refused(error) => format!("no: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_on_disk_is_tried_and_left_as_it_was() {
        let dir = tempfile::tempdir().unwrap();
        let check = |folder: &std::path::Path| {
            let examined = examine(folder.to_str().unwrap()).unwrap();
            assert!(examined.is_sound, "{}", examined.report);
            assert_eq!(examined.report.matches(" yes\n").count(), 4, "{}", examined.report);
        };
        check(dir.path());
        check(&dir.path().join("not yet"));
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
        let file = dir.path().join("file");
        std::fs::write(&file, "").unwrap();
        let examined = examine(file.to_str().unwrap()).unwrap();
        assert!(
            !examined.is_sound && examined.report.contains("no: cannot"),
            "{}",
            examined.report
        );
    }
}
