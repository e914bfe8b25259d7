//! The state of the server: open texts, the workspace, and their analyses.

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use crate::gin::{Registry, Request, Source, TASK_LIBRARY, load_anyway};
use crate::run::declarations::declared;
use crate::run::dialect::Registries;
use crate::run::library::Library;

use super::analysis::{Analysis, Reading};
use super::files::{Buffer, Files};
use super::workspace::Workspace;

/// The state between two messages of the editor.
pub struct Project {
    /// The known configurables.
    registries: Registries,
    /// Every text.
    pub files: Files,
    /// The gin files of the workspace.
    pub workspace: Workspace,
    search_paths: Vec<String>,
    /// Valid until a text changes.
    analyses: BTreeMap<PathBuf, Rc<Analysis>>,
    library_tasks: OnceCell<Vec<LibraryTask>>,
}

/// A task that comes with Gimlet.
#[derive(Clone, Debug)]
pub struct LibraryTask {
    /// Its name.
    pub name: String,
    /// The module to import for it.
    pub module: String,
}

impl Project {
    /// Creates the project of a workspace of some folders. Relative paths start at the first one.
    pub fn new(folders: Vec<PathBuf>, search_paths: Vec<String>, registries: Registries) -> Self {
        let files = Files::new(folders[0].clone());
        let mut workspace = Workspace::new(folders);
        workspace.scan(&files, &search_paths);
        let (analyses, library_tasks) = (BTreeMap::new(), OnceCell::new());
        Self { registries, files, workspace, search_paths, analyses, library_tasks }
    }

    /// Returns the configurables that a file may name.
    pub fn registry(&self, analysis: &Analysis) -> &Registry {
        self.registries.of(analysis.language)
    }

    /// Updates a text that was opened or edited.
    pub fn edit(&mut self, buffer: Buffer) {
        self.files.edit(buffer);
        self.analyses.clear();
    }

    /// Forgets a text that was closed.
    pub fn close(&mut self, uri: &lsp_types::Uri) {
        self.files.close(uri);
        self.analyses.clear();
    }

    /// Scans files on disk again, which may have changed.
    pub fn rescan(&mut self) {
        self.workspace.scan(&self.files, &self.search_paths);
        self.analyses.clear();
    }

    /// Returns the analysis of a file; `None` if there is no such file.
    pub fn analysis(&mut self, path: &Path) -> Option<Rc<Analysis>> {
        if let Some(known) = self.analyses.get(path) {
            return Some(known.clone());
        }
        let text = self.files.read(&self.files.name(path)).ok().flatten()?;
        let reading = Reading {
            files: &self.files,
            search_paths: &self.search_paths,
            registries: &self.registries,
        };
        let analysis = Analysis::new(path, text, &reading);
        let analysis = Rc::new(analysis);
        self.analyses.insert(path.to_path_buf(), analysis.clone());
        Some(analysis)
    }

    /// Whether others include the file, so that they may give values that it does not have.
    pub fn is_part(&self, path: &Path) -> bool {
        self.files.is_library(path) || self.workspace.is_included(path)
    }

    /// Returns folders in which includes are searched, after the workspace's first.
    pub fn search_paths(&self) -> &[String] {
        &self.search_paths
    }

    /// Tasks that any file may import.
    pub fn library_tasks(&self) -> &[LibraryTask] {
        self.library_tasks.get_or_init(|| {
            let names = Library::files().into_iter().filter_map(|(name, _)| {
                let inner = name.strip_prefix(TASK_LIBRARY)?.strip_suffix(".gin")?;
                Some(inner.trim_matches('/').replace('/', "."))
            });
            names.flat_map(|module| tasks_of(&module, self.registries.t5x())).collect()
        })
    }
}

/// Returns the tasks that a library module declares.
fn tasks_of(module: &str, registry: &Registry) -> Vec<LibraryTask> {
    let bindings = vec![(String::new(), format!("import {module}"))];
    let request = Request { bindings, ..Request::default() };
    let loaded = load_anyway(&request, &Library, registry);
    let task = |name| LibraryTask { name, module: module.to_string() };
    declared(&loaded, registry).names.into_keys().map(task).collect()
}
