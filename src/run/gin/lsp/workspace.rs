//! The gin files of a workspace, and which of them include which.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, Metadata};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::gin::ast::StatementKind;
use crate::gin::{FileId, Finder, LIBRARY, parse};

use super::files::Files;

/// Folders that hold no gin files of the user's, and perhaps very many others.
const SKIPPED: [&str; 3] = ["target", "node_modules", "__pycache__"];

/// Entries of folders that are looked at, at most: a server started in `/` must not walk the disk.
const MAX_ENTRIES: usize = 50_000;

/// The longest file that is taken for a configuration, in bytes.
const MAX_LENGTH: u64 = 4 << 20;

/// The gin files below some folders.
#[derive(Debug, Default)]
pub struct Workspace {
    folders: Vec<PathBuf>,
    files: BTreeMap<PathBuf, Scanned>,
    /// Files that another one includes.
    included: BTreeSet<PathBuf>,
}

#[derive(Debug)]
struct Scanned {
    /// When it was changed and how long it is; `None` while it is open.
    stamp: Option<(SystemTime, u64)>,
    /// The files it includes.
    includes: Vec<PathBuf>,
}

impl Workspace {
    /// The workspace of these folders, not looked at yet.
    pub fn new(folders: Vec<PathBuf>) -> Self {
        Self { folders, ..Self::default() }
    }

    /// Looks at the folders again. Only files that have changed are read.
    pub fn scan(&mut self, files: &Files, search_paths: &[String]) {
        let mut known = std::mem::take(&mut self.files);
        let finder = Finder::new(files, search_paths);
        let on_disk = gin_files(&self.folders).into_iter();
        let on_disk = on_disk.filter(|(path, _)| files.buffer(path).is_none());
        let stamped = on_disk.map(|(path, metadata)| {
            (path, metadata.modified().ok().map(|time| (time, metadata.len())))
        });
        let open = files.buffers().map(|(path, _)| (path.clone(), None));
        for (path, stamp) in stamped.chain(open) {
            let scanned = match known.remove(&path) {
                Some(known) if stamp.is_some() && known.stamp == stamp => known,
                _ => Scanned { stamp, includes: includes(&path, files, &finder) },
            };
            self.files.insert(path, scanned);
        }
        let inner = self.files.iter().flat_map(|(path, scanned)| {
            scanned.includes.iter().filter(move |inner| *inner != path)
        });
        self.included = inner.cloned().collect();
    }

    /// Whether another file includes this one.
    pub fn is_included(&self, path: &Path) -> bool {
        self.included.contains(path)
    }

    /// Files that no other includes and that include any of these, however indirectly.
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
            let includes = self.files.get(path).into_iter().flat_map(|scanned| &scanned.includes);
            open.extend(includes.map(PathBuf::as_path).filter(|inner| seen.insert(inner)));
        }
        false
    }

    /// Every gin file.
    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        self.files.keys().map(PathBuf::as_path)
    }
}

/// What a file includes, as far as it can be found.
fn includes(path: &Path, files: &Files, finder: &Finder<'_>) -> Vec<PathBuf> {
    use crate::gin::Source;
    let name = files.name(path);
    let Ok(Some(text)) = files.read(&name) else { return Vec::new() };
    let (statements, _) = parse(FileId(0), &text);
    let found = statements.iter().filter_map(|statement| {
        let StatementKind::Include(include) = &statement.kind else { return None };
        let found = finder.find(&include.path, LIBRARY, Some(&name)).ok().flatten();
        found.map(|(name, _)| files.path(&name))
    });
    found.collect()
}

/// All gin files below some folders. Links to folders are not followed: they may lead back.
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
