//! The texts for an editor: its open, unsaved ones come before the disk and the library.
//!
//! A file has a path here, a name in diagnostics (relative to the workspace, or `<gimlet>/...` in the
//! library) and a URI in the protocol.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};
use std::{env, fs, io};

use lsp_types::Uri;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

use crate::gin::{LIBRARY, Source, TASK_LIBRARY};
use crate::run::library::Library;
use crate::run::output::write_error;
use crate::storage::user_cache;

/// The characters to escape in the path of a URI.
const ESCAPED: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'/').remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// The prefix of the library's names.
const EMBEDDED: &str = "<gimlet>";

/// A text that the editor has open.
#[derive(Debug)]
pub struct Buffer {
    /// The editor's name for it.
    pub uri: Uri,
    /// The text as edited.
    pub text: String,
    /// The number of edits.
    pub version: i32,
}

/// Every text that can be read.
#[derive(Debug)]
pub struct Files {
    /// The folder at which relative paths start.
    root: PathBuf,
    /// The folder of copies of library files, since editors only open files on disk.
    shown: PathBuf,
    buffers: BTreeMap<PathBuf, Buffer>,
}

impl Files {
    /// Creates the texts of a workspace.
    pub fn new(root: PathBuf) -> Self {
        let cache = user_cache().unwrap_or_else(|| env::temp_dir().join("gimlet"));
        let shown = cache.join(concat!("library-", env!("CARGO_PKG_VERSION")));
        Self { root: normal(&root), shown, buffers: BTreeMap::new() }
    }

    /// Texts that are open.
    pub fn buffers(&self) -> impl Iterator<Item = (&PathBuf, &Buffer)> {
        self.buffers.iter()
    }

    /// The open text of a path.
    pub fn buffer(&self, path: &Path) -> Option<&Buffer> {
        self.buffers.get(path)
    }

    /// Sets the text of a file that the editor has opened or edited.
    pub fn edit(&mut self, buffer: Buffer) {
        self.buffers.insert(self.path_of_uri(&buffer.uri), buffer);
    }

    /// Forgets an open text: the one on disk is used again.
    pub fn close(&mut self, uri: &Uri) {
        self.buffers.remove(&self.path_of_uri(uri));
    }

    /// Returns the path of a URI. A URI that is no file, such as `untitled:1`, gets a path of its
    /// own.
    pub fn path_of_uri(&self, uri: &Uri) -> PathBuf {
        let path = match uri.0.strip_prefix("file://") {
            // The host before the path is empty or this machine.
            Some(rest) => &rest[rest.find('/').unwrap_or(0)..],
            None => &uri.0,
        };
        normal(&self.root.join(&*percent_decode_str(path).decode_utf8_lossy()))
    }

    /// Returns the URI of a path, as the editor writes it if the file is open.
    pub fn uri(&self, path: &Path) -> Uri {
        if let Some(buffer) = self.buffers.get(path) {
            return buffer.uri.clone();
        }
        Uri(format!("file://{}", utf8_percent_encode(&path.display().to_string(), ESCAPED)))
    }

    /// Returns the file's name, under which [`Source::read`] finds it.
    pub fn name(&self, path: &Path) -> String {
        let embedded = path.strip_prefix(&self.shown).map(|inner| Path::new(EMBEDDED).join(inner));
        let name = match &embedded {
            Ok(name) => name,
            Err(_) => path.strip_prefix(&self.root).unwrap_or(path),
        };
        name.display().to_string()
    }

    /// The path of a file of that name.
    pub fn path(&self, name: &str) -> PathBuf {
        match name.strip_prefix(EMBEDDED) {
            Some(inner) => self.shown.join(inner.trim_start_matches('/')),
            None => normal(&self.root.join(name)),
        }
    }

    /// Whether the file comes with Gimlet and is not to be changed.
    pub fn is_library(&self, path: &Path) -> bool {
        path.starts_with(&self.shown)
    }

    /// Whether there is a file of that name.
    pub fn exists(&self, name: &str) -> bool {
        if name.starts_with(EMBEDDED) {
            return Library.read(name).is_ok_and(|text| text.is_some());
        }
        let path = self.path(name);
        self.buffers.contains_key(&path) || path.is_file()
    }

    /// Copies a library file to a place where an editor can open it, read-only. If that fails, the
    /// editor reports that there is no such file.
    pub fn show(&self, path: &Path) {
        let Ok(Some(text)) = Library.read(&self.name(path)) else { return };
        if !self.is_library(path) || fs::read_to_string(path).is_ok_and(|known| known == text) {
            return;
        }
        let folder = path.parent().expect("it lies below a folder");
        let written = fs::create_dir_all(folder).and_then(|()| {
            // Renamed into place: another server may be showing the same file.
            let partial = path.with_extension(format!("{}.partial", std::process::id()));
            fs::write(&partial, &text)?;
            let mut permissions = fs::metadata(&partial)?.permissions();
            permissions.set_readonly(true);
            fs::set_permissions(&partial, permissions)?;
            fs::rename(&partial, path)
        });
        if let Err(error) = written {
            write_error(&format!("cannot show {}: {error}\n", path.display()));
        }
    }
}

impl Source for Files {
    fn read(&self, name: &str) -> io::Result<Option<String>> {
        if name.starts_with(LIBRARY) || name.starts_with(TASK_LIBRARY) {
            return Library.read(name);
        }
        let path = self.path(name);
        match self.buffers.get(&path) {
            Some(buffer) => Ok(Some(buffer.text.clone())),
            None => Library.read(&path.display().to_string()),
        }
    }

    fn similar(&self, name: &str) -> Vec<String> {
        if name.starts_with(EMBEDDED) {
            return Library.similar(name);
        }
        let paths = Library.similar(&self.path(name).display().to_string());
        paths.into_iter().map(|path| self.name(Path::new(&path))).collect()
    }
}

/// Removes `.` and `..` from the path by its text alone, without following links.
fn normal(path: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => {
                out.pop();
            }
            Component::CurDir => {}
            other => out.push(other),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_paths_and_uris_lead_to_each_other() {
        let files = Files::new(PathBuf::from("/w"));
        for (name, uri) in [
            ("runs/a b.gin", "file:///w/runs/a%20b.gin"),
            ("é.gin", "file:///w/%C3%A9.gin"),
            ("/elsewhere/a.gin", "file:///elsewhere/a.gin"),
        ] {
            let path = files.path_of_uri(&Uri(uri.to_string()));
            assert_eq!((files.name(&path).as_str(), files.path(name)), (name, path.clone()));
            assert_eq!(files.uri(&path).0, uri);
        }
        let library = files.path("<gimlet>/gin/a.gin");
        assert!(files.is_library(&library));
        assert_eq!(files.name(&library), "<gimlet>/gin/a.gin");
    }

    #[test]
    fn what_is_open_hides_the_disk() {
        let mut files = Files::new(PathBuf::from("/no/such/folder"));
        let uri = Uri("file:///no/such/folder/a.gin".to_string());
        assert!(matches!(files.read("x/../a.gin"), Ok(None)));
        files.edit(Buffer { uri: uri.clone(), text: "A = 1".to_string(), version: 1 });
        assert_eq!(files.read("x/../a.gin").expect("open").as_deref(), Some("A = 1"));
        files.close(&uri);
        assert!(matches!(files.read("a.gin"), Ok(None)));
    }
}
