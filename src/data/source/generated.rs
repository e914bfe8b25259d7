//! The source of generated examples, for tests and measurements.

use super::contract::{Source, unknown_split};
use super::file::{Format, SourceFile};
use super::generator::{GeneratedDataSource, Generator};
use super::parse::RecordParser;
use super::split::SplitFiles;
use crate::error::DataError;
use gimlet_storage::Path;

impl Source for GeneratedDataSource {
    fn splits(&self, _: &str) -> Result<Vec<String>, DataError> {
        Ok(self.num_examples.keys().cloned().collect())
    }

    fn split(&self, task: &str, split: &str) -> Result<SplitFiles, DataError> {
        let Some(&num_examples) = self.num_examples.get(split) else {
            return Err(unknown_split(task, split, self.num_examples.keys().cloned()));
        };
        if self.max_length < self.min_length || self.vocab_size < 3 {
            return Err(DataError::Config(format!(
                "`GeneratedDataSource` of task `{task}` needs max_length ({}) of at least \
                 min_length ({}), and vocab_size ({}) of at least 3",
                self.max_length, self.min_length, self.vocab_size
            )));
        }
        let values = self.features.len() * (self.min_length + self.max_length) / 2;
        let bytes_per_example = 4 * values as u64;
        let format = Format::Generated { num_examples, bytes_per_example };
        let file = SourceFile::new(Path::parse(&format!("generated/{split}"))?, format);
        let generator = Generator::new(self.clone(), split);
        Ok(SplitFiles::new(vec![file], RecordParser::of_generator(generator)))
    }

    fn num_input_examples(&self, split: &str) -> Option<u64> {
        self.num_examples.get(split).copied()
    }
}
