//! The tokens that a step may choose for each row of a batch.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

use tch::{Device, Kind, Tensor};

use super::constraint::{Constraint, State};
use super::decode::Prompt;
use super::spec::DecodeError;

/// The greatest number of masks that are kept on the device.
const MAX_MASKS: usize = 256;

/// The tokens that may follow the sequences of a batch. Sequences are copied to the host in each step, which finds their states;
/// the masks of states stay on the device.
#[derive(Debug)]
pub struct AllowedTokens {
    constraint: Arc<Constraint>,
    /// The first and the last position of each row's answer.
    positions: Vec<(usize, usize)>,
    /// By state and room, whether each token is forbidden: bool `[vocab]`.
    masks: RefCell<HashMap<Option<(State, usize)>, Tensor>>,
}

impl AllowedTokens {
    /// Prepares a batch; none without a constraint. `last` is the last position of an answer after a prompt of so many
    /// tokens.
    ///
    /// # Errors
    /// There is no room for an answer.
    pub fn new(
        prompt: &Prompt,
        last: &dyn Fn(usize) -> usize,
    ) -> Result<Option<Self>, DecodeError> {
        let Some(constraint) = &prompt.constraint else { return Ok(None) };
        let prompts = prompt.inputs.ne(0).sum_dim_intlist(1, false, Kind::Int64);
        let prompts = Vec::<i64>::try_from(prompts.to_device(Device::Cpu)).expect("one axis");
        let positions = prompts.iter().flat_map(|&length| {
            let position = (length as usize + 1, last(length as usize));
            vec![position; prompt.num_decodes as usize]
        });
        let positions: Vec<(usize, usize)> = positions.collect();
        let room = positions.iter().map(|(first, last)| (last + 1).saturating_sub(*first)).min();
        let (room, needed) = (room.unwrap_or(0), constraint.shortest());
        if needed > room {
            return Err(DecodeError::NoRoom { needed, room });
        }
        let constraint = Arc::clone(constraint);
        Ok(Some(Self { constraint, positions, masks: RefCell::default() }))
    }

    /// Makes the other tokens impossible in `changed`, the logits `[rows, vocab]` of the token after `sequences`, int64
    /// `[rows, length]`, whose first position is none of a text. Where the changes have made every allowed token impossible,
    /// `logits` without changes count.
    pub fn of(&self, sequences: &Tensor, changed: &Tensor, logits: &Tensor) -> Tensor {
        let forbidden = self.forbidden(sequences, logits.size()[1]);
        let within = |logits: &Tensor| logits.masked_fill(&forbidden, f64::NEG_INFINITY);
        let changed = within(changed);
        let is_possible = changed.amax([-1], true).gt(f64::NEG_INFINITY);
        changed.where_self(&is_possible, &within(logits))
    }

    /// Makes the other tokens impossible in logits without changes.
    pub fn within(&self, sequences: &Tensor, logits: &Tensor) -> Tensor {
        let forbidden = self.forbidden(sequences, logits.size()[1]);
        logits.masked_fill(&forbidden, f64::NEG_INFINITY)
    }

    /// Whether a token may not follow a row: bool `[rows, vocab]`. No token follows an end.
    fn forbidden(&self, sequences: &Tensor, vocab: i64) -> Tensor {
        let (_, length) = sequences.size2().expect("sequences are [rows, length]");
        let (length, device) = (length as usize, sequences.device());
        let tokens = Vec::<i64>::try_from(sequences.to_device(Device::Cpu).reshape([-1]));
        let tokens = tokens.expect("one axis");
        let mut masks = self.masks.borrow_mut();
        let rows = tokens.chunks(length).zip(&self.positions).map(|(tokens, &(first, last))| {
            if length < first {
                // The prompt has the next token.
                return Tensor::zeros([vocab], (Kind::Bool, device));
            }
            let state = self.constraint.state(&tokens[first..]);
            let room = self.constraint.room((last + 1).saturating_sub(length));
            let key = state.map(|state| (state, room));
            if masks.len() == MAX_MASKS && !masks.contains_key(&key) {
                masks.clear();
            }
            let mask = masks.entry(key).or_insert_with(|| self.mask(key, vocab, device));
            mask.shallow_clone()
        });
        let rows: Vec<Tensor> = rows.collect();
        Tensor::stack(&rows, 0)
    }

    fn mask(&self, key: Option<(State, usize)>, vocab: i64, device: Device) -> Tensor {
        let none = Tensor::ones([vocab], (Kind::Bool, device));
        let Some((state, room)) = key else { return none };
        let ids = self.constraint.allowed(state, room);
        none.index_fill(0, &Tensor::from_slice(&ids).to_device(device), 0)
    }
}

#[cfg(test)]
mod tests {
    use super::super::constraint::{AnswerSet, Target};
    use super::super::decode::Chain;
    use super::super::spec::{BeamSearch, DecodeFn, TemperatureSample};
    use super::*;
    use crate::vocab::{ByteVocabulary, VocabularySpec};

    const EOS: i64 = 1;

    /// The answers, as bytes, of rows that continue prompts of 3, 1 and no tokens, and end within 9 positions.
    fn answers(pattern: &str, decode_fn: &DecodeFn) -> Result<Vec<String>, DecodeError> {
        let bytes = VocabularySpec::Byte(ByteVocabulary::of(0)).build().expect("it needs no file");
        let target = Target { vocabulary: &*bytes, ends: &[EOS] };
        let constraint = Constraint::new(&AnswerSet::Pattern(pattern.to_string()), &target);
        let prompts = [[0i64, 9, 8, 7, 0, 0, 0, 0, 0], [0, 9, 0, 0, 0, 0, 0, 0, 0], [0; 9]];
        let prompt = Prompt {
            constraint: Some(Arc::new(constraint.expect("it can be decoded"))),
            num_decodes: 2,
            ..Prompt::of_answers(Tensor::from_slice2(&prompts))
        };
        let decodes = decode_fn.decode(&prompt, &mut Chain::new(259))?;
        let answer = |(row, skipped): (i64, usize)| {
            let ids = Vec::<i64>::try_from(decodes.best().0.get(row)).expect("one axis");
            let ids: Vec<i32> = ids[skipped..].iter().map(|id| *id as i32).collect();
            assert!(ids.contains(&1), "{ids:?} has no end");
            bytes.decode(&ids)
        };
        Ok((0..).zip([3, 1, 0]).map(answer).collect())
    }

    #[test]
    fn every_row_is_an_answer_of_the_set_after_its_own_prompt() {
        let sampled = TemperatureSample { topk: 0, ..TemperatureSample::default() };
        let cut = TemperatureSample { topk: 3, temperature: 0.5, ..TemperatureSample::default() };
        for decode_fn in [
            DecodeFn::BeamSearch(BeamSearch::default()),
            DecodeFn::TemperatureSample(TemperatureSample { temperature: 0.0, ..sampled.clone() }),
            DecodeFn::TemperatureSample(sampled.clone()),
            DecodeFn::TemperatureSample(cut),
        ] {
            let found = answers("[a-z]{2,}[0-9]é?", &decode_fn).expect("there is room");
            for (text, room) in found.iter().zip([5, 7, 8]) {
                let letters =
                    text.trim_end_matches('é').trim_end_matches(|c: char| c.is_ascii_digit());
                assert!(letters.len() >= 2 && text.len() <= room, "{decode_fn:?}: {found:?}");
                assert!(letters.bytes().all(|byte| byte.is_ascii_lowercase()), "{found:?}");
            }
        }
        let long = answers("[a-z]{6}", &DecodeFn::default());
        assert_eq!(long, Err(DecodeError::NoRoom { needed: 7, room: 6 }));
    }
}
