//! Several sources, one after the other.

use super::contract::{Source, unknown_split};
use super::few_shot::OriginalSource;
use super::split::SplitFiles;
use crate::error::DataError;
use gimlet_gin::Configurable;

/// The examples of several sources with the same features: all examples of the first source's
/// split, then those of the next source that has the split. Gimlet's own, for the functions of
/// Python tasks that concatenate data sets.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "seqio.ConcatenatedDataSource")]
pub struct ConcatenatedDataSource {
    /// The sources, in their order.
    pub sources: Vec<OriginalSource>,
}

impl Source for ConcatenatedDataSource {
    fn splits(&self, task: &str) -> Result<Vec<String>, DataError> {
        let mut all: Vec<String> = Vec::new();
        for source in &self.sources {
            let new = source.0.splits(task)?.into_iter().filter(|split| !all.contains(split));
            all.extend(new.collect::<Vec<_>>());
        }
        Ok(all)
    }

    fn split(&self, task: &str, split: &str) -> Result<SplitFiles, DataError> {
        let mut joined: Option<SplitFiles> = None;
        for source in &self.sources {
            // If a source has the split but refers to a wrong one within it, that is an error.
            if !source.0.splits(task)?.iter().any(|known| known == split) {
                continue;
            }
            let files = source.0.split(task, split)?;
            let differs = |reason: &str| {
                DataError::Config(format!(
                    "task `{task}`: the sources of a `seqio.ConcatenatedDataSource` {reason}; give \
                     them tasks of their own, and mix those"
                ))
            };
            if source.0.few_shot().is_some() || files.most.is_some() {
                return Err(differs("are joined with others or truncated"));
            }
            match &mut joined {
                None => joined = Some(SplitFiles { cycle_length: 1, ..files }),
                Some(joined) if joined.parser != files.parser => {
                    return Err(differs("hold different features"));
                }
                Some(joined)
                    if joined.skip_header_lines != files.skip_header_lines
                        || joined.bad_records != files.bad_records =>
                {
                    return Err(differs("skip other header lines or bad records"));
                }
                Some(joined) => joined.files.extend(files.files),
            }
        }
        match joined {
            Some(files) => Ok(files),
            None => Err(unknown_split(task, split, self.splits(task)?.into_iter())),
        }
    }

    fn num_input_examples(&self, split: &str) -> Option<u64> {
        let has_split = |source: &&OriginalSource| {
            source.0.splits("").is_ok_and(|splits| splits.iter().any(|known| known == split))
        };
        let sources = self.sources.iter().filter(has_split);
        sources.map(|source| source.0.num_input_examples(split)).sum()
    }
}
