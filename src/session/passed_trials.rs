//! The memory of trials: a file in the user's cache for each device and program whose kernels have all passed.

use std::path::PathBuf;
use std::time::UNIX_EPOCH;
use std::{env, fs};

use crate::storage::user_cache;

/// The file that is there once all kernels of this program have passed on such a device.
pub(super) struct PassedTrials(PathBuf);

impl PassedTrials {
    /// The file for a device of that name; none where nothing can be kept.
    pub(super) fn on(device: &str) -> Option<Self> {
        let program = fs::metadata(env::current_exe().ok()?).ok()?;
        let built = program.modified().ok()?.duration_since(UNIX_EPOCH).ok()?.as_secs();
        let device = device.replace(|character: char| !character.is_ascii_alphanumeric(), "-");
        let name = format!("{device}_{}_{built}", program.len());
        Some(Self(user_cache()?.join("passed_kernels").join(name)))
    }

    /// Whether they have passed.
    pub(super) fn are_known(&self) -> bool {
        self.0.exists()
    }

    /// Remembers that they have. A folder that cannot be written costs the next command a trial.
    pub(super) fn remember(&self) {
        let _ = self.0.parent().map(fs::create_dir_all);
        let _ = fs::write(&self.0, "");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_passed_is_known_of_its_device_alone() {
        let folder = tempfile::tempdir().expect("a folder");
        let on = |device: &str| {
            let place = PassedTrials::on(device).expect("a test has a program and a home");
            PassedTrials(folder.path().join("kernels").join(place.0.file_name().expect("a name")))
        };
        on("NVIDIA H200").remember();
        assert!(on("NVIDIA H200").are_known());
        assert!(!on("NVIDIA A100/SXM").are_known());
    }
}
