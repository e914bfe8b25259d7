//! The replacement of noise tokens: the functions for `inputs_fn` and `targets_fn` of `denoise`.
//! Source: t5 `preprocessors.py`.
//!
//! `denoise` supplies tokens, mask and vocabulary; the parameters of a function are bound to the
//! function:
//!
//! ```text
//! preprocessors.denoise.inputs_fn = @preprocessors.noise_token_to_random_token_or_sentinel
//! preprocessors.noise_token_to_random_token_or_sentinel.random_prob = 0.1
//! ```

use super::mask::Mask;
use crate::error::DataError;
use crate::random::Draw;
use gimlet_gin::Configurable;

gimlet_gin::slot! {
    /// Any replacement of noise tokens, named without parentheses:
    /// `@preprocessors.noise_span_to_unique_sentinel`.
    pub enum NoiseFn: ReplaceNoise {
        DropNoiseTokens,
        DropNonnoiseTokens,
        NoiseSpanToSentinel,
        NoiseSpanToUniqueSentinel,
        NoiseTokenToGatheredToken,
        NoiseTokenToRandomToken,
        NoiseTokenToRandomTokenOrSentinel,
        NoiseTokenToSentinel,
        NonnoiseSpanToSentinel,
        NonnoiseSpanToUniqueSentinel,
        PermuteNoiseTokens,
    }
}

impl NoiseFn {
    /// The tokens after the replacement.
    pub(super) fn apply(&self, noisy: Noisy<'_>, draw: &mut Draw) -> Vec<i32> {
        self.spec().apply(noisy, draw)
    }

    /// Rejects parameters that do not fit a vocabulary of `num_ids` ids.
    pub(super) fn check(&self, num_ids: i32) -> Result<(), DataError> {
        self.spec().check(num_ids)
    }
}

/// Tokens, the mask of those that are noise, and the number of ids of their vocabulary.
#[derive(Clone, Copy, Debug)]
pub(super) struct Noisy<'a> {
    pub tokens: &'a [i32],
    pub mask: &'a Mask,
    pub num_ids: i32,
}

/// The operations of a replacement.
trait ReplaceNoise {
    /// The tokens after the replacement.
    fn apply(&self, noisy: Noisy<'_>, draw: &mut Draw) -> Vec<i32>;

    /// Rejects parameters that do not fit a vocabulary of `num_ids` ids.
    fn check(&self, _num_ids: i32) -> Result<(), DataError> {
        Ok(())
    }
}

/// The id that replaces noise; the last id of the vocabulary if not given. Source: t5
/// `preprocessors.py`.
#[derive(Clone, Debug, Default, PartialEq, Configurable)]
#[gin(name = "t5.data.preprocessors.sentinel_id", open)]
pub struct SentinelId {
    /// The id.
    #[gin(default = None)]
    pub return_value: Option<u32>,
}

/// Replaces every noise token by the sentinel. Source: t5 `preprocessors.py`.
#[derive(Clone, Debug, Default, PartialEq, Configurable)]
#[gin(name = "t5.data.preprocessors.noise_token_to_sentinel", open)]
pub struct NoiseTokenToSentinel {
    /// The sentinel.
    #[gin(method)]
    pub sentinel_id: SentinelId,
}

/// Replaces every run of noise tokens by one sentinel, always the same. Source: t5
/// `preprocessors.py`.
#[derive(Clone, Debug, Default, PartialEq, Configurable)]
#[gin(name = "t5.data.preprocessors.noise_span_to_sentinel", open)]
pub struct NoiseSpanToSentinel {
    /// The sentinel.
    #[gin(method)]
    pub sentinel_id: SentinelId,
}

/// Replaces every run of tokens that are not noise by one sentinel, always the same. Source: t5
/// `preprocessors.py`.
#[derive(Clone, Debug, Default, PartialEq, Configurable)]
#[gin(name = "t5.data.preprocessors.nonnoise_span_to_sentinel", open)]
pub struct NonnoiseSpanToSentinel {
    /// The function that replaces the other tokens.
    #[gin(method)]
    pub noise_span_to_sentinel: NoiseSpanToSentinel,
}

/// Replaces every run of noise tokens by a different sentinel: the first run by the last id, the
/// next run by the id below it. Source: t5 `preprocessors.py`.
#[derive(Clone, Debug, Default, PartialEq, Configurable)]
#[gin(
    name = "t5.data.preprocessors.noise_span_to_unique_sentinel",
    open,
    ignored(batch_size = "noise is replaced one example at a time")
)]
pub struct NoiseSpanToUniqueSentinel {
    /// The first sentinel.
    #[gin(method)]
    pub sentinel_id: SentinelId,
}

/// Replaces every run of tokens that are not noise by a different sentinel. Source: t5
/// `preprocessors.py`.
#[derive(Clone, Debug, Default, PartialEq, Configurable)]
#[gin(
    name = "t5.data.preprocessors.nonnoise_span_to_unique_sentinel",
    open,
    ignored(batch_size = "noise is replaced one example at a time")
)]
pub struct NonnoiseSpanToUniqueSentinel {
    /// The function that replaces the other tokens.
    #[gin(method)]
    pub noise_span_to_unique_sentinel: NoiseSpanToUniqueSentinel,
}

/// Removes noise tokens. Source: t5 `preprocessors.py`.
#[derive(Clone, Debug, Default, PartialEq, Configurable)]
#[gin(name = "t5.data.preprocessors.drop_noise_tokens", open)]
pub struct DropNoiseTokens {}

/// Removes all tokens that are not noise. Source: t5 `preprocessors.py`.
#[derive(Clone, Debug, Default, PartialEq, Configurable)]
#[gin(name = "t5.data.preprocessors.drop_nonnoise_tokens", open)]
pub struct DropNonnoiseTokens {}

/// Permutes the noise tokens. Source: t5 `preprocessors.py`.
#[derive(Clone, Debug, Default, PartialEq, Configurable)]
#[gin(name = "t5.data.preprocessors.permute_noise_tokens", open)]
pub struct PermuteNoiseTokens {}

/// Replaces every noise token by a random token of the same example. Source: t5 `preprocessors.py`.
#[derive(Clone, Debug, Default, PartialEq, Configurable)]
#[gin(name = "t5.data.preprocessors.noise_token_to_gathered_token", open)]
pub struct NoiseTokenToGatheredToken {}

/// Replaces every noise token by a random token of the vocabulary. Source: t5 `preprocessors.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "t5.data.preprocessors.noise_token_to_random_token", open)]
pub struct NoiseTokenToRandomToken {
    /// Number of the first ids, which are never drawn.
    #[gin(default = 3)]
    pub num_reserved_tokens: u32,
}

/// Replaces every noise token by a random token of the vocabulary, or by the sentinel. Source: t5
/// `preprocessors.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "t5.data.preprocessors.noise_token_to_random_token_or_sentinel", open)]
pub struct NoiseTokenToRandomTokenOrSentinel {
    /// Probability of a random token.
    #[gin(default = 0.1)]
    pub random_prob: f64,
    /// The function that draws random tokens.
    #[gin(method)]
    pub noise_token_to_random_token: NoiseTokenToRandomToken,
    /// The sentinel.
    #[gin(method)]
    pub noise_token_to_sentinel: NoiseTokenToSentinel,
}

impl Default for NoiseTokenToRandomToken {
    fn default() -> Self {
        Self { num_reserved_tokens: 3 }
    }
}

impl SentinelId {
    fn of(&self, num_ids: i32) -> i32 {
        let given = self.return_value.map(|id| i32::try_from(id).unwrap_or(i32::MAX));
        given.unwrap_or(num_ids - 1)
    }
}

/// The replacement of a run of masked tokens.
#[derive(Clone, Copy, Debug)]
enum Marker {
    /// The same id for all runs.
    Same(i32),
    /// This id for the first run, the id below it for the next run.
    Unique(i32),
    /// No token.
    None,
}

impl Marker {
    fn push(&mut self, out: &mut Vec<i32>) {
        match self {
            Self::Same(id) => out.push(*id),
            Self::Unique(id) => {
                out.push(*id);
                *id -= 1;
            }
            Self::None => {}
        }
    }
}

impl Noisy<'_> {
    /// The tokens, with a replacement for each run that is noise, or for each run that is not.
    fn with_runs_replaced(self, replaced: bool, mut marker: Marker) -> Vec<i32> {
        let per_run = usize::from(!matches!(marker, Marker::None));
        let lengths = self.mask.runs().map(|(length, is_noise)| match is_noise == replaced {
            true => per_run,
            false => length,
        });
        // EOS is appended later.
        let mut out = Vec::with_capacity(lengths.sum::<usize>() + 1);
        let mut start = 0;
        for (length, is_noise) in self.mask.runs() {
            if is_noise != replaced {
                out.extend_from_slice(&self.tokens[start..start + length]);
            } else {
                marker.push(&mut out);
            }
            start += length;
        }
        out
    }

    /// The tokens, with each noise token replaced.
    fn with_tokens_replaced(self, mut replacement: impl FnMut() -> i32) -> Vec<i32> {
        let mut out = self.tokens.to_vec();
        for (token, _) in out.iter_mut().zip(self.mask.tokens()).filter(|(_, is_noise)| *is_noise) {
            *token = replacement();
        }
        out
    }
}

impl ReplaceNoise for NoiseTokenToSentinel {
    fn apply(&self, noisy: Noisy<'_>, _: &mut Draw) -> Vec<i32> {
        let sentinel = self.sentinel_id.of(noisy.num_ids);
        noisy.with_tokens_replaced(|| sentinel)
    }
}

impl ReplaceNoise for NoiseSpanToSentinel {
    fn apply(&self, noisy: Noisy<'_>, _: &mut Draw) -> Vec<i32> {
        noisy.with_runs_replaced(true, Marker::Same(self.sentinel_id.of(noisy.num_ids)))
    }
}

impl ReplaceNoise for NonnoiseSpanToSentinel {
    fn apply(&self, noisy: Noisy<'_>, _: &mut Draw) -> Vec<i32> {
        let sentinel = self.noise_span_to_sentinel.sentinel_id.of(noisy.num_ids);
        noisy.with_runs_replaced(false, Marker::Same(sentinel))
    }
}

impl ReplaceNoise for NoiseSpanToUniqueSentinel {
    fn apply(&self, noisy: Noisy<'_>, _: &mut Draw) -> Vec<i32> {
        noisy.with_runs_replaced(true, Marker::Unique(self.sentinel_id.of(noisy.num_ids)))
    }
}

impl ReplaceNoise for NonnoiseSpanToUniqueSentinel {
    fn apply(&self, noisy: Noisy<'_>, _: &mut Draw) -> Vec<i32> {
        let sentinel = self.noise_span_to_unique_sentinel.sentinel_id.of(noisy.num_ids);
        noisy.with_runs_replaced(false, Marker::Unique(sentinel))
    }
}

impl ReplaceNoise for DropNoiseTokens {
    fn apply(&self, noisy: Noisy<'_>, _: &mut Draw) -> Vec<i32> {
        noisy.with_runs_replaced(true, Marker::None)
    }
}

impl ReplaceNoise for DropNonnoiseTokens {
    fn apply(&self, noisy: Noisy<'_>, _: &mut Draw) -> Vec<i32> {
        noisy.with_runs_replaced(false, Marker::None)
    }
}

impl ReplaceNoise for PermuteNoiseTokens {
    fn apply(&self, noisy: Noisy<'_>, draw: &mut Draw) -> Vec<i32> {
        let mut noise = noisy.with_runs_replaced(false, Marker::None);
        draw.shuffle(&mut noise);
        let mut permuted = noise.into_iter();
        noisy.with_tokens_replaced(|| permuted.next().expect("there is one for each noise token"))
    }
}

impl ReplaceNoise for NoiseTokenToGatheredToken {
    fn apply(&self, noisy: Noisy<'_>, draw: &mut Draw) -> Vec<i32> {
        noisy.with_tokens_replaced(|| noisy.tokens[draw.below(noisy.tokens.len())])
    }
}

impl NoiseTokenToRandomToken {
    fn token(&self, num_ids: i32, draw: &mut Draw) -> i32 {
        draw.between(self.num_reserved_tokens.into(), num_ids.into()) as i32
    }
}

impl ReplaceNoise for NoiseTokenToRandomToken {
    fn apply(&self, noisy: Noisy<'_>, draw: &mut Draw) -> Vec<i32> {
        noisy.with_tokens_replaced(|| self.token(noisy.num_ids, draw))
    }

    fn check(&self, num_ids: i32) -> Result<(), DataError> {
        if i64::from(self.num_reserved_tokens) < num_ids.into() {
            return Ok(());
        }
        Err(DataError::Config(format!(
            "`noise_token_to_random_token.num_reserved_tokens` is less than the vocabulary's {num_ids} \
             ids, found {}",
            self.num_reserved_tokens
        )))
    }
}

impl ReplaceNoise for NoiseTokenToRandomTokenOrSentinel {
    fn apply(&self, noisy: Noisy<'_>, draw: &mut Draw) -> Vec<i32> {
        let sentinel = self.noise_token_to_sentinel.sentinel_id.of(noisy.num_ids);
        noisy.with_tokens_replaced(|| match draw.unit() < self.random_prob {
            true => self.noise_token_to_random_token.token(noisy.num_ids, draw),
            false => sentinel,
        })
    }

    fn check(&self, num_ids: i32) -> Result<(), DataError> {
        self.noise_token_to_random_token.check(num_ids)
    }
}
