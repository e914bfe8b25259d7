//! `.recipe.json`: the values with which a cache was made. A cache of other values is neither taken for the one that a
//! command asks for nor read without a word.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::folder::CacheFolder;
use super::step::cache_step;
use super::write::CacheOptions;
use crate::error::DataError;
use crate::task::Task;

/// Characters of a value that a message shows.
const SHOWN: usize = 100;

/// The values that decide the content of a cache, by name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Recipe {
    /// The version of Gimlet: another one may describe the same values in other words.
    version: String,
    values: BTreeMap<String, String>,
}

impl Recipe {
    /// The values of a task alone.
    pub(super) fn of_task(task: &Task) -> Result<Self, DataError> {
        let cached = cache_step(task)?.map_or(0, |step| step.index);
        let source = [("source".to_string(), format!("{:?}", task.source))];
        let steps = task.preprocessors[..cached].iter().enumerate();
        let steps =
            steps.map(|(index, step)| (format!("preprocessors[{index}]"), format!("{step:?}")));
        let features = task.output_features.iter();
        let features = features
            .map(|(name, feature)| (format!("output_features['{name}']"), format!("{feature:?}")));
        let values = source.into_iter().chain(steps).chain(features).collect();
        Ok(Self { version: env!("CARGO_PKG_VERSION").to_string(), values })
    }

    /// The values of a task's cache.
    pub(super) fn new(task: &Task, options: &CacheOptions) -> Result<Self, DataError> {
        let mut recipe = Self::of_task(task)?;
        let CacheOptions { base_seed, enable_char_counts, .. } = options;
        recipe.values.insert("--base_seed".to_string(), base_seed.to_string());
        recipe.values.insert("--enable_char_counts".to_string(), enable_char_counts.to_string());
        Ok(recipe)
    }

    /// Writes the values beside the cache.
    pub(super) fn write(&self, cache: &CacheFolder) -> Result<(), DataError> {
        let json = serde_json::to_vec_pretty(self).expect("texts have a JSON form");
        Ok(cache.recipe().write_atomic(&json)?)
    }

    /// The values of a cache; `None` if SeqIO or another version made it.
    fn read(cache: &CacheFolder) -> Result<Option<Self>, DataError> {
        let text = match cache.recipe().read() {
            Err(error) if error.is_not_found() => return Ok(None),
            text => text?,
        };
        let found: Option<Self> = serde_json::from_slice(&text).ok();
        Ok(found.filter(|recipe| recipe.version == env!("CARGO_PKG_VERSION")))
    }

    /// Lines with the values of a complete cache that differ from these.
    pub(super) fn differences(&self, cache: &CacheFolder) -> Result<Vec<String>, DataError> {
        let Some(found) = Self::read(cache)? else { return Ok(Vec::new()) };
        let names = found.values.keys().chain(self.values.keys());
        let mut names: Vec<&String> = names.collect();
        names.sort_unstable();
        names.dedup();
        let differs = |name: &&String| {
            let [was, is] = [&found, self].map(|recipe| recipe.values.get(*name));
            (was != is).then(|| {
                let [was, is] = [was, is].map(|value| value.map_or("(nothing)", String::as_str));
                let [was, is] = cut(was, is);
                format!("\n  {name}: {was} -> {is}")
            })
        };
        // The reader of a cache does not know the flags with which it was written.
        let is_known = |name: &&String| !name.starts_with("--") || self.values.contains_key(*name);
        Ok(names.iter().copied().filter(is_known).filter_map(|name| differs(&name)).collect())
    }
}

impl CacheFolder {
    /// Refuses a complete cache that was made with other values than a task and options have.
    ///
    /// # Errors
    /// [`DataError::OtherCache`] with the values that differ.
    pub fn check_recipe(&self, task: &Task, options: &CacheOptions) -> Result<(), DataError> {
        let differences = Recipe::new(task, options)?.differences(self)?.concat();
        match differences.is_empty() {
            true => Ok(()),
            false => Err(DataError::OtherCache {
                task: task.task_name().to_string(),
                folder: self.path().to_string(),
                differences,
            }),
        }
    }

    /// Warns of a cache that was made with other values than the task has now.
    pub(crate) fn warn_of_other_values(&self, task: &Task) -> Result<(), DataError> {
        let differences = Recipe::of_task(task)?.differences(self)?.concat();
        if !differences.is_empty() {
            gimlet_telemetry::warn_once(&format!(
                "the cache `{}` was made with other values than `{}` has now, and is read as it is:{differences}\n\
                 make it again with `gimlet cache --overwrite`",
                self.path(),
                task.task_name()
            ));
        }
        Ok(())
    }
}

/// The parts of two values where they differ, with a few characters before.
fn cut(was: &str, is: &str) -> [String; 2] {
    let same = was.chars().zip(is.chars()).take_while(|(was, is)| was == is).count();
    let longest = was.chars().count().max(is.chars().count());
    let from = if longest <= SHOWN { 0 } else { same.saturating_sub(SHOWN / 4) };
    [was, is].map(|value| {
        let rest = value.chars().count().saturating_sub(from);
        let shown: String = value.chars().skip(from).take(SHOWN).collect();
        let [before, after] = [from > 0, rest > SHOWN].map(|cut| if cut { "..." } else { "" });
        format!("{before}{shown}{after}")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_values_are_shown_where_they_differ() {
        assert_eq!(cut("seed 1", "seed 2"), ["seed 1", "seed 2"]);
        let [was, is] =
            ["a", "b"].map(|middle| format!("{}{middle}{}", "x".repeat(200), "y".repeat(200)));
        let [was, is] = cut(&was, &is);
        assert!(was.starts_with("...xxxx") && was.contains("xa") && was.ends_with("..."), "{was}");
        assert!(is.contains("xb") && is.chars().count() == SHOWN + 6, "{is}");
    }
}
