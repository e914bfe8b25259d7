//! What can be done with the files behind paths.

use std::ffi::CString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use super::error::StorageError;
use super::path::Path;
use super::writer::FileWriter;

impl Path {
    /// Opens the file for reading, unbuffered.
    pub fn open(&self) -> Result<Box<dyn Read + Send>, StorageError> {
        self.at("open", |local| {
            let file = File::open(local)?;
            // Opening a folder succeeds on Linux; only the first read would tell.
            match file.metadata()?.is_dir() {
                true => Err(io::ErrorKind::IsADirectory.into()),
                false => Ok(Box::new(file) as Box<dyn Read + Send>),
            }
        })
    }

    /// Opens the file for reading from a byte on, unbuffered; behind its end there is nothing to read.
    pub fn open_at(&self, offset: u64) -> Result<Box<dyn Read + Send>, StorageError> {
        self.at("open", |local| {
            let mut file = File::open(local)?;
            file.seek(SeekFrom::Start(offset))?;
            match file.metadata()?.is_dir() {
                true => Err(io::ErrorKind::IsADirectory.into()),
                false => Ok(Box::new(file) as Box<dyn Read + Send>),
            }
        })
    }

    /// Some bytes of the file, all of which must be there.
    pub fn read_range(&self, range: Range<u64>) -> Result<Vec<u8>, StorageError> {
        self.at("read", |local| {
            let mut bytes = Vec::new();
            let length = range.end.saturating_sub(range.start);
            let mut file = File::open(local)?;
            file.seek(SeekFrom::Start(range.start))?;
            let found = file.take(length).read_to_end(&mut bytes)?;
            if (found as u64) < length {
                let reason = format!(
                    "it ends at byte {}, expected bytes up to {}",
                    range.start + found as u64,
                    range.end
                );
                return Err(io::Error::new(io::ErrorKind::UnexpectedEof, reason));
            }
            Ok(bytes)
        })
    }

    /// The whole file.
    pub fn read(&self) -> Result<Vec<u8>, StorageError> {
        self.at("read", fs::read)
    }

    /// The whole file, which must be UTF-8.
    pub fn read_to_string(&self) -> Result<String, StorageError> {
        let bytes = self.read()?;
        String::from_utf8(bytes).map_err(|error| {
            let at = error.utf8_error().valid_up_to();
            let reason = format!("it is not UTF-8 text (byte {at})");
            StorageError::new("read", self, io::Error::new(io::ErrorKind::InvalidData, reason))
        })
    }

    /// The direct entries of the folder, sorted by name.
    pub fn list(&self) -> Result<Vec<Self>, StorageError> {
        let mut names = self.at("list", |local| {
            fs::read_dir(local)?
                .map(|entry| entry?.file_name().into_string().map_err(not_utf8))
                .collect::<io::Result<Vec<String>>>()
        })?;
        names.sort_unstable();
        Ok(names.iter().map(|name| self.join(name)).collect())
    }

    /// The paths that match a pattern of `*`, `?`, `[...]` and `**`, sorted; none is no error.
    pub fn glob(pattern: &str) -> Result<Vec<Self>, StorageError> {
        let fixed = fixed_folder(pattern);
        let variable = &pattern[fixed.len()..];
        let folder = if fixed.is_empty() { None } else { Some(Self::parse(fixed)?) };
        let local = match &folder {
            Some(folder) => format!("{}/", folder.local_text()?.trim_end_matches('/')),
            None => String::new(),
        };
        let matches = glob_local(&local, variable, pattern)?;
        let named = matches.iter().map(|found| match &folder {
            Some(folder) => Ok(folder.join(&found[local.len()..])),
            None => Self::parse(found),
        });
        let mut named = named.collect::<Result<Vec<_>, _>>()?;
        named.sort_unstable();
        Ok(named)
    }

    /// Whether a file or folder is there.
    pub fn exists(&self) -> Result<bool, StorageError> {
        self.at("look for", |local| local.try_exists())
    }

    /// Whether it is a folder.
    pub fn is_dir(&self) -> Result<bool, StorageError> {
        self.at("look for", |local| match fs::metadata(local) {
            Ok(metadata) => Ok(metadata.is_dir()),
            Err(error) if is_absent(&error) => Ok(false),
            Err(error) => Err(error),
        })
    }

    /// The size of the file in bytes.
    pub fn size(&self) -> Result<u64, StorageError> {
        self.at("look at", |local| Ok(fs::metadata(local)?.len()))
    }

    /// When the file or folder was last changed.
    pub fn modified(&self) -> Result<SystemTime, StorageError> {
        self.at("look at", |local| fs::metadata(local)?.modified())
    }

    /// Makes the folder and those above it; it may exist.
    pub fn create_dir_all(&self) -> Result<(), StorageError> {
        self.at("create folder", fs::create_dir_all)
    }

    /// Replaces the file as a whole: readers see the old bytes or the new, also after a crash.
    pub fn write_atomic(&self, bytes: &[u8]) -> Result<(), StorageError> {
        self.at("write", |local| {
            let temporary = temporary_beside(&local);
            let written = write_synced(&temporary, bytes)
                .and_then(|()| fs::rename(&temporary, &local))
                .and_then(|()| sync_folder_of(&local));
            if written.is_err() {
                // The error that matters is the one above.
                let _ = fs::remove_file(&temporary);
            }
            written
        })
    }

    /// Creates or truncates the file; durable after [`FileWriter::finish`].
    pub fn create(&self) -> Result<FileWriter, StorageError> {
        let file = self.at("create", File::create)?;
        Ok(FileWriter::new(self.clone(), file))
    }

    /// Opens the file for writing at its end, creating it where it is missing.
    pub fn append(&self) -> Result<FileWriter, StorageError> {
        let open = |local| OpenOptions::new().append(true).create(true).open(local);
        Ok(FileWriter::new(self.clone(), self.at("append to", open)?))
    }

    /// Makes the file so many bytes long, creating it where it is missing; new bytes are 0.
    pub fn set_size(&self, size: u64) -> Result<(), StorageError> {
        self.at("write", |local| {
            OpenOptions::new().write(true).create(true).truncate(false).open(local)?.set_len(size)
        })
    }

    /// Renames it, durably. A file replaces a file at `to`; a folder needs a free or empty place.
    pub fn rename(&self, to: &Self) -> Result<(), StorageError> {
        let target = to.local()?;
        self.at("rename", |local| {
            fs::rename(&local, &target)?;
            sync_folder_of(&target)
        })
    }

    /// Removes the folder and everything in it.
    pub fn remove_dir_all(&self) -> Result<(), StorageError> {
        self.at("remove", fs::remove_dir_all)
    }

    /// Removes the file.
    pub fn remove_file(&self) -> Result<(), StorageError> {
        self.at("remove", fs::remove_file)
    }

    /// Makes the entries of this folder durable: files created, renamed and removed in it.
    pub fn sync_dir(&self) -> Result<(), StorageError> {
        self.at("write", |local| File::open(local)?.sync_all())
    }

    /// Makes the folder and everything below it durable.
    pub fn sync_tree(&self) -> Result<(), StorageError> {
        self.at("write", |local| sync_tree(&local))
    }

    /// Makes a folder that must not exist yet; those above it must.
    pub fn create_dir_new(&self) -> Result<(), StorageError> {
        self.at("create folder", fs::create_dir)
    }

    /// Bytes that may still be written to the file system that holds this path, or will hold it.
    pub fn free_space(&self) -> Result<u64, StorageError> {
        self.at("look at the disk of", |local| {
            let existing = local.ancestors().find(|folder| folder.exists());
            let folder = existing.unwrap_or(std::path::Path::new("."));
            let name = CString::new(folder.as_os_str().as_bytes())?;
            // SAFETY: `statvfs` is plain data for which zeros are valid, and the call only writes it.
            let mut stat: libc::statvfs = unsafe { std::mem::zeroed() };
            // SAFETY: `name` is a valid C string and `stat` outlives the call.
            match unsafe { libc::statvfs(name.as_ptr(), &raw mut stat) } {
                0 => Ok(stat.f_bavail.saturating_mul(stat.f_frsize)),
                _ => Err(io::Error::last_os_error()),
            }
        })
    }

    fn at<T>(
        &self,
        operation: &'static str,
        act: impl FnOnce(PathBuf) -> io::Result<T>,
    ) -> Result<T, StorageError> {
        act(self.local()?).map_err(|error| StorageError::new(operation, self, error))
    }

    fn local_text(&self) -> Result<String, StorageError> {
        let local = self.local()?;
        local
            .into_os_string()
            .into_string()
            .map_err(|name| StorageError::new("list", self, not_utf8(name)))
    }
}

/// Every file must be synced to learn of its write errors, but one after the other each waits for
/// the disk. Starting with the whole file system leaves them nothing to wait for.
fn sync_tree(folder: &std::path::Path) -> io::Result<()> {
    let opened = File::open(folder)?;
    // SAFETY: the descriptor is open. An error here shows up again at the single file.
    #[cfg(target_os = "linux")]
    let _ = unsafe { libc::syncfs(std::os::fd::AsRawFd::as_raw_fd(&opened)) };
    sync_entries(folder)
}

fn sync_entries(folder: &std::path::Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        match entry.file_type()?.is_dir() {
            true => sync_entries(&entry.path())?,
            false => File::open(entry.path())?.sync_all()?,
        }
    }
    File::open(folder)?.sync_all()
}

/// The part of a pattern up to the last slash before its first special character.
fn fixed_folder(pattern: &str) -> &str {
    let special = pattern.find(['*', '?', '[']).unwrap_or(pattern.len());
    let end = pattern[..special].rfind('/').map_or(0, |slash| slash + 1);
    &pattern[..end]
}

/// Matches below `folder`, whose own name may hold special characters.
fn glob_local(folder: &str, variable: &str, given: &str) -> Result<Vec<String>, StorageError> {
    let options = glob::MatchOptions { require_literal_separator: true, ..Default::default() };
    let full = format!("{}{variable}", glob::Pattern::escape(folder));
    let found = glob::glob_with(&full, options).map_err(|error| StorageError::Invalid {
        path: given.to_string(),
        reason: format!("{} at byte {} of the pattern", error.msg, error.pos),
    })?;
    let named = found.map(|entry| {
        let path = entry.map_err(io::Error::from)?;
        path.into_os_string().into_string().map_err(not_utf8)
    });
    let found = named.collect::<io::Result<Vec<String>>>();
    found.map_err(|error| match Path::parse(given) {
        Ok(path) => StorageError::new("list", &path, error),
        Err(invalid) => invalid,
    })
}

fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

fn not_utf8(name: std::ffi::OsString) -> io::Error {
    let reason = format!("the name `{}` is not UTF-8", name.to_string_lossy());
    io::Error::new(io::ErrorKind::InvalidData, reason)
}

/// A name beside the file that no other thread or process uses.
fn temporary_beside(local: &std::path::Path) -> PathBuf {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let name = local.file_name().unwrap_or_default().to_string_lossy();
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    local.with_file_name(format!(".{name}.tmp-{}-{count}", std::process::id()))
}

fn write_synced(local: &std::path::Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = File::create(local)?;
    file.write_all(bytes)?;
    file.sync_all()
}

/// A rename is durable only once the folder that holds the name is.
fn sync_folder_of(local: &std::path::Path) -> io::Result<()> {
    let folder = local.parent().filter(|folder| !folder.as_os_str().is_empty());
    File::open(folder.unwrap_or(std::path::Path::new(".")))?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::set_path_map;

    fn folder() -> (tempfile::TempDir, Path) {
        let dir = tempfile::tempdir().unwrap();
        let path = Path::try_from(dir.path()).unwrap();
        (dir, path)
    }

    #[test]
    fn an_atomic_write_replaces_and_leaves_nothing_beside() {
        let (_dir, path) = folder();
        let file = path.join("a");
        file.write_atomic(b"one").unwrap();
        file.write_atomic(b"two").unwrap();
        assert_eq!(file.read().unwrap(), b"two");
        assert_eq!(path.list().unwrap(), [file]);
    }

    #[test]
    fn a_failed_atomic_write_leaves_the_target_as_it_was() {
        let (_dir, path) = folder();
        path.join("folder/full").create_dir_all().unwrap();
        assert!(path.join("folder").write_atomic(b"x").is_err());
        assert_eq!(path.list().unwrap(), [path.join("folder")]);
    }

    #[test]
    fn a_missing_file_is_named() {
        let (_dir, path) = folder();
        let error = path.join("none").read().unwrap_err();
        assert!(error.is_not_found());
        assert!(error.to_string().starts_with(&format!("cannot read `{path}/none`: not found")));
        assert!(!path.join("none").exists().unwrap());
        assert!(!path.join("none").is_dir().unwrap());
        assert!(path.open().is_err());
    }

    #[test]
    fn created_and_appended_bytes_are_there_after_finish() {
        let (_dir, path) = folder();
        let file = path.join("log");
        for (mut writer, text) in [(file.create(), "a"), (file.append(), "b"), (file.append(), "c")]
            .map(|(writer, text)| (writer.unwrap(), text))
        {
            writer.write_all(text.as_bytes()).unwrap();
            writer.finish().unwrap();
        }
        assert_eq!(file.read_to_string().unwrap(), "abc");
        assert_eq!(file.size().unwrap(), 3);
        assert!(file.free_space().unwrap() > 0);
        assert!(path.join("not/yet").free_space().unwrap() > 0);
    }

    #[test]
    fn globs_are_sorted_and_keep_the_users_name() {
        let (_dir, path) = folder();
        let odd = path.join("a[1]");
        odd.create_dir_all().unwrap();
        for name in ["x-2.txt", "x-10.txt", "y.txt", "x-1.json"] {
            odd.join(name).write_atomic(b"").unwrap();
        }
        set_path_map(vec![("gs://globbed".to_string(), odd.to_string())]).unwrap();
        let found = Path::glob("gs://globbed/x-*.txt").unwrap();
        let names: Vec<_> = found.iter().map(Path::as_str).collect();
        assert_eq!(names, ["gs://globbed/x-10.txt", "gs://globbed/x-2.txt"]);
        assert_eq!(Path::glob("gs://globbed/y.txt").unwrap().len(), 1);
        assert!(Path::glob("gs://globbed/none*").unwrap().is_empty());
        assert!(Path::glob("gs://not-mapped/none*").is_err());
        assert_eq!(found[0].read().unwrap(), b"");
    }
}
