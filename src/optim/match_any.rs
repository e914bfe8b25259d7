//! The choice of parameters of prompt-tuning's gin files, which takes regular expressions as `filter_fn` does here.

use crate::gin::{Configurable, Function, Value, ValueKind};

/// The choice of parameters whose whole path one of the regular expressions matches. Source: prompt-tuning `train/utils.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "prompt_tuning.train.utils.match_any")]
pub struct MatchAny {
    /// The regular expressions: `.*/prompt/.*` matches `/encoder/prompt/prompt/prompt`.
    pub regexes: Vec<String>,
}

impl Function for MatchAny {
    fn call(self) -> Result<ValueKind, String> {
        let text = |regex| Value::unplaced(ValueKind::Str(regex));
        Ok(ValueKind::List(self.regexes.into_iter().map(text).collect()))
    }
}
