//! The files of a data set's tasks, listed once for all of its streams.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use crate::error::DataError;
use crate::source::SplitFiles;

/// The listed files of one split of each task. Clones share the listing.
#[derive(Clone, Default)]
pub(crate) struct Listing(Arc<Mutex<HashMap<String, SplitFiles>>>);

impl Listing {
    /// A listing that already has the files of a task.
    pub(crate) fn of(task: &str, files: SplitFiles) -> Self {
        Self(Arc::new(Mutex::new(HashMap::from([(task.to_string(), files)]))))
    }

    /// The files of a task; `list` finds them at the first call.
    pub(super) fn files_of(
        &self,
        task: &str,
        list: impl FnOnce() -> Result<SplitFiles, DataError>,
    ) -> Result<SplitFiles, DataError> {
        let mut listed = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(files) = listed.get(task) {
            return Ok(files.clone());
        }
        let files = list()?;
        listed.insert(task.to_string(), files.clone());
        Ok(files)
    }
}

impl fmt::Debug for Listing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Listing")
    }
}
