//! Maps remote prefixes to local folders. A data set of TFDS, whose name belongs to no server, may
//! lie in any storage.

use std::sync::{OnceLock, RwLock};

use super::error::StorageError;
use super::path::{Path, split_scheme};

/// The environment variable that maps prefixes: `gs://a=DIR,hf://datasets/b=DIR`.
pub const PATH_MAP_VARIABLE: &str = "GIMLET_PATH_MAP";

/// Prefix of names that stand for data sets and not for places.
const TFDS: &str = "tfds://";

/// A prefix, and the folder that replaces it.
type Mapping = (String, Path);

static FLAGS: RwLock<Vec<Mapping>> = RwLock::new(Vec::new());

/// Sets the process-wide map of `(remote prefix, folder)` from flags. Flags take precedence over
/// the environment; the longest prefix wins, at the boundaries of path components.
pub fn set_path_map(entries: Vec<(String, String)>) -> Result<(), StorageError> {
    let entries = entries
        .into_iter()
        .map(|(prefix, dir)| check_entry(&prefix, &dir))
        .collect::<Result<_, _>>()?;
    *FLAGS.write().expect("no holder of the path map panics") = entries;
    Ok(())
}

/// Parses one or more `PREFIX=DIR`, separated by commas: the value of `--path_map`.
pub fn parse_path_map(text: &str) -> Result<Vec<(String, String)>, StorageError> {
    text.split(',')
        .filter(|entry| !entry.trim().is_empty())
        .map(|entry| match entry.trim().split_once('=') {
            Some((prefix, dir)) if !dir.is_empty() => Ok((prefix.to_string(), dir.to_string())),
            _ => Err(invalid(entry, "expected PREFIX=DIR, such as gs://t5-data=/data/t5-data")),
        })
        .collect()
}

/// The replacement of a remote path, if a prefix of the path is mapped.
pub(super) fn mapped(remote: &str) -> Result<Option<Path>, StorageError> {
    let flags = FLAGS.read().expect("no holder of the path map panics");
    let environment = environment()?;
    // `max_by_key` returns the last of equal entries: flags come last, to win over the environment.
    let best = environment
        .iter()
        .chain(flags.iter())
        .filter_map(|(prefix, dir)| Some((prefix.len(), dir, rest_after(prefix, remote)?)))
        .max_by_key(|(length, ..)| *length);
    Ok(best.map(|(_, dir, rest)| if rest.is_empty() { dir.clone() } else { dir.join(rest) }))
}

fn environment() -> Result<&'static Vec<Mapping>, StorageError> {
    static ENTRIES: OnceLock<Result<Vec<Mapping>, String>> = OnceLock::new();
    let read = || {
        let text = std::env::var(PATH_MAP_VARIABLE).unwrap_or_default();
        let entries = parse_path_map(&text).and_then(|entries| {
            entries.iter().map(|(prefix, dir)| check_entry(prefix, dir)).collect()
        });
        entries.map_err(|error: StorageError| error.to_string())
    };
    ENTRIES
        .get_or_init(read)
        .as_ref()
        .map_err(|reason| invalid(&format!("${PATH_MAP_VARIABLE}"), reason))
}

fn check_entry(prefix: &str, dir: &str) -> Result<Mapping, StorageError> {
    if split_scheme(prefix).is_none() {
        return Err(invalid(prefix, "a mapped prefix is remote, such as gs://t5-data"));
    }
    let dir = dir.strip_prefix("file://").unwrap_or(dir);
    let elsewhere = split_scheme(dir).is_some();
    if elsewhere && !prefix.starts_with(TFDS) {
        let reason = "a prefix is mapped to a local folder; only tfds:// is mapped to any storage";
        return Err(invalid(dir, reason));
    }
    if dir.starts_with(TFDS) {
        return Err(invalid(dir, "a data set of TFDS is mapped to the folder that holds it"));
    }
    // `gs://` alone keeps its slashes: it maps every bucket.
    let prefix = if prefix.ends_with("://") { prefix } else { prefix.trim_end_matches('/') };
    Ok((prefix.to_string(), Path::parse(dir)?))
}

/// The rest after the prefix, if the prefix ends at a component boundary.
fn rest_after<'a>(prefix: &str, path: &'a str) -> Option<&'a str> {
    let rest = path.strip_prefix(prefix)?;
    (rest.is_empty() || rest.starts_with('/') || prefix.ends_with('/'))
        .then(|| rest.trim_start_matches('/'))
}

fn invalid(path: &str, reason: &str) -> StorageError {
    StorageError::Invalid { path: path.to_string(), reason: reason.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_end_at_component_borders() {
        assert_eq!(rest_after("gs://t5-data", "gs://t5-data/a/b"), Some("a/b"));
        assert_eq!(rest_after("gs://t5-data", "gs://t5-data"), Some(""));
        assert_eq!(rest_after("gs://t5-data", "gs://t5-data2/a"), None);
        assert_eq!(rest_after("gs://", "gs://any/a"), Some("any/a"));
    }

    #[test]
    fn a_map_is_prefix_and_local_folder_but_for_tfds() {
        let two = parse_path_map("gs://a=/x, hf://datasets/b=y").unwrap();
        assert_eq!(two[1], ("hf://datasets/b".to_string(), "y".to_string()));
        assert!(parse_path_map("gs://a").unwrap_err().to_string().contains("expected PREFIX=DIR"));
        assert!(check_entry("/local", "/x").is_err());
        assert!(check_entry("gs://a", "s3://b").is_err());
        assert!(check_entry("tfds://a:1.0.0", "tfds://b:1.0.0").is_err());
        let (_, folder) = check_entry("tfds://a:1.0.0", "hf://datasets/o/a/en/").unwrap();
        assert_eq!(folder.as_str(), "hf://datasets/o/a/en");
    }
}
