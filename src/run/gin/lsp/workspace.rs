//! The gin files of a workspace, and the includes between them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, Metadata};
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::gin::ast::{Statement, StatementKind};
use crate::gin::{FileId, Finder, LIBRARY, Source, parse};

use super::files::Files;

/// Folders without gin files of the user's, and perhaps with very many other files.
const SKIPPED: [&str; 3] = ["target", "node_modules", "__pycache__"];

/// The greatest number of visited entries: a server started in `/` must not walk the whole disk.
const MAX_ENTRIES: usize = 50_000;

/// The greatest length of a configuration file, in bytes.
const MAX_LENGTH: u64 = 4 << 20;

/// The gin files below some folders.
#[derive(Debug, Default)]
pub struct Workspace {
    folders: Vec<PathBuf>,
    files: BTreeMap<PathBuf, Scanned>,
    /// The included files of each file. Computed at each scan, because files appear and disappear.
    includes: BTreeMap<PathBuf, Vec<PathBuf>>,
    /// Files that another one includes.
    included: BTreeSet<PathBuf>,
}

#[derive(Debug)]
struct Scanned {
    /// Time of its last change and its length; `None` while it is open.
    stamp: Option<(SystemTime, u64)>,
    /// The paths it includes, as written.
    includes: Vec<String>,
}

impl Workspace {
    /// Creates the workspace of these folders, not scanned yet.
    pub fn new(folders: Vec<PathBuf>) -> Self {
        Self { folders, ..Self::default() }
    }

    /// Scans the folders again. Only files that have changed are read.
    pub fn scan(&mut self, files: &Files, search_paths: &[String]) {
        let mut known = std::mem::take(&mut self.files);
        let on_disk = gin_files(&self.folders).into_iter();
        let on_disk = on_disk.filter(|(path, _)| files.buffer(path).is_none());
        let stamped = on_disk.map(|(path, metadata)| {
            (path, metadata.modified().ok().map(|time| (time, metadata.len())))
        });
        let open = files.buffers().map(|(path, _)| (path.clone(), None));
        for (path, stamp) in stamped.chain(open) {
            let scanned = match known.remove(&path) {
                Some(known) if stamp.is_some() && known.stamp == stamp => known,
                _ => Scanned { stamp, includes: includes(&path, files) },
            };
            self.files.insert(path, scanned);
        }
        let exists = Exists(files);
        let finder = Finder::new(&exists, search_paths);
        let found = self.files.iter().map(|(path, scanned)| {
            let name = files.name(path);
            let found = scanned.includes.iter().filter_map(|include| {
                let found = finder.find(include, LIBRARY, Some(&name)).ok().flatten();
                found.map(|(name, _)| files.path(&name)).filter(|inner| inner != path)
            });
            (path.clone(), found.collect())
        });
        self.includes = found.collect();
        self.included = self.includes.values().flatten().cloned().collect();
    }

    /// Whether another file includes this one.
    pub fn is_included(&self, path: &Path) -> bool {
        self.included.contains(path)
    }

    /// Returns files that no other includes and that include any of these, however indirectly.
    pub fn roots_of(&self, wanted: &BTreeSet<PathBuf>) -> Vec<PathBuf> {
        let roots = self.files.keys().filter(|path| !self.is_included(path));
        roots.filter(|root| self.reaches(root, wanted)).cloned().collect()
    }

    fn reaches(&self, root: &Path, wanted: &BTreeSet<PathBuf>) -> bool {
        let mut seen = BTreeSet::from([root]);
        let mut open = vec![root];
        while let Some(path) = open.pop() {
            if wanted.contains(path) {
                return true;
            }
            let includes = self.includes.get(path).into_iter().flatten();
            open.extend(includes.map(PathBuf::as_path).filter(|inner| seen.insert(inner)));
        }
        false
    }

    /// Every gin file.
    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        self.files.keys().map(PathBuf::as_path)
    }
}

/// The paths that a file includes.
fn includes(path: &Path, files: &Files) -> Vec<String> {
    let Ok(Some(text)) = files.read(&files.name(path)) else { return Vec::new() };
    let (statements, _) = parse(FileId(0), &text);
    let include = |statement: Statement| match statement.kind {
        StatementKind::Include(include) => Some(include.path),
        _ => None,
    };
    statements.into_iter().filter_map(include).collect()
}

/// Checks the existence of files without reading them.
struct Exists<'a>(&'a Files);

impl Source for Exists<'_> {
    fn read(&self, name: &str) -> io::Result<Option<String>> {
        Ok(self.0.exists(name).then(String::new))
    }

    fn similar(&self, _: &str) -> Vec<String> {
        Vec::new()
    }
}

/// Returns all gin files below some folders. Links to folders are not followed, to avoid cycles.
fn gin_files(folders: &[PathBuf]) -> Vec<(PathBuf, Metadata)> {
    let mut folders = folders.to_vec();
    let mut out = Vec::new();
    let mut seen = 0;
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            seen += 1;
            if seen > MAX_ENTRIES {
                return out;
            }
            let (path, name) = (entry.path(), entry.file_name());
            let name = name.to_string_lossy();
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                if !name.starts_with('.') && !SKIPPED.contains(&&*name) {
                    folders.push(path);
                }
            } else if name.ends_with(".gin")
                && let Ok(metadata) = fs::metadata(&path)
                && metadata.is_file()
                && metadata.len() <= MAX_LENGTH
            {
                out.push((path, metadata));
            }
        }
    }
    out
}
