//! The checkpoint and the configuration that a path names: of a run, of one of its checkpoints, or of a folder of
//! Hugging Face's, transformers or PEFT.

use crate::checkpoint::{BEST_DIR, CheckpointError, HuggingFaceConfig, PeftConfig, committed};
use crate::storage::Path;

/// The configuration that a run writes into its MODEL_DIR.
const RUN_CONFIG: &str = "config.gin";

/// The thing that a path names.
#[derive(Debug, PartialEq)]
pub struct Found {
    /// The checkpoint.
    pub checkpoint: Path,
    /// The file that names the model, if there is one.
    pub config: Option<Path>,
}

impl Found {
    /// Looks at the files of a path.
    ///
    /// # Errors
    /// The path cannot be read. A missing path is an error of opening the checkpoint.
    pub fn at(path: &Path) -> Result<Self, CheckpointError> {
        let is_dir = path.is_dir()?;
        let newest = if is_dir { committed(path)?.pop_last() } else { None };
        let checkpoint = newest.map_or_else(|| path.clone(), |(_, newest)| newest);
        let folder = path.folder();
        let names = [RUN_CONFIG, PeftConfig::FILE, HuggingFaceConfig::FILE];
        let files = |dir: &Path| names.map(|file| dir.join(file));
        let mut candidates = Vec::new();
        if is_dir {
            candidates.extend(files(path));
        }
        candidates.extend(files(&folder));
        // The best model of a run has a folder of its own in MODEL_DIR.
        if folder.file_name() == BEST_DIR {
            candidates.extend(files(&folder.folder()));
        }
        for config in candidates {
            if config.exists()? {
                return Ok(Self { checkpoint, config: Some(config) });
            }
        }
        Ok(Self { checkpoint, config: None })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_a_checkpoint_of_it_and_a_folder_of_hugging_face_are_found() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let root = Path::try_from(dir.path()).expect("the path is text");
        for file in [
            "run/config.gin",
            "run/checkpoint_4/checkpoint",
            "run/best/checkpoint_2/checkpoint",
            "hub/config.json",
            "bare/x",
        ] {
            root.join(file).folder().create_dir_all().expect("the folder can be written");
            root.join(file).write_atomic(b"{}").expect("the folder can be written");
        }
        let check = |path: &str, checkpoint: &str, config: Option<&str>| {
            let found = Found::at(&root.join(path)).expect("it is readable");
            let config = config.map(|config| root.join(config));
            assert_eq!(found, Found { checkpoint: root.join(checkpoint), config });
        };
        check("run", "run/checkpoint_4", Some("run/config.gin"));
        check("run/checkpoint_4", "run/checkpoint_4", Some("run/config.gin"));
        check("run/best/checkpoint_2", "run/best/checkpoint_2", Some("run/config.gin"));
        check("hub", "hub", Some("hub/config.json"));
        check("bare", "bare", None);
    }
}
