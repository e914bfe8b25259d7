//! Files on this machine.

use std::ffi::{CString, OsString};
use std::fs::{self, DirBuilder, File};
use std::io::{self, BufWriter, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path as LocalPath, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use super::abandoned::{sweep_beside, temporary_beside};

/// Number of bytes that are written to a file at once.
pub(super) const BUFFER: usize = 1 << 18;

/// Opens a file, but not a folder: on Linux opening a folder would succeed, and only the first read
/// would fail.
pub(super) fn open(local: &LocalPath) -> io::Result<File> {
    let file = File::open(local)?;
    match file.metadata()?.is_dir() {
        true => Err(io::ErrorKind::IsADirectory.into()),
        false => Ok(file),
    }
}

/// Returns the names in a folder, and whether they are folders; links count as their targets.
pub(super) fn entries(local: &LocalPath) -> io::Result<Vec<(String, bool)>> {
    let named = raw_entries(local)?.into_iter();
    named.map(|(name, is_dir)| Ok((name.into_string().map_err(not_utf8)?, is_dir))).collect()
}

/// Like [`entries`], for names that may not be UTF-8.
pub(super) fn raw_entries(local: &LocalPath) -> io::Result<Vec<(OsString, bool)>> {
    let entry = |entry: io::Result<fs::DirEntry>| {
        let entry = entry?;
        let kind = entry.file_type()?;
        let is_dir = if kind.is_symlink() { entry.path().is_dir() } else { kind.is_dir() };
        Ok((entry.file_name(), is_dir))
    };
    fs::read_dir(local)?.map(entry).collect()
}

/// Whether a path exists; a path below a plain file does not exist.
pub(super) fn exists(local: &LocalPath) -> io::Result<bool> {
    match fs::metadata(local) {
        Ok(_) => Ok(true),
        Err(error) if is_absent(&error) => Ok(false),
        Err(error) => Err(error),
    }
}

pub(super) fn is_dir(local: &LocalPath) -> io::Result<bool> {
    match fs::metadata(local) {
        Ok(metadata) => Ok(metadata.is_dir()),
        Err(error) if is_absent(&error) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Creates a folder that only this user may enter; an existing folder must be safe from other
/// users.
pub(super) fn create_private_dir(local: &LocalPath) -> io::Result<()> {
    if let Some(parent) = local.parent() {
        fs::create_dir_all(parent)?;
    }
    match DirBuilder::new().mode(0o700).create(local) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        created => return created,
    }
    let found = fs::symlink_metadata(local)?;
    // SAFETY: the call takes nothing and cannot fail.
    let is_own = found.uid() == unsafe { libc::geteuid() };
    match found.is_dir() && is_own && found.mode() & 0o022 == 0 {
        true => Ok(()),
        false => Err(io::Error::other(
            "it is there and others may have put files into it, expected a folder of this user that \
             nobody else may write: remove it, or set $TMPDIR to another place",
        )),
    }
}

/// Replaces a file as a whole; temporary files of interrupted writes are removed.
pub(super) fn write_atomic(local: &LocalPath, bytes: &[u8]) -> io::Result<()> {
    let mut file = Replacement::create(local)?;
    file.write_all(bytes)?;
    file.finish()
}

/// A new file under a temporary name, which replaces another one when it is finished. When dropped
/// before, it leaves nothing.
pub(super) struct Replacement {
    file: BufWriter<File>,
    temporary: PathBuf,
    target: PathBuf,
}

impl Replacement {
    /// Creates the file beside its target.
    pub(super) fn create(target: &LocalPath) -> io::Result<Self> {
        sweep_beside(target);
        let temporary = temporary_beside(target);
        let file = BufWriter::with_capacity(BUFFER, File::create(&temporary)?);
        Ok(Self { file, temporary, target: target.to_path_buf() })
    }

    /// Writes all bytes, waits until they are on disk, and replaces the target.
    pub(super) fn finish(mut self) -> io::Result<()> {
        self.file.flush()?;
        self.file.get_ref().sync_all()?;
        fs::rename(&self.temporary, &self.target)?;
        sync_folder_of(&self.target)
    }
}

impl Write for Replacement {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Drop for Replacement {
    fn drop(&mut self) {
        // A finished file has another name by now.
        let _ = fs::remove_file(&self.temporary);
    }
}

/// Free bytes on the file system that holds or will hold the path.
pub(super) fn free_space(local: &LocalPath) -> io::Result<u64> {
    let existing = local.ancestors().find(|folder| folder.exists());
    let folder = existing.unwrap_or(LocalPath::new("."));
    let name = CString::new(folder.as_os_str().as_bytes())?;
    // SAFETY: `statvfs` is plain data for which zeros are valid, and the call only writes it.
    let mut stat: libc::statvfs = unsafe { std::mem::zeroed() };
    // SAFETY: `name` is a valid C string and `stat` outlives the call.
    match unsafe { libc::statvfs(name.as_ptr(), &raw mut stat) } {
        0 => Ok(stat.f_bavail.saturating_mul(stat.f_frsize)),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Starts writing a file's bytes to disk; errors are reported when the file is synced.
#[cfg_attr(not(target_os = "linux"), allow(unused_variables, reason = "only Linux can"))]
pub(super) fn begin_sync(file: &File) {
    #[cfg(target_os = "linux")]
    // SAFETY: the descriptor is open; the call takes plain numbers.
    let _ = unsafe {
        let file = std::os::fd::AsRawFd::as_raw_fd(file);
        libc::sync_file_range(file, 0, 0, libc::SYNC_FILE_RANGE_WRITE)
    };
}

/// Number of files that are synced at a time.
const SYNC_THREADS: usize = 16;

/// Syncs a folder and everything in it. Every file must be synced to detect its write errors, but
/// syncing one file after the other waits for the disk each time. Syncing the whole file system
/// first leaves them nothing to wait for.
pub(super) fn sync_tree(folder: &LocalPath) -> io::Result<()> {
    let opened = File::open(folder)?;
    // SAFETY: the descriptor is open. An error here shows up again at the single file.
    #[cfg(target_os = "linux")]
    let _ = unsafe { libc::syncfs(std::os::fd::AsRawFd::as_raw_fd(&opened)) };
    let mut places = Vec::new();
    collect(folder, &mut places)?;
    // The disk answers each request separately, and many at a time as fast as one.
    let next = AtomicUsize::new(0);
    let work = || -> io::Result<()> {
        while let Some(place) = places.get(next.fetch_add(1, Ordering::Relaxed)) {
            File::open(place)?.sync_all()?;
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..SYNC_THREADS).map(|_| scope.spawn(work)).collect();
        let synced = threads.into_iter().map(|thread| thread.join().expect("it does not panic"));
        synced.fold(Ok(()), Result::and)
    })
}

/// Collects the folder and everything below it.
fn collect(folder: &LocalPath, places: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        match entry.file_type()?.is_dir() {
            true => collect(&entry.path(), places)?,
            false => places.push(entry.path()),
        }
    }
    places.push(folder.to_path_buf());
    Ok(())
}

pub(super) fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

pub(super) fn not_utf8(name: OsString) -> io::Error {
    let reason = format!("the name `{}` is not UTF-8", name.to_string_lossy());
    io::Error::new(io::ErrorKind::InvalidData, reason)
}

/// Syncs the folder of a path: a rename is durable only when the folder with the name is durable.
pub(super) fn sync_folder_of(local: &LocalPath) -> io::Result<()> {
    let folder = local.parent().filter(|folder| !folder.as_os_str().is_empty());
    File::open(folder.unwrap_or(LocalPath::new(".")))?.sync_all()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_private_folder_is_of_one_user() {
        let dir = tempfile::tempdir().unwrap();
        let place = dir.path().join("above/private");
        create_private_dir(&place).unwrap();
        assert_eq!(fs::metadata(&place).unwrap().mode() & 0o777, 0o700);
        create_private_dir(&place).unwrap();
        let link = dir.path().join("link");
        std::os::unix::fs::symlink(&place, &link).unwrap();
        create_private_dir(&link).unwrap_err();
        fs::set_permissions(&place, fs::Permissions::from_mode(0o777)).unwrap();
        let error = create_private_dir(&place).unwrap_err();
        assert!(error.to_string().contains("nobody else may write"), "{error}");
    }
}
