//! Finds local files that match a pattern.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path as LocalPath, PathBuf};

use super::disk;
use super::pattern::{Component, Pattern, is_hidden};

/// Returns the matching names below a folder, relative to the folder; the folder itself is the
/// empty name. Links to folders are followed, but `**` does not follow a link to one of its parent
/// folders, where Python loops until the system refuses. A folder that cannot be listed is an
/// error; Python skips such a folder, so that its files would be missing silently.
pub(super) fn below(folder: &LocalPath, pattern: &Pattern) -> io::Result<Vec<String>> {
    let mut bases = vec![String::new()];
    for (index, part) in pattern.parts.iter().enumerate() {
        let last = index + 1 == pattern.parts.len();
        let only_folders = pattern.only_folders || !last;
        let mut found = Vec::new();
        for base in bases {
            match part {
                Component::Named(name) => {
                    let named = join(&base, name);
                    if !last || is_there(&folder.join(&named), only_folders)? {
                        found.push(named);
                    }
                }
                Component::Like(like) => {
                    for (name, is_dir) in listed(&folder.join(&base))? {
                        if like.matches(&name.to_string_lossy()) && (is_dir || !only_folders) {
                            found.push(join(&base, &utf8(name)?));
                        }
                    }
                }
                Component::Below => {
                    let mut tree = Tree { folder, only_folders, above: Vec::new(), found };
                    tree.add(&base)?;
                    found = tree.found;
                }
            }
        }
        bases = found;
    }
    Ok(bases)
}

/// Collects the matches of `**`.
struct Tree<'a> {
    folder: &'a LocalPath,
    only_folders: bool,
    /// The folders on the path to the current folder, by device and inode.
    above: Vec<(u64, u64)>,
    found: Vec<String>,
}

impl Tree<'_> {
    /// Adds a folder and everything below the folder.
    fn add(&mut self, base: &str) -> io::Result<()> {
        let place = self.folder.join(base);
        let metadata = match fs::metadata(&place) {
            Ok(metadata) if metadata.is_dir() => metadata,
            Ok(_) => return Ok(()),
            Err(error) if disk::is_absent(&error) => return Ok(()),
            Err(error) => return Err(error),
        };
        let identity = (metadata.dev(), metadata.ino());
        if self.above.contains(&identity) {
            return Ok(());
        }
        self.above.push(identity);
        self.found.push(base.to_string());
        for (name, is_dir) in listed(&place)? {
            if is_hidden(&name.to_string_lossy()) {
                continue;
            }
            let name = join(base, &utf8(name)?);
            if is_dir {
                self.add(&name)?;
            } else if !self.only_folders {
                self.found.push(name);
            }
        }
        self.above.pop();
        Ok(())
    }
}

/// Whether a path exists. A link without a target exists, as in Python: opening the link reports
/// the error.
fn is_there(place: &PathBuf, only_folders: bool) -> io::Result<bool> {
    if only_folders {
        return disk::is_dir(place);
    }
    match fs::symlink_metadata(place) {
        Ok(_) => Ok(true),
        Err(error) if disk::is_absent(&error) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Returns the names in a folder, and whether they are folders; nothing if the folder does not
/// exist.
fn listed(place: &LocalPath) -> io::Result<Vec<(OsString, bool)>> {
    let place = if place.as_os_str().is_empty() { LocalPath::new(".") } else { place };
    match disk::raw_entries(place) {
        Err(error) if disk::is_absent(&error) => Ok(Vec::new()),
        listed => listed,
    }
}

fn utf8(name: OsString) -> io::Result<String> {
    name.into_string().map_err(disk::not_utf8)
}

fn join(base: &str, name: &str) -> String {
    if base.is_empty() { name.to_string() } else { format!("{base}/{name}") }
}
