//! Options of files of rows: the features to keep, and a check that all files have the same ones.

use std::sync::OnceLock;

use crate::value::Key;

/// The kind of a column without values.
pub(super) const NULL: &str = "null";

/// Options for reading columnar files, and the features of the first file.
#[derive(Debug)]
pub(crate) struct RowOptions {
    /// Features to keep; all if None.
    pub columns: Option<Vec<String>>,
    first: OnceLock<(String, Vec<(Key, &'static str)>)>,
}

impl RowOptions {
    /// Options of one split; all its files share them.
    pub(crate) fn new(columns: Option<&[String]>) -> Self {
        Self { columns: columns.map(<[String]>::to_vec), first: OnceLock::new() }
    }

    /// Whether the feature of that name is requested, or one below or above it.
    pub(super) fn wants(&self, name: &str) -> bool {
        let fits = |column: &String| is_within(column, name) || is_within(name, column);
        self.columns.as_ref().is_none_or(|columns| columns.iter().any(fits))
    }

    /// Checks that a file has the features, with their kinds, of the first one that was read.
    pub(super) fn check(&self, file: &str, found: &[(Key, &'static str)]) -> Result<(), String> {
        if let Some(columns) = &self.columns
            && let Some(lacking) =
                columns.iter().find(|name| !found.iter().any(|(n, _)| is_within(n, name)))
        {
            let names: Vec<String> = found.iter().map(|(name, _)| format!("'{name}'")).collect();
            return Err(format!(
                "it has no column '{lacking}' that can become a feature, and `columns` names it; of the \
                 named columns it has {}",
                if names.is_empty() { "none".to_string() } else { names.join(", ") }
            ));
        }
        let (first, expected) = self.first.get_or_init(|| (file.to_string(), found.to_vec()));
        let kind_in = |kinds: &[(Key, &'static str)], name: &Key| {
            kinds.iter().find(|(known, _)| known == name).map_or("absent", |(_, kind)| *kind)
        };
        for (name, _) in expected.iter().chain(found) {
            let (there, here) = (kind_in(expected, name), kind_in(found, name));
            if there != here && there != NULL && here != NULL {
                return Err(format!(
                    "column '{name}' is {here} here and {there} in `{first}`; the files of a \
                     split share one schema: give each kind of file a source of its own, or keep \
                     what they share with `columns`"
                ));
            }
        }
        Ok(())
    }
}

/// Whether a feature is `whole`, or a part of it, such as `answers/text` of `answers`.
fn is_within(name: &str, whole: &str) -> bool {
    name.strip_prefix(whole).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}
