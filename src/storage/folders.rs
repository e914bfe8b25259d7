//! What lies in folders, here or elsewhere: listings and patterns.

use std::collections::BTreeMap;

use super::disk;
use super::error::StorageError;
use super::files::Place;
use super::path::{Path, split_scheme};

/// Something in a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Where it is.
    pub path: Path,
    /// Whether it is a folder.
    pub is_dir: bool,
}

impl Path {
    /// The direct entries of the folder, sorted by name.
    pub fn list(&self) -> Result<Vec<Self>, StorageError> {
        Ok(self.entries()?.into_iter().map(|entry| entry.path).collect())
    }

    /// The direct entries of the folder with their kinds, sorted by name; elsewhere this costs one
    /// request, whereas [`Path::is_dir`] costs one for each.
    pub fn entries(&self) -> Result<Vec<Entry>, StorageError> {
        let mut entries: Vec<Entry> = match self.place()? {
            Place::Disk(local) => {
                let entry =
                    |(name, is_dir): (String, bool)| Entry { path: self.join(&name), is_dir };
                self.done("list", disk::entries(&local))?.into_iter().map(entry).collect()
            }
            Place::Elsewhere(remote) => (remote.list(false)?.into_iter())
                .map(|found| Entry { path: self.join(&found.name), is_dir: found.size.is_none() })
                .collect(),
        };
        entries.sort_unstable_by(|one, other| one.path.cmp(&other.path));
        Ok(entries)
    }

    /// All files below the folder, sorted; elsewhere by one listing.
    pub fn walk(&self) -> Result<Vec<Self>, StorageError> {
        let mut files = Vec::new();
        match self.place()? {
            Place::Elsewhere(remote) => {
                files.extend(remote.list(true)?.iter().map(|found| self.join(&found.name)));
            }
            Place::Disk(_) => {
                let mut folders = vec![self.clone()];
                while let Some(folder) = folders.pop() {
                    for Entry { path, is_dir } in folder.entries()? {
                        if is_dir { folders.push(path) } else { files.push(path) }
                    }
                }
            }
        }
        files.sort_unstable();
        Ok(files)
    }

    /// The sizes of all files below the folder by their paths relative to it; elsewhere by one listing.
    pub fn sizes(&self) -> Result<BTreeMap<String, u64>, StorageError> {
        if let Place::Elsewhere(remote) = self.place()? {
            let found = remote.list(true)?.into_iter();
            return Ok(found.map(|found| (found.name, found.size.unwrap_or(0))).collect());
        }
        let mut sizes = BTreeMap::new();
        for file in self.walk()? {
            let relative = file.as_str()[self.as_str().len()..].trim_start_matches('/');
            sizes.insert(relative.to_string(), file.size()?);
        }
        Ok(sizes)
    }

    /// The paths that match a pattern of `*`, `?`, `[...]` and `**`, sorted; none is no error.
    pub fn glob(pattern: &str) -> Result<Vec<Self>, StorageError> {
        let is_url = matches!(split_scheme(pattern), Some(("http" | "https", _)));
        if is_url && !pattern.contains(['*', '[']) {
            // The question mark of a URL is no wildcard.
            let path = Self::parse(pattern)?;
            return Ok(if path.exists()? { vec![path] } else { Vec::new() });
        }
        let fixed = disk::fixed_folder(pattern);
        let variable = &pattern[fixed.len()..];
        let folder = if fixed.is_empty() { None } else { Some(Self::parse(fixed)?) };
        let mut named = match &folder {
            None => disk::glob("", variable, pattern)?
                .iter()
                .map(|found| Self::parse(found))
                .collect::<Result<Vec<_>, _>>()?,
            Some(folder) => folder.glob_below(variable, pattern)?,
        };
        named.sort_unstable();
        Ok(named)
    }

    fn glob_below(&self, variable: &str, pattern: &str) -> Result<Vec<Self>, StorageError> {
        let found = match self.place()? {
            Place::Elsewhere(remote) => remote.glob(variable)?,
            Place::Disk(local) => {
                let local = local.into_os_string().into_string().map_err(disk::not_utf8);
                let local = format!("{}/", self.done("list", local)?.trim_end_matches('/'));
                let found = disk::glob(&local, variable, pattern)?;
                found.iter().map(|found| found[local.len()..].to_string()).collect()
            }
        };
        Ok(found.iter().map(|found| self.join(found)).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::set_path_map;

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
