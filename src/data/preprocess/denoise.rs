//! Noise masks over tokens, and what masked tokens become. Source: t5 `preprocessors.py`.
//!
//! The algorithms are t5's; the random values are ours, a function of seed and place.

use super::{Context, MapStep, Place, ids_of};
use crate::data::error::DataError;
use crate::data::example::{Example, Key, Value};
use crate::data::random::Draw;

/// Tokens kept of one document, chosen at random among its chunks of this size.
pub(super) const MAX_DOCUMENT_TOKENS: usize = 65536;

/// Which tokens are noise.
#[derive(Clone, Debug)]
pub(super) enum NoiseMask {
    /// Spans of random lengths with this mean.
    RandomSpans { mean_noise_span_length: f64 },
    /// Each token by itself.
    Iid,
    /// A prefix of random length.
    RandomPrefix,
}

impl NoiseMask {
    /// The mask of a sequence: true is noise.
    pub(super) fn draw(&self, length: usize, density: f64, draw: &mut Draw) -> Vec<bool> {
        match *self {
            Self::RandomSpans { mean_noise_span_length } => {
                random_spans(length, density, mean_noise_span_length, draw)
            }
            Self::Iid => (0..length).map(|_| draw.unit() < density).collect(),
            Self::RandomPrefix => random_prefix(length, density, draw),
        }
    }
}

/// Alternating spans, the first not noise; given the counts, all masks are equally likely.
fn random_spans(length: usize, density: f64, mean_span: f64, draw: &mut Draw) -> Vec<bool> {
    if density == 0.0 {
        return vec![false; length];
    }
    let padded = length.max(2);
    // As TensorFlow computes it: in 32 bits, halves to even.
    let num_noise = (padded as f32 * density as f32).round_ties_even() as usize;
    let num_noise = num_noise.clamp(1, padded - 1);
    let num_spans = (num_noise as f32 / mean_span as f32).round_ties_even() as usize;
    // t5 fails where there are fewer tokens than spans; no mask has empty spans.
    let num_spans = num_spans.max(1).min(num_noise).min(padded - num_noise);
    let noise = random_segmentation(num_noise, num_spans, draw);
    let kept = random_segmentation(padded - num_noise, num_spans, draw);
    let mut mask = Vec::with_capacity(padded);
    for (kept, noise) in kept.into_iter().zip(noise) {
        mask.resize(mask.len() + kept, false);
        mask.resize(mask.len() + noise, true);
    }
    mask.truncate(length);
    mask
}

/// Lengths of `num_segments` non-empty segments of `num_items` items.
fn random_segmentation(num_items: usize, num_segments: usize, draw: &mut Draw) -> Vec<usize> {
    // Segments begin at item 0 and at `num_segments - 1` of the others, each set equally likely
    // (Floyd's sampling). Where most others begin one, those that do not are drawn instead.
    let (others, begins) = (num_items - 1, num_segments - 1);
    let drawn_begin = begins * 2 <= others;
    let num_drawn = if drawn_begin { begins } else { others - begins };
    let mut drawn = vec![false; others];
    for last in others - num_drawn..others {
        let item = draw.below(last + 1);
        let item = if drawn[item] { last } else { item };
        drawn[item] = true;
    }
    let mut lengths = Vec::with_capacity(num_segments);
    let mut length = 1;
    for is_drawn in drawn {
        if is_drawn == drawn_begin {
            lengths.push(length);
            length = 0;
        }
        length += 1;
    }
    lengths.push(length);
    lengths
}

/// A prefix whose length is uniform between that of `1 - 2 * density` and all but one token.
fn random_prefix(length: usize, density: f64, draw: &mut Draw) -> Vec<bool> {
    let most = length.saturating_sub(1);
    let fewest = ((1.0 - 2.0 * density) as f32 * most as f32).round_ties_even() as usize;
    let fewest = fewest.max(1).min(most);
    let prefix = fewest + draw.below(most - fewest + 1);
    (0..length).map(|i| i < prefix).collect()
}

/// What tokens under a mask become.
#[derive(Clone, Copy, Debug)]
pub(super) enum Replace {
    /// Each run of them becomes the next lower sentinel.
    WithUniqueSentinels,
    /// They vanish.
    WithNothing,
}

impl Replace {
    /// The tokens, with those where `mask` is `masked` replaced; `sentinel` is the first one.
    fn apply(self, tokens: &[i32], mask: &[bool], masked: bool, sentinel: i32) -> Vec<i32> {
        let mut out = Vec::with_capacity(tokens.len());
        let mut sentinel = sentinel;
        let mut in_run = false;
        for (&token, &is_noise) in tokens.iter().zip(mask) {
            if is_noise != masked {
                out.push(token);
                in_run = false;
            } else {
                if !in_run && matches!(self, Self::WithUniqueSentinels) {
                    out.push(sentinel);
                    sentinel -= 1;
                }
                in_run = true;
            }
        }
        out
    }
}

/// Makes corrupted inputs and the targets that restore them (t5's `denoise`).
#[derive(Clone)]
pub(super) struct Denoise {
    pub density: f64,
    pub mask: NoiseMask,
    /// What the inputs show where `inputs_masked` tokens were.
    pub replace: Replace,
    /// Whether the noise is hidden from the inputs and asked for in the targets, or the reverse.
    pub inputs_hide_noise: bool,
    pub inputs: Key,
    pub targets: Key,
    /// The first sentinel: the last id of the vocabulary.
    pub sentinel: i32,
    pub passthrough: Vec<String>,
}

impl Denoise {
    /// A step for the task's 'targets', which must share their vocabulary with the inputs.
    pub(super) fn new(
        cx: &Context<'_>,
        inputs: &str,
        density: f64,
        mask: NoiseMask,
    ) -> Result<Self, DataError> {
        let targets = cx.feature("targets")?;
        if let Some(feature) = cx.features.get(inputs)
            && feature.vocabulary_spec != targets.vocabulary_spec
        {
            return Err(DataError::Config(format!(
                "corrupted inputs are made of targets, and '{inputs}' uses {} where 'targets' uses \
                 {}; give both the same vocabulary",
                feature.vocabulary.name(),
                targets.vocabulary.name()
            )));
        }
        let sentinel = i32::try_from(targets.vocabulary.vocab_size()).unwrap_or(i32::MAX) - 1;
        Ok(Self {
            density,
            mask,
            replace: Replace::WithUniqueSentinels,
            inputs_hide_noise: true,
            inputs: inputs.into(),
            targets: "targets".into(),
            sentinel,
            passthrough: Vec::new(),
        })
    }
}

impl MapStep for Denoise {
    fn apply(&self, mut example: Example, place: Place<'_>) -> Result<Option<Example>, String> {
        let tokens = ids_of(&example, "targets")?;
        let mask = self.mask.draw(tokens.len(), self.density, &mut place.draw());
        let hide = self.inputs_hide_noise;
        let inputs = self.replace.apply(tokens, &mask, hide, self.sentinel);
        let targets = self.replace.apply(tokens, &mask, !hide, self.sentinel);
        example.retain(|key| self.passthrough.iter().any(|kept| kept == key));
        example.set(self.inputs.clone(), Value::Ints(inputs));
        example.set(self.targets.clone(), Value::Ints(targets));
        Ok(Some(example))
    }
}

/// Keeps 'targets' only: all of a document, or one chunk of a long one (t5's
/// `select_random_chunk`, and the filter of empty documents before it).
pub(super) struct RandomChunk {
    pub max_tokens: usize,
    pub passthrough: Vec<String>,
}

impl MapStep for RandomChunk {
    fn apply(&self, mut example: Example, place: Place<'_>) -> Result<Option<Example>, String> {
        let num_tokens = ids_of(&example, "targets")?.len();
        if num_tokens == 0 {
            return Ok(None);
        }
        example.retain(|key| key == "targets" || self.passthrough.iter().any(|kept| kept == key));
        if num_tokens > self.max_tokens {
            let start = self.max_tokens * place.draw().below(num_tokens.div_ceil(self.max_tokens));
            let end = (start + self.max_tokens).min(num_tokens);
            for (key, value) in example.iter_mut() {
                if let (true, Value::Ints(ids)) = (&**key == "targets", value) {
                    ids.truncate(end);
                    ids.drain(..start);
                }
            }
        }
        Ok(Some(example))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use proptest::test_runner::RngSeed;

    use super::*;
    use crate::data::random::StageSeed;

    // Known values of t5's `preprocessors_test.py`: vocabulary of 1000, tokens 10..15.
    const TOKENS: [i32; 6] = [10, 11, 12, 13, 14, 15];
    const MASK: [bool; 6] = [true, true, false, false, true, false];

    #[test]
    fn spans_become_unique_sentinels() {
        let spans = Replace::WithUniqueSentinels;
        assert_eq!(spans.apply(&TOKENS, &MASK, true, 999), [999, 12, 13, 998, 15]);
        assert_eq!(spans.apply(&TOKENS, &MASK, false, 999), [10, 11, 999, 14, 998]);
    }

    #[test]
    fn dropped_tokens_leave_nothing() {
        assert_eq!(Replace::WithNothing.apply(&TOKENS, &MASK, true, 999), [12, 13, 15]);
        assert_eq!(Replace::WithNothing.apply(&TOKENS, &MASK, false, 999), [10, 11, 14]);
    }

    #[test]
    fn every_segmentation_is_equally_likely() {
        let seed = StageSeed::new(0, "segments");
        for (items, segments, ways) in [(5, 2, 4), (5, 4, 4), (6, 3, 10)] {
            let mut counts = std::collections::BTreeMap::new();
            for counter in 0..4000 {
                let lengths = random_segmentation(items, segments, &mut seed.draw(counter));
                assert_eq!(lengths.iter().sum::<usize>(), items);
                *counts.entry(lengths).or_insert(0) += 1;
            }
            assert_eq!(counts.len(), ways);
            let expected = 4000.0 / ways as f64;
            assert!(counts.values().all(|&n| (f64::from(n) - expected).abs() < 0.25 * expected));
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig {
            rng_seed: RngSeed::Fixed(1),
            failure_persistence: None,
            ..ProptestConfig::default()
        })]

        #[test]
        fn masks_have_the_promised_noise_and_spans(
            length in 1usize..700, density in 0.01f64..0.6, mean in 1.0f64..8.0, counter: u64,
        ) {
            let mut draw = StageSeed::new(1, "mask").draw(counter);
            let mask = random_spans(length, density, mean, &mut draw);
            prop_assert_eq!(mask.len(), length);
            prop_assert!(!mask[0], "the first span is not noise");
            if length >= 2 {
                let noise = mask.iter().filter(|&&is_noise| is_noise).count();
                let expected = (length as f32 * density as f32).round_ties_even() as usize;
                prop_assert_eq!(noise, expected.clamp(1, length - 1));
                prop_assert!(mask[length - 1], "the last span is noise");
            }
        }

        #[test]
        fn inputs_and_targets_restore_the_tokens(
            tokens in prop::collection::vec(3i32..900, 1..600), density in 0.01f64..0.6, counter: u64,
        ) {
            let mut draw = StageSeed::new(2, "mask").draw(counter);
            let mask = random_spans(tokens.len(), density, 3.0, &mut draw);
            let inputs = Replace::WithUniqueSentinels.apply(&tokens, &mask, true, 9999);
            let targets = Replace::WithUniqueSentinels.apply(&tokens, &mask, false, 9999);
            prop_assert_eq!(reassemble(&inputs, &targets), tokens);
        }
    }

    /// Puts each span of the targets where its sentinel stands in the inputs. The inputs begin
    /// with kept tokens, so sentinel i of the targets stands for the kept span before span i.
    fn reassemble(inputs: &[i32], targets: &[i32]) -> Vec<i32> {
        let is_sentinel = |token: &i32| *token > 5000;
        let kept: Vec<&[i32]> = inputs.split(is_sentinel).collect();
        let noise: Vec<&[i32]> = targets.split(is_sentinel).skip(1).collect();
        let mut tokens = Vec::new();
        for (i, kept) in kept.iter().enumerate() {
            tokens.extend_from_slice(kept);
            tokens.extend_from_slice(noise.get(i).copied().unwrap_or_default());
        }
        tokens
    }
}
