//! File patterns of splits, and code that the sources with such patterns share.

use std::collections::{BTreeMap, BTreeSet};

use super::contract::unknown_split;
use super::file::{Format, SourceFile};
use crate::error::DataError;
use gimlet_gin::{Evaluator, FromGin, Registry, Reported, Value, ValueKind};
use gimlet_storage::Path;

/// One glob or several.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilePattern(
    /// The globs, in the order given.
    pub Vec<String>,
);

impl FromGin for FilePattern {
    fn expected() -> String {
        "a str or a list of str".to_string()
    }

    fn from_gin(value: &Value, cx: &mut Evaluator<'_>) -> Result<Self, Reported> {
        match &value.kind {
            ValueKind::Str(pattern) => Ok(Self(vec![pattern.clone()])),
            ValueKind::List(_) | ValueKind::Tuple(_) => cx.read(value).map(Self),
            _ => Err(cx.mismatch(value, &Self::expected())),
        }
    }

    fn register(_: &mut Registry) {}
}

/// The files of a source that has file patterns for its splits.
pub(crate) struct Patterns<'a> {
    pub split_to_filepattern: &'a BTreeMap<String, FilePattern>,
    /// The folder to which the patterns are relative.
    pub root: Option<&'a Path>,
}

/// The files among the matches of `**`, which include folders. In a bucket a folder is a path that
/// contains other files.
fn files_of(found: Vec<Path>) -> Result<Vec<Path>, DataError> {
    let folders: BTreeSet<Path> = found.iter().filter_map(Path::parent).collect();
    let mut files = Vec::new();
    for path in found {
        if !folders.contains(&path) && (path.is_remote() || !path.is_dir()?) {
            files.push(path);
        }
    }
    Ok(files)
}

impl Patterns<'_> {
    /// The names of the splits.
    pub(crate) fn splits(&self) -> Vec<String> {
        self.split_to_filepattern.keys().cloned().collect()
    }

    /// The files that match the split's globs: in the order of the globs, then of names.
    pub(crate) fn paths(&self, task: &str, split: &str) -> Result<Vec<Path>, DataError> {
        let Some(FilePattern(patterns)) = self.split_to_filepattern.get(split) else {
            return Err(unknown_split(task, split, self.splits().into_iter()));
        };
        let mut paths = Vec::new();
        for pattern in patterns {
            let found = match self.root {
                Some(root) => root.glob_below(pattern)?,
                None => Path::glob(pattern)?,
            };
            if found.is_empty() {
                let pattern = self.root.map_or(pattern.clone(), |root| format!("{root}/{pattern}"));
                let help = "check the path and its wildcards".to_string();
                let (task, split) = (task.to_string(), split.to_string());
                return Err(DataError::NoFiles { task, split, pattern, help });
            }
            paths.extend(if pattern.ends_with("**") { files_of(found)? } else { found });
        }
        Ok(paths)
    }

    /// The same files with their common format.
    pub(crate) fn files(
        &self,
        task: &str,
        split: &str,
        format: &Format,
    ) -> Result<Vec<SourceFile>, DataError> {
        let paths = self.paths(task, split)?;
        Ok(paths.into_iter().map(|path| SourceFile::new(path, format.clone())).collect())
    }
}

/// Implements [`Source`] for a spec that has `split_to_filepattern`, the parameters of reading, and
/// `format` and `parser` methods.
macro_rules! pattern_source {
    ($spec:ty) => {
        impl $crate::source::contract::Source for $spec {
            fn splits(
                &self,
                _: &str,
            ) -> ::core::result::Result<Vec<String>, $crate::error::DataError> {
                Ok(self.split_to_filepattern.keys().cloned().collect())
            }

            fn written_splits(&self) -> Option<Vec<String>> {
                Some(self.split_to_filepattern.keys().cloned().collect())
            }

            fn split(
                &self,
                task: &str,
                split: &str,
            ) -> ::core::result::Result<$crate::source::split::SplitFiles, $crate::error::DataError>
            {
                let patterns = $crate::source::patterns::Patterns {
                    split_to_filepattern: &self.split_to_filepattern,
                    root: None,
                };
                let files = patterns.files(task, split, &self.format()?)?;
                Ok($crate::source::split::SplitFiles {
                    files,
                    most: None,
                    cycle_length: self.reading.cycle_length.max(1),
                    block_length: self.reading.block_length.max(1),
                    skip_header_lines: self.header_lines(),
                    parser: self.parser()?,
                    bad_records: self.reading.bad_records,
                })
            }

            fn num_input_examples(&self, split: &str) -> Option<u64> {
                $crate::source::contract::given_count(&self.reading.num_input_examples, split)
            }
        }
    };
}
pub(super) use pattern_source;
