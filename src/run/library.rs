//! The places of gin text: on disk, in buckets and other storage, or in the library that the binary
//! contains.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Read};
use std::path::Path;

use gimlet_library::{Dir, GIN, RUNS, TASKS};

use crate::checkpoint::{HuggingFaceConfig, PeftConfig};
use crate::gin::{LIBRARY, Source, TASK_LIBRARY, plain};
use crate::models::gin_of;
use crate::storage;
use crate::telemetry;

/// The longest gin text that is read, in bytes: a path given by mistake must not fill the memory.
const MAX_TEXT: u64 = 64 << 20;

/// The folder of runs, in a checkout and in the programs.
const RUNS_FOLDER: &str = "runs/";

/// The disk, storage with a scheme (`gs://...`), and below `<gimlet>/` the library configs and tasks of Gimlet. A file of
/// `runs/` that the disk does not have is that of the program.
#[derive(Clone, Copy, Debug, Default)]
pub struct Library;

impl Library {
    /// Every file of the library: its name within a [`Source`] and its text.
    pub fn files() -> Vec<(String, &'static str)> {
        let mut out = Vec::new();
        for (root, dir) in [(LIBRARY, &GIN), (TASK_LIBRARY, &TASKS)] {
            collect(root, dir, &mut out);
        }
        out
    }

    /// Finds the program's own file of `runs/`.
    fn run(path: &str) -> Option<String> {
        let path = plain(path);
        let file = RUNS.get_file(path.strip_prefix(RUNS_FOLDER)?)?;
        telemetry::detail(&format!("reading {path} of the program"));
        file.contents_utf8().map(str::to_string)
    }
}

impl Source for Library {
    fn read(&self, path: &str) -> io::Result<Option<String>> {
        for (root, dir) in [(LIBRARY, &GIN), (TASK_LIBRARY, &TASKS)] {
            if let Some(inner) = path.strip_prefix(root) {
                let file = dir.get_file(inner.trim_start_matches('/'));
                if file.is_some() {
                    telemetry::detail(&format!("reading {path}"));
                }
                return Ok(file.and_then(|file| file.contents_utf8()).map(str::to_string));
            }
        }
        match read_anywhere(path) {
            Ok(text) => {
                telemetry::detail(&format!("reading {path}"));
                match Path::new(path).file_name().is_some_and(|name| {
                    [HuggingFaceConfig::FILE, PeftConfig::FILE].iter().any(|it| name == *it)
                }) {
                    true => hugging_face(path, &text).map(Some),
                    false => Ok(Some(text)),
                }
            }
            Err(error)
                if [ErrorKind::NotFound, ErrorKind::NotADirectory].contains(&error.kind()) =>
            {
                Ok(Self::run(path))
            }
            Err(error) => Err(error),
        }
    }

    fn similar(&self, path: &str) -> Vec<String> {
        let name = Path::new(path).file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if path.starts_with('<') {
            let files = Library::files();
            let names: Vec<&str> = files.iter().map(|(file, _)| file.as_str()).collect();
            return crate::gin::nearest(path, &names).map(str::to_string).into_iter().collect();
        }
        let folder = Path::new(path).parent().filter(|p| !p.as_os_str().is_empty());
        let folder = folder.unwrap_or(Path::new("."));
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        let mut names: Vec<String> =
            entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
        let own = plain(&folder.display().to_string());
        let own = own.strip_prefix(RUNS_FOLDER).and_then(|folder| RUNS.get_dir(folder));
        let own = own.into_iter().flat_map(|dir| dir.files());
        names.extend(own.filter_map(|file| Some(file.path().file_name()?.to_str()?.to_string())));
        let known: Vec<&str> =
            names.iter().map(String::as_str).filter(|n| n.ends_with(".gin")).collect();
        let near = crate::gin::nearest(name, &known);
        near.map(|near| folder.join(near).display().to_string()).into_iter().collect()
    }
}

/// Reads the configuration of a model of transformers as gin.
fn hugging_face(path: &str, text: &str) -> io::Result<String> {
    let path = storage::Path::parse(path)?;
    gin_of(&path, text).map_err(|reason| io::Error::new(ErrorKind::InvalidData, reason))
}

/// Reads the text of a file on disk or elsewhere.
pub(super) fn read_anywhere(path: &str) -> io::Result<String> {
    match path.contains("://") {
        true => read_text(storage::Path::parse(path)?.open()?),
        false => read_file(path.as_ref()),
    }
}

/// Reads the text of a file on disk. Devices and pipes, which may never end, are refused before
/// opening.
fn read_file(path: &Path) -> io::Result<String> {
    let kind = fs::metadata(path)?.file_type();
    if kind.is_dir() {
        return Err(io::Error::new(ErrorKind::IsADirectory, "it is a folder"));
    }
    if !kind.is_file() {
        let message = "it is a device or a pipe, not a file";
        return Err(io::Error::new(ErrorKind::InvalidInput, message));
    }
    read_text(File::open(path)?)
}

/// Reads all bytes as text.
pub(super) fn read_text(reader: impl Read) -> io::Result<String> {
    let mut bytes = Vec::new();
    if reader.take(MAX_TEXT + 1).read_to_end(&mut bytes)? as u64 > MAX_TEXT {
        let message = format!("it is longer than {} MiB", MAX_TEXT >> 20);
        return Err(io::Error::new(ErrorKind::FileTooLarge, message));
    }
    String::from_utf8(bytes).map_err(|error| {
        let before = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
        let message = format!("it is not text in UTF-8 (line {line})");
        io::Error::new(ErrorKind::InvalidData, message)
    })
}

fn collect(root: &str, dir: &'static Dir<'static>, out: &mut Vec<(String, &'static str)>) {
    for file in dir.files() {
        let text = file.contents_utf8().expect("library files are text");
        out.push((format!("{root}/{}", file.path().display()), text));
    }
    for inner in dir.dirs() {
        collect(root, inner, out);
    }
}
