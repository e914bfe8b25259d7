//! Contents of folders, local or remote: listings and patterns.

use std::collections::BTreeMap;

use super::disk;
use super::error::StorageError;
use super::location::Location;
use super::matching;
use super::path::{Path, split_scheme};
use super::pattern::{self, Pattern};

/// An entry of a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FolderEntry {
    /// Path of the entry.
    pub path: Path,
    /// Whether the entry is a folder.
    pub is_dir: bool,
}

impl Path {
    /// Lists the direct entries of the folder, sorted by name.
    pub fn list(&self) -> Result<Vec<Self>, StorageError> {
        Ok(self.entries()?.into_iter().map(|entry| entry.path).collect())
    }

    /// Lists the direct entries of the folder with their kinds, sorted by name; for a remote folder
    /// this costs one request, whereas [`Path::is_dir`] costs one per entry.
    pub fn entries(&self) -> Result<Vec<FolderEntry>, StorageError> {
        let mut entries: Vec<FolderEntry> = match self.place()? {
            Location::Disk(local) => {
                let entry =
                    |(name, is_dir): (String, bool)| FolderEntry { path: self.join(&name), is_dir };
                self.done("list", disk::entries(&local))?.into_iter().map(entry).collect()
            }
            Location::Elsewhere(remote) => (remote.list(false)?.into_iter())
                .map(|found| FolderEntry {
                    path: self.join(&found.name),
                    is_dir: found.size.is_none(),
                })
                .collect(),
        };
        entries.sort_unstable_by(|one, other| one.path.cmp(&other.path));
        Ok(entries)
    }

    /// Whether the path is a symbolic link, whatever its target; there are no remote links.
    pub fn is_link(&self) -> Result<bool, StorageError> {
        let Location::Disk(local) = self.place()? else { return Ok(false) };
        match self.done("look at", std::fs::symlink_metadata(local)) {
            Err(error) if error.is_not_found() => Ok(false),
            metadata => Ok(metadata?.file_type().is_symlink()),
        }
    }

    /// Lists all files below the folder, sorted; a remote folder needs one listing.
    pub fn walk(&self) -> Result<Vec<Self>, StorageError> {
        let mut files = Vec::new();
        match self.place()? {
            Location::Elsewhere(remote) => {
                files.extend(remote.list(true)?.iter().map(|found| self.join(&found.name)));
            }
            Location::Disk(_) => {
                let mut folders = vec![self.clone()];
                while let Some(folder) = folders.pop() {
                    for FolderEntry { path, is_dir } in folder.entries()? {
                        if is_dir { folders.push(path) } else { files.push(path) }
                    }
                }
            }
        }
        files.sort_unstable();
        Ok(files)
    }

    /// Returns the sizes of all files below the folder by relative path; a remote folder needs one
    /// listing.
    pub fn sizes(&self) -> Result<BTreeMap<String, u64>, StorageError> {
        if let Location::Elsewhere(remote) = self.place()? {
            let found = remote.list(true)?.into_iter();
            return Ok(found.map(|found| (found.name, found.size.unwrap_or(0))).collect());
        }
        let mut sizes = BTreeMap::new();
        for file in self.walk()? {
            sizes.insert(file.relative_to(self).to_string(), file.size()?);
        }
        Ok(sizes)
    }

    /// Returns the paths that match a pattern of `*`, `?`, `[...]` and `**` by the rules of
    /// Python's `glob`, sorted and without duplicates; no match is not an error.
    pub fn glob(pattern: &str) -> Result<Vec<Self>, StorageError> {
        let path = Self::parse(pattern)?;
        let is_url = matches!(split_scheme(pattern), Some(("http" | "https", _)));
        if is_url && !pattern.contains(['*', '[']) {
            // The question mark of a URL is not a wildcard.
            return Ok(if path.exists()? { vec![path] } else { Vec::new() });
        }
        let fixed = pattern::fixed_folder(pattern);
        let folder = if fixed.is_empty() { Self::here() } else { Self::parse(fixed)? };
        let mut found = folder.glob_below(&pattern[fixed.len()..])?;
        // A bare `**` does not name the current folder; `.` does.
        found.retain(|path| !fixed.is_empty() || *path != folder || !pattern.contains('*'));
        Ok(found)
    }

    /// Like [`Path::glob`], for a pattern below this folder, whose own name may contain any
    /// character.
    pub fn glob_below(&self, pattern: &str) -> Result<Vec<Self>, StorageError> {
        let pattern = Pattern::parse(pattern);
        if pattern.parts.is_empty() {
            return Ok(if self.is_dir()? { vec![self.clone()] } else { Vec::new() });
        }
        let found = match self.place()? {
            Location::Elsewhere(remote) => remote.glob(&pattern)?,
            Location::Disk(local) => self.done("list", matching::below(&local, &pattern))?,
        };
        let mut named: Vec<Self> = found.iter().map(|found| self.join(found)).collect();
        named.sort_unstable();
        named.dedup();
        Ok(named)
    }

    /// Lists the files beside this path whose names begin with its name and `.`, sorted.
    pub fn siblings(&self) -> Result<Vec<Self>, StorageError> {
        let start = format!("{}.", self.file_name());
        if self.is_remote() && self.parent().is_none() {
            return Ok(Vec::new());
        }
        let beside = match self.folder().list() {
            Err(error) if error.is_not_found() => Vec::new(),
            listed => listed?,
        };
        Ok(beside.into_iter().filter(|path| path.file_name().starts_with(&start)).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::set_path_map;

    #[test]
    fn sizes_are_told_by_relative_paths() {
        let dir = tempfile::tempdir().unwrap();
        let path = Path::try_from(dir.path()).unwrap();
        path.join("inner").create_dir_all().unwrap();
        path.join("inner/b").write_atomic(b"two").unwrap();
        path.join("a").write_atomic(b"").unwrap();
        let expected = [("a", 0), ("inner/b", 3)].map(|(name, size)| (name.to_string(), size));
        assert_eq!(path.sizes().unwrap(), expected.into());
    }

    #[test]
    fn globs_are_sorted_and_keep_the_users_name() {
        let dir = tempfile::tempdir().unwrap();
        let path = Path::try_from(dir.path()).unwrap();
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
        assert_eq!(found[0].read().unwrap(), b"");
    }
}
