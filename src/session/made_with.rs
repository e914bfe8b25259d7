//! The values with which results were made, kept beside them as JSON: results of another checkpoint or of other values
//! are not taken for those that a command asks for.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::gin::{differences, is_within};

use super::error::SessionError;

/// Differences that a message names.
const LISTED: usize = 8;

/// The values of a configuration, by their paths from the root.
pub type Values = BTreeMap<String, String>;

/// The values that decide the content of results.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct MadeWith(Values);

impl MadeWith {
    /// Returns the values of a configuration, but for those below `without`, which do not change the results.
    pub fn new(values: &Values, without: &[&str]) -> Self {
        let counts = |path: &str| !without.iter().any(|other| is_within(path, other));
        let counted = values.iter().filter(|(path, _)| counts(path));
        Self(counted.map(|(path, value)| (path.clone(), value.clone())).collect())
    }

    /// Adds a value that the configuration alone does not show, such as the checkpoint that was found.
    pub fn with(mut self, name: &str, value: impl ToString) -> Self {
        self.0.insert(name.to_string(), value.to_string());
        self
    }

    /// Returns the values that a file holds; `None` for a file of an earlier version or of another program.
    pub fn parse(text: &[u8]) -> Option<Self> {
        serde_json::from_slice(text).ok()
    }

    /// Returns the content of the file.
    pub fn to_json(&self) -> Vec<u8> {
        serde_json::to_vec_pretty(self).expect("texts have a JSON form")
    }

    /// Refuses results that were made with other values than `now`: `what` names them, and `remedy` says how to
    /// keep or replace them.
    ///
    /// # Errors
    /// The values differ.
    pub fn check(&self, now: &Self, what: &str, remedy: &str) -> Result<(), SessionError> {
        let found = differences(&[&self.0, &now.0]);
        let found: Vec<String> = found.iter().map(ToString::to_string).collect();
        match found.is_empty() {
            true => Ok(()),
            false => Err(SessionError::Unfit(format!(
                "{what} other values than this command has:{}\n{remedy}",
                listed(&found)
            ))),
        }
    }
}

/// Returns the first of some lines, each on a line of its own.
pub fn listed(lines: &[String]) -> String {
    let shown: String = lines.iter().take(LISTED).map(|line| format!("\n  {line}")).collect();
    match lines.len().saturating_sub(LISTED) {
        0 => shown,
        more => format!("{shown}\n  and {more} more"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_that_change_results_are_compared_and_named() {
        let made = |entries: &[(&str, &str)], checkpoint: &str| {
            let of = |(path, value): &(&str, &str)| (path.to_string(), value.to_string());
            let values = entries.iter().map(of).collect();
            MadeWith::new(&values, &["infer.output_dir"]).with("checkpoint", checkpoint)
        };
        let first = made(&[("infer.output_dir", "'x'"), ("infer.split", "'train'")], "a");
        let first = MadeWith::parse(&first.to_json()).expect("it is read back");
        let check = |now: &MadeWith| first.check(now, "x holds results of", "set y");
        assert!(
            check(&made(&[("infer.output_dir", "'z'"), ("infer.split", "'train'")], "a")).is_ok()
        );
        let refused = check(&made(&[("infer.split", "'test'"), ("infer.seed", "1")], "b"));
        assert_eq!(
            refused.expect_err("they differ").to_string(),
            "x holds results of other values than this command has:\n  checkpoint: a -> b\n  \
             infer.seed: (nothing) -> 1\n  infer.split: 'train' -> 'test'\nset y"
        );
        assert_eq!(MadeWith::parse(b""), None);
    }
}
