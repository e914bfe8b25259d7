//! Changes to the logits of a step, in transformers' order: its logits processors.

use tch::{Device, Kind, Tensor};

use super::spec::Generate;
use crate::models::decoding::allowed_tokens::AllowedTokens;
use crate::models::decoding::decode::Prompt;
use crate::models::decoding::spec::DecodeError;

/// The changes to every step's logits.
#[derive(Debug)]
pub struct Filters {
    filters: Vec<Filter>,
    /// The tokens of a set of answers, which win over the filters.
    allowed: Option<AllowedTokens>,
    /// Whether the changed logits are normalized again.
    normalizes: bool,
    bos_id: i64,
}

/// A change to logits, with the ids that it needs on the device.
#[derive(Debug)]
enum Filter {
    /// Adds a number to the logit of a token, int64 `[1]`, after the tokens before it, int64 `[length]`.
    Bias { before: Tensor, last: Tensor, bias: f64 },
    /// Makes tokens of the inputs, int64 `[rows, length]`, more probable.
    InputsPenalty { inputs: Tensor, penalty: f64 },
    /// Makes tokens of the sequence less probable.
    Penalty(f64),
    /// Forbids to complete what the sequence has: that many tokens.
    NoRepeat(i64),
    /// Forbids to complete what the inputs have: int64 `[rows, windows, tokens]`.
    NoCopy(Tensor),
    /// Forbids ids in these steps.
    Forbid { ids: Tensor, steps: Steps },
    /// Allows only ids in this step.
    Force { ids: Tensor, step: i64 },
    /// Replaces what is not finite.
    Finite,
    /// Raises the ends after a number of tokens by a growing factor.
    Decay { ends: Tensor, start: i64, factor: f64 },
}

/// The steps in which a filter acts; 0 is the first.
#[derive(Clone, Copy, Debug)]
enum Steps {
    All,
    Before(i64),
    At(i64),
}

impl Steps {
    fn hold(self, step: i64) -> bool {
        match self {
            Self::All => true,
            Self::Before(end) => step < end,
            Self::At(only) => step == only,
        }
    }
}

impl Filters {
    /// Prepares the changes for a batch, whose sequences end in one of `ends`.
    ///
    /// # Errors
    /// There is no room for an answer of the prompt's set.
    pub fn new(spec: &Generate, prompt: &Prompt, ends: &[i64]) -> Result<Self, DecodeError> {
        let device = prompt.inputs.device();
        let ids = |ids: &[i64]| Tensor::from_slice(ids).to_device(device);
        let forbid = |list: &[i64], steps| {
            (!list.is_empty()).then(|| Filter::Forbid { ids: ids(list), steps })
        };
        let force =
            |list: &[i64], step| (!list.is_empty()).then(|| Filter::Force { ids: ids(list), step });
        let penalty = |penalty: f64| (penalty != 1.0).then_some(penalty);
        let inputs = prompt
            .encoder_inputs
            .as_ref()
            .map(|inputs| inputs.repeat_interleave_self_int(prompt.num_decodes, 0, None));
        let bad_words =
            spec.bad_words_ids.iter().filter(|word| !ends.iter().any(|end| word[..] == [*end]));
        let (first, last) = (spec.forced_bos_token_id, prompt.inputs.size()[1] - prompt.start - 1);
        let mut filters: Vec<Filter> = Vec::new();
        filters.extend(
            spec.sequence_bias.iter().filter_map(|(word, bias)| Filter::bias(word, *bias, device)),
        );
        filters.extend(inputs.iter().zip(penalty(spec.encoder_repetition_penalty)).map(
            |(inputs, penalty)| Filter::InputsPenalty {
                inputs: inputs.shallow_clone(),
                penalty: 1.0 / penalty,
            },
        ));
        filters.extend(penalty(spec.repetition_penalty).map(Filter::Penalty));
        filters.extend(
            (spec.no_repeat_ngram_size > 0)
                .then_some(Filter::NoRepeat(spec.no_repeat_ngram_size as i64)),
        );
        let size = spec.encoder_no_repeat_ngram_size as i64;
        let copied = inputs.filter(|inputs| size > 0 && inputs.size()[1] >= size);
        filters.extend(copied.map(|inputs| Filter::no_copy(&inputs, size)));
        filters.extend(bad_words.filter_map(|word| Filter::bias(word, f64::NEG_INFINITY, device)));
        let min_new_tokens = spec.min_new_tokens as i64;
        filters.extend(forbid(ends, Steps::Before(min_new_tokens)).filter(|_| min_new_tokens > 0));
        filters.extend(first.and_then(|first| force(&[first], 0)));
        filters.extend(force(&spec.forced_eos_token_id, last));
        filters.extend(spec.remove_invalid_values.then_some(Filter::Finite));
        filters.extend(
            spec.exponential_decay_length_penalty.map(|(start, factor)| Filter::Decay {
                ends: ids(ends),
                start: start as i64,
                factor,
            }),
        );
        filters.extend(forbid(&spec.suppress_tokens, Steps::All));
        // A forced token is not suppressed: the beginning is after it.
        filters.extend(forbid(&spec.begin_suppress_tokens, Steps::At(i64::from(first.is_some()))));
        let positions = prompt.inputs.size()[1] as usize;
        let allowed = AllowedTokens::new(prompt, &|_| positions)?;
        let normalizes = spec.renormalize_logits;
        Ok(Self { filters, allowed, normalizes, bos_id: prompt.bos_id })
    }

    /// Only the limits of the prompt's set of answers, if it has one. `last` is the last position of an answer after a prompt
    /// of so many tokens.
    ///
    /// # Errors
    /// There is no room for an answer.
    pub fn of_set(prompt: &Prompt, last: &dyn Fn(usize) -> usize) -> Result<Self, DecodeError> {
        let allowed = AllowedTokens::new(prompt, last)?;
        Ok(Self { filters: Vec::new(), allowed, normalizes: false, bos_id: prompt.bos_id })
    }

    /// Whether nothing is changed.
    pub fn is_empty(&self) -> bool {
        self.filters.is_empty() && self.allowed.is_none() && !self.normalizes
    }

    /// Changes the logits, float32 `[rows, vocab]`, of the token after `sequences`, int64 `[rows, length]`, which begin
    /// with 0.
    pub fn apply(&self, sequences: &Tensor, logits: &Tensor) -> Tensor {
        let changed = match (&self.allowed, self.filters.is_empty()) {
            (Some(allowed), true) => allowed.within(sequences, logits),
            (Some(allowed), false) => {
                allowed.of(sequences, &self.filtered(sequences, logits), logits)
            }
            (None, _) => self.filtered(sequences, logits),
        };
        if !self.normalizes {
            return changed;
        }
        // Nothing follows a sequence that has ended: its logits stay impossible.
        let is_possible = changed.gt(f64::NEG_INFINITY);
        changed.log_softmax(-1, Kind::Float).where_self(&is_possible, &changed)
    }

    fn filtered(&self, sequences: &Tensor, logits: &Tensor) -> Tensor {
        let first = sequences.narrow(1, 0, 1).full_like(self.bos_id);
        let rest = sequences.narrow(1, 1, sequences.size()[1] - 1);
        let sequences = Tensor::cat(&[first, rest], 1);
        let apply = |logits, filter: &Filter| filter.apply(&sequences, logits);
        self.filters.iter().fold(logits.shallow_clone(), apply)
    }
}

impl Filter {
    fn bias(word: &[i64], bias: f64, device: Device) -> Option<Self> {
        let (last, before) = word.split_last()?;
        let ids = |ids: &[i64]| Tensor::from_slice(ids).to_device(device);
        Some(Self::Bias { before: ids(before), last: ids(&[*last]), bias })
    }

    fn no_copy(inputs: &Tensor, size: i64) -> Self {
        let windows = inputs.unfold(1, size, 1);
        // Windows with padding complete nothing: no id is so large.
        Self::NoCopy(windows.where_scalarother(&windows.ne(0).all_dim(-1, true), i64::MAX))
    }

    fn apply(&self, sequences: &Tensor, logits: Tensor) -> Tensor {
        let (length, vocab) = (sequences.size()[1], logits.size()[1]);
        let step = length - 1;
        match self {
            Self::Bias { before, last, bias } => {
                let count = before.size()[0];
                if count > length {
                    return logits;
                }
                let here =
                    sequences.narrow(1, length - count, count).eq_tensor(before).all_dim(-1, true);
                let old = logits.index_select(1, last);
                logits.index_copy(1, last, &(&old + *bias).where_self(&here, &old))
            }
            Self::InputsPenalty { inputs, penalty } => {
                penalized(&logits, *penalty, &marked(inputs, &inputs.ne(0), vocab))
            }
            Self::Penalty(penalty) => {
                penalized(&logits, *penalty, &marked(sequences, &sequences.ge(0), vocab))
            }
            Self::NoRepeat(size) if length >= *size => {
                without_completions(&logits, sequences, &sequences.unfold(1, *size, 1))
            }
            Self::NoCopy(windows) if length + 1 >= windows.size()[2] => {
                without_completions(&logits, sequences, windows)
            }
            Self::Forbid { ids, steps } if steps.hold(step) => {
                logits.index_fill(1, ids, f64::NEG_INFINITY)
            }
            Self::Force { ids, step: forced } if step == *forced => {
                logits.full_like(f64::NEG_INFINITY).index_fill(1, ids, 0.0)
            }
            Self::Finite => logits.nan_to_num(0.0, None, None),
            Self::Decay { ends, start, factor } if step > *start => {
                let old = logits.index_select(1, ends);
                let growth = factor.powi((step - start) as i32) - 1.0;
                let more = (old.abs() * growth).nan_to_num(0.0, 0.0, 0.0);
                logits.index_copy(1, ends, &(old + more))
            }
            Self::NoRepeat(_)
            | Self::NoCopy(_)
            | Self::Forbid { .. }
            | Self::Force { .. }
            | Self::Decay { .. } => logits,
        }
    }
}

/// Marks the ids that are `real` in their row: bool `[rows, vocab]`.
fn marked(ids: &Tensor, real: &Tensor, vocab: i64) -> Tensor {
    // The others go to one more column, where they mark nothing.
    let ids = ids.where_scalarother(real, vocab).clamp_max(vocab);
    let marks = Tensor::zeros([ids.size()[0], vocab + 1], (Kind::Bool, ids.device()));
    marks.scatter_value(1, &ids, 1).narrow(1, 0, vocab)
}

/// Multiplies the marked logits by the penalty if they are negative, and divides them by it if not.
fn penalized(logits: &Tensor, penalty: f64, marks: &Tensor) -> Tensor {
    let less = (logits * penalty).where_self(&logits.lt(0.0), &(logits / penalty));
    less.where_self(marks, logits)
}

/// Forbids the last token of each window, int64 `[rows, windows, tokens]`, whose others end the sequence.
fn without_completions(logits: &Tensor, sequences: &Tensor, windows: &Tensor) -> Tensor {
    let (length, before) = (sequences.size()[1], windows.size()[2] - 1);
    let suffix = sequences.narrow(1, length - before, before).unsqueeze(1);
    let here = windows.narrow(2, 0, before).eq_tensor(&suffix).all_dim(-1, false);
    let completions = windows.select(2, before);
    let marks = marked(&completions, &here, logits.size()[1]);
    logits.masked_fill(&marks, f64::NEG_INFINITY)
}
