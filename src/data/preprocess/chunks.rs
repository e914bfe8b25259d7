//! Joining documents and cutting them into pieces.

use super::{FlatMapStep, JoinStep, Place, Step, ids_of};
use crate::data::example::{Example, Key, Value};

/// Documents that are joined before being cut into examples.
const DOCUMENTS_PER_CONCAT: usize = 128;

/// Joins the 'targets' of 128 examples; zeros, which pad, vanish (t5's `reduce_concat_tokens`).
pub(super) fn concat_targets() -> Step {
    let step = Box::new(Concat { targets: "targets".into() });
    Step::Join { num_examples: DOCUMENTS_PER_CONCAT, step }
}

/// Cuts 'targets' into pieces of `max_tokens`, the last one shorter (t5's `split_tokens`).
pub(super) fn split_targets(max_tokens: usize, passthrough: &[String]) -> Step {
    let passthrough = passthrough.to_vec();
    Step::FlatMap(Box::new(Split { targets: "targets".into(), max_tokens, passthrough }))
}

struct Concat {
    targets: Key,
}

impl JoinStep for Concat {
    fn apply(&self, examples: Vec<Example>, _: Place<'_>) -> Result<Example, String> {
        let mut joined = Vec::new();
        for example in examples {
            joined.extend(ids_of(&example, &self.targets)?.iter().filter(|&&id| id != 0));
        }
        Ok(Example::of(self.targets.clone(), Value::Ints(joined)))
    }
}

struct Split {
    targets: Key,
    max_tokens: usize,
    passthrough: Vec<String>,
}

impl FlatMapStep for Split {
    fn apply(&self, mut example: Example, _: Place<'_>) -> Result<Vec<Example>, String> {
        let tokens = ids_of(&example, &self.targets)?.to_vec();
        example.retain(|key| self.passthrough.iter().any(|kept| kept == key));
        let piece = |piece: &[i32]| {
            let mut example = example.clone();
            example.set(self.targets.clone(), Value::Ints(piece.to_vec()));
            example
        };
        Ok(tokens.chunks(self.max_tokens).map(piece).collect())
    }
}
