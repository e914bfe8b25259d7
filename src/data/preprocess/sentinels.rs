//! Sentinels around the examples of small tasks, as in pretraining with span corruption.
//!
//! `inputs <extra_id_0>` -> `<extra_id_0> targets`. In SeqIO these are unnamed steps within
//! `add_task_with_sentinels` (`experimental.py`).

use super::{BuiltFeature, Context, Preprocess, Step, ids_of};
use crate::error::DataError;
use crate::value::Value;
use gimlet_gin::Configurable;

/// Appends sentinels to 'inputs' and puts the same sentinels before 'targets', beginning with the
/// vocabulary's first sentinel. Source: SeqIO `experimental.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "seqio.experimental.add_sentinels")]
pub struct AddSentinels {
    /// Number of sentinels.
    #[gin(default = 1)]
    pub num_sentinels: usize,
}

impl Preprocess for AddSentinels {
    fn steps(&self, cx: &Context<'_>) -> Result<Vec<Step>, DataError> {
        let (inputs, targets) = (cx.feature("inputs")?.clone(), cx.feature("targets")?.clone());
        let of_inputs = self.sentinels(&inputs)?;
        let of_targets = self.sentinels(&targets)?;
        Ok(vec![Step::map(move |mut example| {
            let longer = [ids_of(&example, "inputs")?, &of_inputs].concat();
            example.set(inputs.key.clone(), Value::Ints(longer));
            let longer = [&of_targets, ids_of(&example, "targets")?].concat();
            example.set(targets.key.clone(), Value::Ints(longer));
            Ok(example)
        })])
    }
}

impl AddSentinels {
    fn sentinels(&self, feature: &BuiltFeature) -> Result<Vec<i32>, DataError> {
        let first = feature.vocabulary.first_sentinel_id();
        let size = first as usize + 1;
        if self.num_sentinels > size {
            return Err(DataError::Config(format!(
                "`add_sentinels.num_sentinels` is {}, more than the {size} ids of '{}'",
                self.num_sentinels, feature.key
            )));
        }
        Ok((0..=first).rev().take(self.num_sentinels).collect())
    }
}

/// As `append_eos_after_trim`, but trimming keeps the last tokens and removes the tokens before
/// them. Source: SeqIO `experimental.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "seqio.experimental.append_eos_after_trim_and_preserve")]
pub struct AppendEosAfterTrimAndPreserve {
    /// Number of the last tokens that are kept.
    #[gin(default = 1)]
    pub preserve_final_n_tokens_when_trimming: usize,
}

impl Preprocess for AppendEosAfterTrimAndPreserve {
    fn steps(&self, cx: &Context<'_>) -> Result<Vec<Step>, DataError> {
        let mut ends = Vec::new();
        for feature in cx.features.values().filter(|feature| feature.add_eos) {
            let length = cx.lengths.and_then(|lengths| lengths.get(&*feature.key)).copied();
            let eos = feature.eos_id().map_err(DataError::Config)?;
            ends.push((feature.key.clone(), length, eos));
        }
        let preserved = self.preserve_final_n_tokens_when_trimming;
        Ok(vec![Step::map(move |mut example| {
            for (key, length, eos) in &ends {
                if example.get(key).is_none() {
                    continue;
                }
                let found = ids_of(&example, key)?;
                let ids = trimmed(found, *length, preserved, *eos);
                if ids.len() <= found.len() {
                    example.mark_cut(key);
                }
                example.set(key.clone(), Value::Ints(ids));
            }
            Ok(example)
        })])
    }

    fn needs_lengths(&self) -> bool {
        true
    }
}

/// The ids and EOS, at most `length` in all, including the last `preserved` ids.
fn trimmed(ids: &[i32], length: Option<usize>, preserved: usize, eos: i32) -> Vec<i32> {
    let kept = length.map_or(ids.len(), |length| ids.len().min(length.saturating_sub(1)));
    let preserved = preserved.min(kept);
    [&ids[..kept - preserved], &ids[ids.len() - preserved..], &[eos]].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compares the result with that of SeqIO 0.0.20.
    #[test]
    fn the_last_tokens_survive_trimming() {
        let check = |length, expected: &[i32]| {
            assert_eq!(trimmed(&[5, 6, 7, 99], length, 1, 1), expected);
        };
        check(None, &[5, 6, 7, 99, 1]);
        check(Some(9), &[5, 6, 7, 99, 1]);
        check(Some(4), &[5, 6, 99, 1]);
        check(Some(2), &[99, 1]);
    }
}
