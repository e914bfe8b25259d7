//! Keeps copies of remote files in a folder of this machine, which `GIMLET_CACHE_DIR` names. A copy
//! belongs to one state of its file: when the file changes, it is fetched again. The least recently
//! used copies are removed to make room.

use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path as LocalPath, PathBuf};
use std::time::{Duration, SystemTime};

use super::credentials::variable;
use super::disk;
use super::error::StorageError;
use super::lock::open_and_lock;
use super::path::Path;
use super::remote::{Remote, Running, Version};
use super::slow::Transfer;

/// The environment variable that names the folder.
pub const CACHE_VARIABLE: &str = "GIMLET_CACHE_DIR";

/// The environment variable that limits the folder's size, in GB.
pub const CACHE_SIZE_VARIABLE: &str = "GIMLET_CACHE_GB";

/// The default limit, in GB.
const DEFAULT_SIZE: f64 = 100.0;

/// Extension of incomplete copies.
const PART: &str = "part";

/// A partial copy that nobody has continued for this time is removed.
const PART_LIFETIME: Duration = Duration::from_secs(7 * 24 * 3600);

/// Maximum number of attempts to open a partial copy whose name other processes take away.
const TRIES: usize = 3;

/// The folder of copies, and the limit of its size.
struct Copies {
    folder: PathBuf,
    most: u64,
}

/// Returns the copy of a remote file, fetched if necessary; `None` if no copy is kept.
///
/// # Errors
/// The file cannot be read, or the folder cannot be used.
pub(super) fn copy(remote: &Remote) -> Result<Option<File>, StorageError> {
    let Some(copies) = Copies::configured()? else { return Ok(None) };
    let version = remote.version()?;
    let Some(size) = version.size.filter(|size| *size <= copies.most / 2) else { return Ok(None) };
    if version.e_tag.is_none() && version.modified.is_none() {
        return Ok(None);
    }
    copies.find_or_fetch(remote, &version, size)
}

impl Copies {
    fn configured() -> Result<Option<Self>, StorageError> {
        let Some(folder) = variable(CACHE_VARIABLE) else { return Ok(None) };
        let size = variable(CACHE_SIZE_VARIABLE).map(|text| match text.parse::<f64>() {
            Ok(size) if size > 0.0 => Ok(size),
            _ => Err(StorageError::Invalid {
                path: format!("${CACHE_SIZE_VARIABLE}"),
                reason: format!("`{text}` is not a size in GB"),
            }),
        });
        let most = (size.transpose()?.unwrap_or(DEFAULT_SIZE) * 1e9) as u64;
        Ok(Some(Self { folder: PathBuf::from(folder), most }))
    }

    fn find_or_fetch(
        &self,
        remote: &Remote,
        version: &Version,
        size: u64,
    ) -> Result<Option<File>, StorageError> {
        let place = self.folder.join(name(remote.path(), version));
        if let Some(found) = whole(&place, size) {
            return Ok(Some(found));
        }
        let failed = |error: io::Error| self.failed(error);
        let part_place = place.with_extension(PART);
        let mut part = match lock_part(&part_place, || self.open_part(&part_place)) {
            // A folder that this process may only read still provides existing copies.
            Err(error) if is_forbidden(&error) => return Ok(None),
            // Another process is fetching the file: this process reads the file without a copy.
            Ok(None) => return Ok(None),
            locked => locked.map_err(failed)?.expect("what is busy was told above"),
        };
        if let Some(found) = whole(&place, size) {
            // Another process has finished in the meantime; a partial copy opened after that is not
            // needed.
            let _ = fs::remove_file(&part_place);
            return Ok(Some(found));
        }
        if part.metadata().map_err(failed)?.len() > size {
            part.set_len(0).map_err(failed)?;
        }
        self.make_room(size, &part_place);
        let filled = self.fill(&mut part, remote, version, size);
        if matches!(filled, Err(StorageError::Damaged { .. })) {
            // Continuing a damaged copy would not help.
            part.set_len(0).map_err(failed)?;
        }
        if !filled? {
            return Ok(None);
        }
        // The bytes are durable before the rename, so that a crash of the machine leaves no partial
        // file of this name.
        fs::rename(&part_place, &place).map_err(failed)?;
        disk::sync_folder_of(&place).map_err(failed)?;
        Ok(whole(&place, size))
    }

    fn open_part(&self, place: &LocalPath) -> io::Result<File> {
        fs::create_dir_all(&self.folder)?;
        File::options().create(true).append(true).read(true).open(place)
    }

    /// Fetches the missing bytes of a partial copy; false if the disk is full.
    fn fill(
        &self,
        part: &mut File,
        remote: &Remote,
        version: &Version,
        size: u64,
    ) -> Result<bool, StorageError> {
        let failed = |error: io::Error| self.failed(error);
        let mut reached = part.metadata().map_err(failed)?.len();
        let goes_on = reached > 0;
        let mut transfer = Transfer::new(format!("fetching {}", remote.path()), Some(size));
        if reached < size {
            let mut source = remote.open_state(reached, version)?;
            let mut buffer = vec![0; 1 << 20];
            while reached < size {
                let length = source.read(&mut buffer);
                let length =
                    length.map_err(|error| StorageError::new("read", remote.path(), error))?;
                if length == 0 {
                    let cut = io::Error::from(io::ErrorKind::UnexpectedEof);
                    return Err(StorageError::new("read", remote.path(), cut));
                }
                match part.write_all(&buffer[..length]) {
                    Err(error) if is_full(&error) => {
                        part.set_len(0).map_err(failed)?;
                        return Ok(false);
                    }
                    written => written.map_err(failed)?,
                }
                reached += length as u64;
                transfer.reached(reached);
            }
        }
        part.sync_all().map_err(failed)?;
        // A copy that is fetched in one request is verified during the transfer.
        if goes_on {
            self.check(part, remote, version)?;
        }
        Ok(true)
    }

    /// Compares a complete partial copy with the store's checksum of the file.
    fn check(
        &self,
        part: &mut File,
        remote: &Remote,
        version: &Version,
    ) -> Result<(), StorageError> {
        let failed = |error: io::Error| self.failed(error);
        let Some(mut sum) = version.crc32c.map(Running::new) else { return Ok(()) };
        part.seek(SeekFrom::Start(0)).map_err(failed)?;
        let mut buffer = vec![0; 1 << 20];
        loop {
            match part.read(&mut buffer).map_err(failed)? {
                0 => break,
                length => sum.add(&buffer[..length]),
            }
        }
        sum.check().map_err(|failure| StorageError::of_failure("read", remote.path(), failure))
    }

    /// Removes the least recently used copies until `coming` bytes, which will be written to
    /// `part`, fit beside the rest. A process that is reading a copy can finish reading.
    fn make_room(&self, coming: u64, part: &LocalPath) {
        let Ok(entries) = fs::read_dir(&self.folder) else { return };
        let mut copies: Vec<(SystemTime, u64, PathBuf)> = entries
            .filter_map(|entry| {
                let place = entry.ok()?.path();
                let metadata = fs::symlink_metadata(&place).ok()?;
                let counts = metadata.is_file() && is_own(&place) && place != part;
                counts.then_some((metadata.modified().ok()?, metadata.len(), place))
            })
            .collect();
        copies.sort();
        let mut held: u64 = copies.iter().map(|(_, size, _)| size).sum();
        for (used, size, place) in copies {
            let is_part = place.extension().is_some_and(|extension| extension == PART);
            let is_given_up = is_part && used.elapsed().unwrap_or_default() > PART_LIFETIME;
            let is_too_much = held + coming > self.most && !is_part;
            // Another process may have removed the file first.
            if (is_given_up || is_too_much) && fs::remove_file(&place).is_ok() {
                held -= size;
            }
        }
    }

    fn failed(&self, error: io::Error) -> StorageError {
        let folder = self.folder.display().to_string();
        match Path::parse(&folder) {
            Ok(folder) => StorageError::new("keep copies in", &folder, error),
            Err(invalid) => invalid,
        }
    }
}

/// Opens and locks a partial copy; `None` if another process is using it.
fn lock_part(place: &LocalPath, open: impl Fn() -> io::Result<File>) -> io::Result<Option<File>> {
    let opened = open_and_lock(place, TRIES, open)?;
    Ok(opened.and_then(|(part, locked)| locked.is_ok().then_some(part)))
}

/// Returns a name that is different for each file and each state of a file.
fn name(path: &Path, version: &Version) -> String {
    let half = |salt: u8| {
        let mut hasher = DefaultHasher::new();
        (salt, path, version.size, &version.e_tag).hash(&mut hasher);
        if version.e_tag.is_none() {
            version.modified.hash(&mut hasher);
        }
        hasher.finish()
    };
    format!("{:016x}{:016x}", half(0), half(1))
}

/// Whether a file is a copy or a partial copy: the user may have other files in the folder.
fn is_own(place: &LocalPath) -> bool {
    let stem = place.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
    stem.len() == 32
        && stem.bytes().all(|byte| byte.is_ascii_hexdigit())
        && place.extension().is_none_or(|extension| extension == PART)
}

/// Opens an existing copy, and marks it as used now.
fn whole(place: &LocalPath, size: u64) -> Option<File> {
    let file = File::options().read(true).write(true).open(place).or_else(|_| File::open(place));
    let mut file = file.ok()?;
    if file.metadata().ok()?.len() != size {
        return None;
    }
    // A read-only folder works too; then all copies seem to be used at the same time.
    let _ = file.set_modified(SystemTime::now());
    file.seek(SeekFrom::Start(0)).ok()?;
    Some(file)
}

fn is_forbidden(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem)
}

fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn a_part_that_another_has_finished_meanwhile_is_opened_anew() {
        let folder = tempfile::tempdir().unwrap();
        let (part, whole) = (folder.path().join("a.part"), folder.path().join("a"));
        let copies = Copies { folder: folder.path().to_path_buf(), most: 0 };
        let opened = Cell::new(0);
        let open = |taken_away: usize| {
            opened.set(0);
            lock_part(&part, || {
                let file = copies.open_part(&part)?;
                opened.set(opened.get() + 1);
                if opened.get() <= taken_away {
                    // Renames and removes the file, like a process that has finished it and one
                    // that makes room.
                    fs::rename(&part, &whole)?;
                    fs::remove_file(&whole)?;
                }
                Ok(file)
            })
        };
        let mut locked = open(1).unwrap().unwrap();
        locked.write_all(b"bytes").unwrap();
        assert_eq!((fs::read(&part).unwrap(), opened.get()), (b"bytes".to_vec(), 2));
        assert!(open(0).unwrap().is_none(), "it is busy");
        drop(locked);
        assert!(open(usize::MAX).unwrap().is_none() && opened.get() == TRIES);
    }
}
