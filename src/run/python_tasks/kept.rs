//! Keeps the tasks of imported modules in a folder of the user's: `HASH/MODULE.gin`, where the hash is of all that
//! the import depends on. The file's head lists the files of Python that were read, each with its hash.

use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::path::{Path, PathBuf};

use crate::gin::{PythonModule, Registry};
use crate::python::Interpreter;
use crate::storage::user_cache;

use super::registered_tasks::{SCRIPT, known};

/// How the comment begins that names a file of Python and its hash.
const READ: &str = "read ";

/// The place where the tasks of a module are kept.
pub(super) struct KeptTasks {
    /// The folder that gin searches for the module.
    pub folder: PathBuf,
    /// The task file in it.
    pub file: PathBuf,
}

impl KeptTasks {
    /// Returns the place for a module that an interpreter imports.
    ///
    /// # Errors
    /// There is no home folder.
    pub(super) fn of(
        module: &PythonModule,
        python: &Interpreter,
        registry: &Registry,
    ) -> io::Result<Self> {
        let Some(cache) = user_cache() else {
            let reason = "there is no home folder; set XDG_CACHE_HOME";
            return Err(io::Error::new(io::ErrorKind::NotFound, reason));
        };
        let mut hasher = DefaultHasher::new();
        let here = std::env::current_dir().unwrap_or_default();
        let read_by = (env!("CARGO_PKG_VERSION"), SCRIPT, known(registry).to_string());
        (&module.module, here.join(&module.file), program(python), read_by).hash(&mut hasher);
        let folder = cache.join("tasks").join(format!("{:016x}", hasher.finish()));
        let file = folder.join(format!("{}.gin", module.module.replace('.', "/")));
        Ok(Self { folder, file })
    }

    /// Waits until no other process imports the module, which then may be here.
    pub(super) fn lock(&self) -> io::Result<File> {
        fs::create_dir_all(self.file.parent().expect("it is in a folder"))?;
        let lock = File::open(&self.folder)?;
        // File systems without locks import the module in each process.
        let _ = lock.lock();
        Ok(lock)
    }

    /// Whether the tasks are here, and the Python that they were made of has not changed.
    pub(super) fn is_current(&self) -> bool {
        let Ok(text) = fs::read_to_string(&self.file) else { return false };
        let comments = text.lines().map_while(|line| line.strip_prefix("# "));
        let mut read = comments.filter_map(|comment| comment.strip_prefix(READ)).peekable();
        let is_unchanged =
            |line: &str| line.split_once(' ').is_some_and(|(_, file)| line == described(file));
        read.peek().is_some() && read.all(is_unchanged)
    }

    /// Returns the comments that name the files of Python.
    pub(super) fn read_lines(files: &[String]) -> Vec<String> {
        files.iter().map(|file| format!("{READ}{}", described(file))).collect()
    }

    /// Writes the task file; a reader sees it complete or not at all.
    pub(super) fn save(&self, text: &str) -> io::Result<()> {
        let part = self.file.with_extension(format!("{}.part", std::process::id()));
        fs::write(&part, text)?;
        fs::rename(&part, &self.file)
    }
}

/// Returns the hash of a file's content, and its name.
fn described(file: &str) -> String {
    let mut hasher = DefaultHasher::new();
    fs::read(file).unwrap_or_default().hash(&mut hasher);
    format!("{:016x} {file}", hasher.finish())
}

/// Returns the file of the interpreter: `python3` is another one in another environment.
fn program(python: &Interpreter) -> PathBuf {
    let program = Path::new(python.program());
    if program.components().count() > 1 {
        return program.to_path_buf();
    }
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let mut found = std::env::split_paths(&folders).map(|folder| folder.join(program));
    found.find(|file| file.is_file()).unwrap_or_else(|| program.to_path_buf())
}
