//! Operations on the files behind paths, local or remote.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom};
use std::ops::Range;
use std::time::SystemTime;

use super::disk::{self, Replacement};
use super::error::StorageError;
use super::location::Location;
use super::path::Path;
use super::ranges::RangeFile;
use super::remote::{RemoteRanges, Upload};
use super::writer::FileWriter;

impl Path {
    /// Opens the file for reading from its start. Files on disk are unbuffered; for remote files
    /// the next bytes are fetched in advance.
    pub fn open(&self) -> Result<Box<dyn Read + Send>, StorageError> {
        self.open_at(0)
    }

    /// Opens the file for reading from an offset; earlier bytes are not fetched.
    pub fn open_at(&self, offset: u64) -> Result<Box<dyn Read + Send>, StorageError> {
        let local = match self.place()? {
            Location::Elsewhere(remote) => return Ok(Box::new(remote.open(offset)?)),
            Location::Disk(local) => local,
        };
        let mut file = self.done("open", disk::open(&local))?;
        if offset > 0 {
            self.done("open", file.seek(SeekFrom::Start(offset)))?;
        }
        Ok(Box::new(file))
    }

    /// Opens the file for reading at any position: for formats with a footer or an index.
    pub fn open_ranges(&self) -> Result<RangeFile, StorageError> {
        match self.place()? {
            Location::Disk(local) => {
                let file = self.done("open", disk::open(&local))?;
                let size = self.done("open", file.metadata())?.len();
                Ok(RangeFile::on_disk(self.clone(), file, size))
            }
            Location::Elsewhere(remote) => {
                Ok(RangeFile::elsewhere(self.clone(), RemoteRanges::open(remote)?))
            }
        }
    }

    /// Reads the whole file.
    pub fn read(&self) -> Result<Vec<u8>, StorageError> {
        match self.place()? {
            Location::Disk(local) => self.done("read", fs::read(local)),
            Location::Elsewhere(remote) => remote.read(0..u64::MAX),
        }
    }

    /// Reads the whole file, which may have at most `most` bytes: for a description, whose size
    /// does not depend on the data that it describes.
    pub fn read_up_to(&self, most: u64) -> Result<Vec<u8>, StorageError> {
        let mut bytes = Vec::new();
        self.done("read", self.open()?.take(most.saturating_add(1)).read_to_end(&mut bytes))?;
        if bytes.len() as u64 > most {
            let reason = format!("it has more than {most} bytes, expected a small file");
            return self.done("read", Err(io::Error::new(io::ErrorKind::InvalidData, reason)));
        }
        Ok(bytes)
    }

    /// Reads a byte range of the file, which must be complete. Callers that read more than one
    /// range should use [`Path::open_ranges`], which detects a file that changes in between.
    pub fn read_range(&self, range: Range<u64>) -> Result<Vec<u8>, StorageError> {
        let length = range.end.saturating_sub(range.start);
        let bytes = match self.place()? {
            Location::Elsewhere(remote) => remote.read(range.clone())?,
            Location::Disk(local) => {
                let mut bytes = Vec::new();
                let read = disk::open(&local).and_then(|mut file| {
                    file.seek(SeekFrom::Start(range.start))?;
                    file.take(length).read_to_end(&mut bytes)
                });
                self.done("read", read)?;
                bytes
            }
        };
        let found = bytes.len() as u64;
        if found < length {
            let reason =
                format!("it has {found} of the {length} bytes from byte {} on", range.start);
            return self.done("read", Err(io::Error::new(io::ErrorKind::UnexpectedEof, reason)));
        }
        Ok(bytes)
    }

    /// Reads the whole file, which must be UTF-8.
    pub fn read_to_string(&self) -> Result<String, StorageError> {
        let bytes = self.read()?;
        String::from_utf8(bytes).map_err(|error| {
            let at = error.utf8_error().valid_up_to();
            let reason = format!("it is not UTF-8 text (byte {at})");
            StorageError::new("read", self, io::Error::new(io::ErrorKind::InvalidData, reason))
        })
    }

    /// Whether a file or folder exists.
    pub fn exists(&self) -> Result<bool, StorageError> {
        match self.place()? {
            Location::Disk(local) => self.done("look for", disk::exists(&local)),
            Location::Elsewhere(remote) => remote.exists(),
        }
    }

    /// Whether the path is a folder; for remote paths, whether any file lies below it.
    pub fn is_dir(&self) -> Result<bool, StorageError> {
        match self.place()? {
            Location::Disk(local) => self.done("look for", disk::is_dir(&local)),
            Location::Elsewhere(remote) => remote.is_dir(),
        }
    }

    /// The size of the file in bytes.
    pub fn size(&self) -> Result<u64, StorageError> {
        match self.place()? {
            Location::Disk(local) => Ok(self.done("look at", fs::metadata(local))?.len()),
            Location::Elsewhere(remote) => remote.size(),
        }
    }

    /// Time of the last change of the file or folder; remote folders have none.
    pub fn modified(&self) -> Result<SystemTime, StorageError> {
        match self.place()? {
            Location::Disk(local) => {
                self.done("look at", fs::metadata(local).and_then(|metadata| metadata.modified()))
            }
            Location::Elsewhere(remote) => remote.modified(),
        }
    }

    /// Creates the folder and its parents; the folder may exist. Remote folders are created with
    /// their files.
    pub fn create_dir_all(&self) -> Result<(), StorageError> {
        match self.place()? {
            Location::Disk(local) => self.done("create folder", fs::create_dir_all(local)),
            Location::Elsewhere(remote) => remote.writable("create folder"),
        }
    }

    /// Replaces the file as a whole: readers see either the old or the new bytes, even after a
    /// crash.
    pub fn write_atomic(&self, bytes: &[u8]) -> Result<(), StorageError> {
        match self.place()? {
            Location::Disk(local) => self.done("write", disk::write_atomic(&local, bytes)),
            Location::Elsewhere(remote) => remote.put(bytes),
        }
    }

    /// Creates or truncates the file; durable after [`FileWriter::finish`]. A remote file is not
    /// visible before that.
    pub fn create(&self) -> Result<FileWriter, StorageError> {
        match self.place()? {
            Location::Disk(local) => {
                Ok(FileWriter::on_disk(self.clone(), self.done("create", File::create(local))?))
            }
            Location::Elsewhere(remote) => {
                remote.writable("create")?;
                Ok(FileWriter::elsewhere(self.clone(), Upload::new(remote, Vec::new())))
            }
        }
    }

    /// Like [`Path::create`], but replaces the file as a whole: readers see either the old bytes or,
    /// after [`FileWriter::finish`], the new ones. A file that is not finished leaves nothing.
    pub fn create_atomic(&self) -> Result<FileWriter, StorageError> {
        match self.place()? {
            Location::Disk(local) => {
                let file = self.done("create", Replacement::create(&local))?;
                Ok(FileWriter::replacing(self.clone(), file))
            }
            Location::Elsewhere(_) => self.create(),
        }
    }

    /// Like [`Path::create`], for a file of approximately `size` bytes that is written without a
    /// pause: a remote file is sent in one request if it fits in memory. Waits for other files that
    /// are created in this way.
    pub fn create_sized(&self, size: usize) -> Result<FileWriter, StorageError> {
        match self.place()? {
            Location::Disk(_) => self.create(),
            Location::Elsewhere(remote) => {
                remote.writable("create")?;
                Ok(FileWriter::elsewhere(self.clone(), Upload::sized(remote, size)))
            }
        }
    }

    /// Opens the file for writing at its end, and creates it if it is missing. Remote files cannot
    /// grow: the whole file is read, and written again by [`FileWriter::finish`].
    pub fn append(&self) -> Result<FileWriter, StorageError> {
        match self.place()? {
            Location::Disk(local) => {
                let file = OpenOptions::new().append(true).create(true).open(local);
                Ok(FileWriter::on_disk(self.clone(), self.done("append to", file)?))
            }
            Location::Elsewhere(remote) => {
                remote.writable("append to")?;
                let old = match remote.clone().read(0..u64::MAX) {
                    Err(error) if error.is_not_found() => Vec::new(),
                    old => old?,
                };
                Ok(FileWriter::elsewhere(self.clone(), Upload::new(remote, old)))
            }
        }
    }

    /// Sets the file's size in bytes, and creates it if it is missing; new bytes are 0.
    pub fn set_size(&self, size: u64) -> Result<(), StorageError> {
        let local = self.on_disk("resize", "write the file again")?;
        let open = OpenOptions::new().write(true).create(true).truncate(false).open(local);
        self.done("write", open.and_then(|file| file.set_len(size)))
    }

    /// Renames the file or folder durably. A file replaces a file at `to`; a folder needs a free or
    /// empty destination. Remote files can be renamed only within one bucket.
    pub fn rename(&self, to: &Self) -> Result<(), StorageError> {
        match (self.place()?, to.place()?) {
            (Location::Disk(from), Location::Disk(to)) => {
                self.done("rename", fs::rename(from, &to).and_then(|()| disk::sync_folder_of(&to)))
            }
            (Location::Elsewhere(from), Location::Elsewhere(to)) => from.rename(&to),
            (Location::Elsewhere(remote), _) | (_, Location::Elsewhere(remote)) => {
                Err(remote.unsupported("rename", "both names must be on disk or in one bucket"))
            }
        }
    }

    /// Removes the folder and everything in the folder.
    pub fn remove_dir_all(&self) -> Result<(), StorageError> {
        match self.place()? {
            Location::Disk(local) => self.done("remove", fs::remove_dir_all(local)),
            Location::Elsewhere(remote) => remote.remove_tree(),
        }
    }

    /// Removes the file.
    pub fn remove_file(&self) -> Result<(), StorageError> {
        match self.place()? {
            Location::Disk(local) => self.done("remove", fs::remove_file(local)),
            Location::Elsewhere(remote) => remote.remove_file(),
        }
    }

    /// Makes the entries of this folder durable: files created, renamed and removed in the folder.
    /// Remote entries are durable at once.
    pub fn sync_dir(&self) -> Result<(), StorageError> {
        match self.place()? {
            Location::Disk(local) => {
                self.done("write", File::open(local).and_then(|folder| folder.sync_all()))
            }
            Location::Elsewhere(_) => Ok(()),
        }
    }

    /// Makes the folder and everything below it durable.
    pub fn sync_tree(&self) -> Result<(), StorageError> {
        match self.place()? {
            Location::Disk(local) => self.done("write", disk::sync_tree(&local)),
            Location::Elsewhere(_) => Ok(()),
        }
    }

    /// Creates a folder that must not exist yet; its parents must exist.
    pub fn create_dir_new(&self) -> Result<(), StorageError> {
        let exists = || io::Error::from(io::ErrorKind::AlreadyExists);
        match self.place()? {
            Location::Disk(local) => self.done("create folder", fs::create_dir(local)),
            Location::Elsewhere(remote) => match remote.exists()? {
                true => self.done("create folder", Err(exists())),
                false => remote.writable("create folder"),
            },
        }
    }

    /// Creates a folder that only this user may enter, and its parents. An existing folder must
    /// belong to this user and must not be writable by others.
    pub fn create_private_dir(&self) -> Result<(), StorageError> {
        let local = self.on_disk("create folder", "stores have no folders of one user")?;
        self.done("create folder", disk::create_private_dir(&local))
    }

    /// Free bytes on the file system that holds this path, or will hold it.
    pub fn free_space(&self) -> Result<u64, StorageError> {
        match self.place()? {
            Location::Disk(local) => self.done("look at the disk of", disk::free_space(&local)),
            Location::Elsewhere(_) => Ok(u64::MAX),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

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
        assert_eq!(file.read_up_to(3).unwrap(), b"abc");
        assert!(file.read_up_to(2).unwrap_err().to_string().contains("more than 2 bytes"));
        assert!(file.free_space().unwrap() > 0);
        assert!(path.join("not/yet").free_space().unwrap() > 0);
    }
}
