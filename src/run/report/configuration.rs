//! The configuration of a run: each binding of its `config.gin` with the place from which it came, and the values
//! that its root configurable gets.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::gin::{Severity, tree};
use crate::run::configure::{BoundValue, bindings};
use crate::run::failure::Failure;
use crate::run::gin::{Project, ReadingArgs};
use crate::session::start_record::{self, StartRecord};
use crate::storage::Path;

use super::predictions::cut;

/// The number of characters that are shown of a value.
const MOST_CHARACTERS: usize = 1000;

/// The configuration of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Configuration {
    /// Its bindings, by name.
    pub bindings: Vec<Binding>,
    /// The values of the root by their path.
    pub values: BTreeMap<String, String>,
}

/// A bound parameter or a macro.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Binding {
    /// `scope/module.Name.parameter`, or a macro's name.
    pub name: String,
    /// Its value.
    pub value: String,
    /// The file with its line, or the flag, from which it came.
    pub place: String,
}

impl Configuration {
    /// Reads `config.gin` of a run. Parts that this version of Gimlet does not understand are skipped with a notice.
    pub fn read(folder: &Path, starts: &[StartRecord], skipped: &mut Vec<String>) -> Self {
        let file = folder.join("config.gin");
        if !file.exists().unwrap_or(false) {
            skipped.push(format!("{folder} has no config.gin: its configuration is not shown"));
            return Self::default();
        }
        let places = start_record::places(starts).cloned().unwrap_or_default();
        read(&file, &places, skipped).unwrap_or_else(|failure| {
            skipped.push(format!("{file}: {failure}; its configuration is not shown"));
            Self::default()
        })
    }
}

fn read(
    file: &Path,
    recorded: &BTreeMap<String, String>,
    skipped: &mut Vec<String>,
) -> Result<Configuration, Failure> {
    let files = [file.to_string()];
    let project = Project::load(&files, &ReadingArgs::default(), &[])?;
    let loaded = &project.loaded;
    // Such as an import of a task file that is not on this machine.
    let mistakes = loaded.diagnostics.iter().filter(|one| one.severity == Severity::Error);
    skipped.extend(mistakes.map(|one| format!("{file}: {}; it is skipped", one.message)));
    let binding = |(name, bound): (String, BoundValue)| Binding {
        place: recorded.get(&name).cloned().unwrap_or(bound.place),
        value: cut(&bound.value, MOST_CHARACTERS),
        name,
    };
    let bindings = bindings(loaded).into_iter().map(binding).collect();
    let values = match project.root() {
        Ok(root) => tree(&loaded.config, &project.registry, root),
        // A part of a configuration has no root.
        Err(_) => BTreeMap::new(),
    };
    Ok(Configuration { bindings, values })
}
