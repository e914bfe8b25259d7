//! The path of a file or folder, local or remote.

use std::fmt;
use std::path::PathBuf;

use super::error::StorageError;
use super::path_map;

/// The supported remote schemes.
const REMOTE_SCHEMES: [&str; 7] = ["gs", "s3", "az", "http", "https", "hf", "tfds"];

/// A path as the user gave it, with one slash between its components and without `.` components:
/// `./a//b/` becomes `a/b`. `..` is kept, because the components before it may be links; so are the
/// slashes of URLs, which may matter to servers.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Path {
    given: String,
}

impl Path {
    /// Parses a path, without checking whether it exists.
    ///
    /// # Errors
    /// An empty text, an unknown scheme, or `..` in a remote path.
    pub fn parse(text: &str) -> Result<Self, StorageError> {
        let invalid = |reason: String| StorageError::Invalid { path: text.to_string(), reason };
        if text.is_empty() {
            return Err(invalid("it is empty".to_string()));
        }
        if text.contains('\0') {
            return Err(invalid("it contains a zero byte".to_string()));
        }
        if text == "~" || text.starts_with("~/") {
            // In gin's quotes the shell does not expand `~`, and a folder of that name would be a
            // surprise.
            return Err(invalid("`~` means your home only to the shell: write it out".to_string()));
        }
        match split_scheme(text) {
            None => {}
            Some(("file", rest)) if rest.starts_with('/') => {}
            Some(("file", _)) => return Err(invalid("expected file:///folder/name".to_string())),
            Some((scheme, rest)) if REMOTE_SCHEMES.contains(&scheme) => {
                // A mapped path must not leave its folder.
                let climbs = rest.split('/').any(|component| component == "..");
                if climbs {
                    return Err(invalid("a remote path has no `..`".to_string()));
                }
            }
            Some((scheme, _)) => {
                let known = REMOTE_SCHEMES.join("://, ");
                return Err(invalid(format!(
                    "unknown scheme `{scheme}://`; known are {known}:// and file://"
                )));
            }
        }
        Ok(Self::normalized(text))
    }

    /// Normalizes the text, so that paths in a folder begin with the path of the folder.
    fn normalized(text: &str) -> Self {
        let (start, rest) = match split_scheme(text) {
            Some(("http" | "https", _)) => return Self { given: trim_slashes(text).to_string() },
            Some((scheme, rest)) => (&text[..scheme.len() + 3], rest),
            None => ("", text),
        };
        let root = if rest.starts_with('/') { "/" } else { "" };
        let names: Vec<&str> = rest.split('/').filter(|name| !matches!(*name, "" | ".")).collect();
        // A folder named `~` is distinguished from the home folder by its `./`.
        let start = match (start, root, names.first()) {
            ("", "", None) => ".",
            ("", "", Some(&"~")) => "./",
            _ => start,
        };
        Self { given: format!("{start}{root}{}", names.join("/")) }
    }

    /// The current folder.
    pub(super) fn here() -> Self {
        Self { given: ".".to_string() }
    }

    /// The path of an entry below this folder; `relative` may have several components.
    pub fn join(&self, relative: &str) -> Self {
        let relative = relative.trim_end_matches('/');
        let separator = if self.given.ends_with('/') || relative.is_empty() { "" } else { "/" };
        Self::normalized(&format!("{}{separator}{relative}", self.given))
    }

    /// The parent folder; `None` for a root, a bucket or a bare relative name.
    pub fn parent(&self) -> Option<Self> {
        let start = split_scheme(&self.given).map_or(0, |(scheme, _)| scheme.len() + 3);
        match self.given[start..].rfind('/') {
            Some(0) if start + 1 == self.given.len() => None,
            Some(0) => Some(Self { given: self.given[..=start].to_string() }),
            Some(at) => Some(Self { given: trim_slashes(&self.given[..start + at]).to_string() }),
            None => None,
        }
    }

    /// Like [`Path::parent`], but `.` if there is no parent.
    pub fn folder(&self) -> Self {
        self.parent().unwrap_or_else(Self::here)
    }

    /// The path with `ending` appended to its name: `model.ckpt-1000` becomes
    /// `model.ckpt-1000.index`.
    #[must_use]
    pub fn suffixed(&self, ending: &str) -> Self {
        Self { given: format!("{}{ending}", self.given) }
    }

    /// The last component: `checkpoint_1000`.
    pub fn file_name(&self) -> &str {
        self.given.rsplit('/').next().expect("split yields one part")
    }

    /// The rest of the path after a folder, if the path lies in the folder; otherwise the whole
    /// path.
    pub fn relative_to(&self, folder: &Self) -> &str {
        let rest = self
            .given
            .strip_prefix(&folder.given)
            .filter(|rest| rest.is_empty() || rest.starts_with('/') || folder.given.ends_with('/'));
        rest.map_or(&self.given, |rest| rest.trim_start_matches('/'))
    }

    /// The text of the path, for display.
    pub fn as_str(&self) -> &str {
        &self.given
    }

    /// Whether the path names a remote place, mapped or not.
    pub fn is_remote(&self) -> bool {
        matches!(split_scheme(&self.given), Some((scheme, _)) if scheme != "file")
    }

    /// Whether the bytes lie on this machine, possibly because the prefix is mapped.
    pub fn is_on_disk(&self) -> bool {
        self.local().is_ok()
    }

    /// Location on this machine.
    ///
    /// # Errors
    /// [`StorageError::Unmapped`] for a remote path under no mapped prefix.
    pub fn local(&self) -> Result<PathBuf, StorageError> {
        match split_scheme(&self.given) {
            None => Ok(PathBuf::from(&self.given)),
            Some(("file", rest)) => Ok(PathBuf::from(rest)),
            Some(_) => match self.mapped()? {
                Some(folder) if !folder.is_remote() => Ok(PathBuf::from(folder.given)),
                _ => Err(self.unmapped("only a folder on this machine will do here")),
            },
        }
    }

    /// The replacement of this path in the path map, if any: a path on this machine, or for a name
    /// of TFDS a path in any storage.
    pub fn mapped(&self) -> Result<Option<Self>, StorageError> {
        path_map::mapped(&self.given)
    }

    pub(super) fn unmapped(&self, reason: &'static str) -> StorageError {
        let (path, prefix) = (self.given.clone(), self.mappable_prefix());
        StorageError::Unmapped { path, prefix, reason }
    }

    /// The bucket, host or hub repository that a user would map: `gs://t5-data`, `hf://google/t5-v1_1-small`,
    /// `hf://datasets/owner/name`.
    pub(super) fn mappable_prefix(&self) -> String {
        let (scheme, rest) = split_scheme(&self.given).expect("only remote paths are mapped");
        let components = match (scheme, rest.split('/').next()) {
            ("hf", Some("datasets" | "spaces")) => 3,
            ("hf", _) => 2,
            _ => 1,
        };
        let kept: Vec<&str> = rest.split('/').take(components).collect();
        format!("{scheme}://{}", kept.join("/"))
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.given)
    }
}

impl std::str::FromStr for Path {
    type Err = StorageError;

    fn from_str(text: &str) -> Result<Self, StorageError> {
        Self::parse(text)
    }
}

impl TryFrom<&std::path::Path> for Path {
    type Error = StorageError;

    fn try_from(path: &std::path::Path) -> Result<Self, StorageError> {
        let text = path.to_str().ok_or_else(|| StorageError::Invalid {
            path: path.to_string_lossy().into_owned(),
            reason: "it is not UTF-8".to_string(),
        })?;
        Self::parse(text)
    }
}

/// Splits the scheme and the rest after `://`; a plain path has no scheme.
pub(super) fn split_scheme(text: &str) -> Option<(&str, &str)> {
    let (scheme, rest) = text.split_once("://")?;
    let is_scheme = !scheme.is_empty()
        && scheme.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'));
    is_scheme.then_some((scheme, rest))
}

/// Removes trailing slashes, except those of a root or of a bare scheme.
fn trim_slashes(text: &str) -> &str {
    let trimmed = text.trim_end_matches('/');
    match trimmed {
        "" => &text[..text.len().min(1)],
        scheme if scheme.ends_with(':') && text[scheme.len()..].starts_with("//") => {
            &text[..text.len().min(scheme.len() + 3)]
        }
        _ => trimmed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> Path {
        Path::parse(text).unwrap()
    }

    #[test]
    fn paths_are_normalized_when_they_are_parsed() {
        for (given, shown) in [
            ("./", "."),
            (".", "."),
            ("./././a", "a"),
            ("a/./b//c/.", "a/b/c"),
            ("../a/../b", "../a/../b"),
            ("//a", "/a"),
            ("/./", "/"),
            ("./~/a", "./~/a"),
            (".hidden/..a", ".hidden/..a"),
            ("./gs://b", "gs:/b"),
            ("file:////a//b/", "file:///a/b"),
            ("gs://b//x/./y", "gs://b/x/y"),
            ("hf://datasets/o//n/", "hf://datasets/o/n"),
            ("https://h/a//b/./c/", "https://h/a//b/./c"),
            ("gs://t5-data/a/", "gs://t5-data/a"),
            ("/", "/"),
            ("file:///", "file:///"),
            ("./x//", "x"),
            ("gs://t5-data", "gs://t5-data"),
        ] {
            assert_eq!(path(given).to_string(), shown);
            assert_eq!(path(shown).to_string(), shown);
        }
    }

    #[test]
    fn what_lies_in_a_folder_is_told_from_what_only_begins_like_it() {
        for (name, folder, relative) in [
            ("a/b", "a", "b"),
            ("./a/b", "a/", "b"),
            ("ab/c", "a", "ab/c"),
            (".a/b", ".", ".a/b"),
            ("a", ".", "a"),
            ("/a", "/", "a"),
            ("a", "a", ""),
        ] {
            assert_eq!(path(name).relative_to(&path(folder)), relative, "{name} in {folder}");
        }
        assert_eq!(path(".").join("./a/").as_str(), "a");
        assert_eq!(path("a").join("").as_str(), "a");
    }

    #[test]
    fn join_and_parent_are_inverse() {
        for dir in ["gs://b", "/", "/a", "a", "file:///", "hf://datasets/x", "file:///a"] {
            let child = path(dir).join("n");
            assert_eq!(child.parent(), Some(path(dir)), "{dir}");
            assert_eq!(child.file_name(), "n");
        }
        for root in ["gs://b", "/", "a", "file:///"] {
            assert_eq!(path(root).parent(), None, "{root}");
        }
    }

    #[test]
    fn unknown_schemes_are_refused_with_the_known_ones() {
        let message = Path::parse("ftp://x/y").unwrap_err().to_string();
        assert!(message.contains("unknown scheme `ftp://`; known are gs://, s3://"), "{message}");
        assert!(Path::parse("gs://a/../b").is_err());
        assert!(Path::parse("").is_err());
        assert!(Path::parse("~/model").unwrap_err().to_string().contains("write it out"));
        assert!(Path::parse("~model").is_ok());
        assert!(Path::parse("file://x").is_err());
    }

    #[test]
    fn file_urls_and_plain_paths_are_local() {
        assert_eq!(path("file:///a/b").local().unwrap(), PathBuf::from("/a/b"));
        assert_eq!(path("a/b").local().unwrap(), PathBuf::from("a/b"));
        assert!(!path("file:///a").is_remote());
    }

    #[test]
    fn an_unmapped_remote_path_has_no_local_place_and_names_the_flag() {
        let check = |given: &str, flag: &str| {
            let message = path(given).local().unwrap_err().to_string();
            assert!(message.contains(&format!("`{given}`")), "{message}");
            assert!(message.contains(flag), "{message}");
        };
        check("gs://unmapped/a/b", "`--path_map gs://unmapped=DIR`");
        check("hf://datasets/o/n/f.json", "`--path_map hf://datasets/o/n=DIR`");
        check("hf://o/n/spiece.model", "`--path_map hf://o/n=DIR`");
    }
}
