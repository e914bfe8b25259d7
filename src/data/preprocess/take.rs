//! A part of a data set in place of the whole. Source: t5 `preprocessors.py` before 973e11f.

use super::{Context, Preprocess, Step};
use crate::error::DataError;
use gimlet_gin::Configurable;

/// Keeps the first examples, as they are after the preprocessors before it, and repeats these: data sets of a smaller size,
/// as in the T5 paper. They stay in memory. Source: t5 `preprocessors.py` before 973e11f.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "t5.data.preprocessors.take", open)]
pub struct Take {
    /// Number of examples; -1 keeps all and repeats nothing. A number above that of the data takes some of them again.
    #[gin(default = -1)]
    pub num_examples: i64,
}

impl Preprocess for Take {
    fn steps(&self, _: &Context<'_>) -> Result<Vec<Step>, DataError> {
        match self.num_examples {
            -1 => Ok(Vec::new()),
            count if count > 0 => {
                Ok(vec![Step::Take { num_examples: count as usize, num_passes: Some(1) }])
            }
            count => {
                let message =
                    format!("`take.num_examples` is -1 for all, or 1 or more, found {count}");
                Err(DataError::Config(message))
            }
        }
    }
}
