//! Which tokens are noise: what `denoise` names in `noise_mask_fn`. Source: t5 `preprocessors.py`.
//!
//! The algorithms are t5's; the random values are ours, a function of seed and place. `denoise`
//! supplies length and density; the rest is bound to the functions themselves:
//!
//! ```text
//! preprocessors.denoise.noise_mask_fn = @preprocessors.random_spans_noise_mask
//! preprocessors.random_spans_noise_mask.mean_noise_span_length = 3.0
//! ```

use crate::data::error::DataError;
use crate::data::random::Draw;
use crate::gin::Configurable;

crate::gin::slot! {
    /// Any choice of noise tokens, named without parentheses: `@preprocessors.iid_noise_mask`.
    pub enum NoiseMaskFn: DrawMask {
        IidNoiseMask,
        RandomPrefixNoiseMask,
        RandomSpansNoiseMask,
        RegularNoiseMask,
    }
}

impl NoiseMaskFn {
    /// The mask of a sequence: true is noise.
    pub(super) fn draw(&self, length: usize, density: f64, draw: &mut Draw) -> Vec<bool> {
        self.spec().draw(length, density, draw)
    }

    /// Refuses parameters that make no masks.
    pub(super) fn check(&self, density: f64) -> Result<(), DataError> {
        if !(0.0..=1.0).contains(&density) {
            let message = format!("`noise_density` lies between 0 and 1, found {density}");
            return Err(DataError::Config(message));
        }
        self.spec().check(density)
    }
}

/// What all noise masks do.
trait DrawMask {
    /// The mask of a sequence: true is noise.
    fn draw(&self, length: usize, density: f64, draw: &mut Draw) -> Vec<bool>;

    /// Refuses parameters that make no masks; the density lies between 0 and 1.
    fn check(&self, _density: f64) -> Result<(), DataError> {
        Ok(())
    }
}

/// Each token by itself is noise with the probability of the density. Source: t5
/// `preprocessors.py`.
#[derive(Clone, Debug, Default, PartialEq, Configurable)]
#[gin(name = "t5.data.preprocessors.iid_noise_mask", open)]
pub struct IidNoiseMask {}

/// A prefix whose length is uniform between that of `1 - 2 * noise_density` and all but one token.
/// Source: t5 `preprocessors.py`.
#[derive(Clone, Debug, Default, PartialEq, Configurable)]
#[gin(name = "t5.data.preprocessors.random_prefix_noise_mask", open)]
pub struct RandomPrefixNoiseMask {}

/// Noise spans of random lengths between spans that are not noise, which come first; given their
/// numbers, all masks are equally likely. Source: t5 `preprocessors.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "t5.data.preprocessors.random_spans_noise_mask", open)]
pub struct RandomSpansNoiseMask {
    /// Mean number of tokens of a noise span.
    #[gin(default = 3.0)]
    pub mean_noise_span_length: f64,
    /// Rolls the mask by a random number of tokens. Without it a mask of one span is always at the
    /// end.
    #[gin(default = false)]
    pub random_roll: bool,
}

/// Noise spans of one length at equal distances, both length and offset random. Source: t5
/// `preprocessors.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "t5.data.preprocessors.regular_noise_mask", open)]
pub struct RegularNoiseMask {
    /// Fewest tokens of a span; those at both ends may be cut.
    #[gin(default = 1)]
    pub min_span_length: usize,
    /// Most tokens of a span.
    #[gin(default = 5)]
    pub max_span_length: usize,
}

impl Default for RandomSpansNoiseMask {
    fn default() -> Self {
        Self { mean_noise_span_length: 3.0, random_roll: false }
    }
}

impl DrawMask for IidNoiseMask {
    fn draw(&self, length: usize, density: f64, draw: &mut Draw) -> Vec<bool> {
        (0..length).map(|_| draw.unit() < density).collect()
    }
}

impl DrawMask for RandomPrefixNoiseMask {
    fn draw(&self, length: usize, density: f64, draw: &mut Draw) -> Vec<bool> {
        let most = length.saturating_sub(1);
        let fewest = ((1.0 - 2.0 * density) as f32 * most as f32).round_ties_even() as usize;
        let fewest = fewest.max(1).min(most);
        let prefix = fewest + draw.below(most - fewest + 1);
        (0..length).map(|i| i < prefix).collect()
    }

    fn check(&self, density: f64) -> Result<(), DataError> {
        if density <= 0.5 {
            return Ok(());
        }
        let message =
            format!("`random_prefix_noise_mask` needs a noise density of at most 0.5, found {density}");
        Err(DataError::Config(message))
    }
}

impl DrawMask for RegularNoiseMask {
    fn draw(&self, length: usize, density: f64, draw: &mut Draw) -> Vec<bool> {
        let span = self.min_span_length
            + draw.below(self.max_span_length + 1 - self.min_span_length);
        let period = (span as f32 / density as f32).round_ties_even() as usize;
        let offset = draw.below(period);
        (0..length).map(|i| (i + offset) % period < span).collect()
    }

    fn check(&self, density: f64) -> Result<(), DataError> {
        let Self { min_span_length: least, max_span_length: most } = *self;
        if density > 0.0 && (1..=most).contains(&least) {
            return Ok(());
        }
        Err(DataError::Config(format!(
            "`regular_noise_mask` needs a noise density above 0 and 1 <= min_span_length <= \
             max_span_length, found {density}, {least} and {most}"
        )))
    }
}

impl DrawMask for RandomSpansNoiseMask {
    fn draw(&self, length: usize, density: f64, draw: &mut Draw) -> Vec<bool> {
        let mut mask = random_spans(length, density, self.mean_noise_span_length, draw);
        if self.random_roll && length > 0 && density > 0.0 {
            mask.rotate_right(draw.below(length.max(2)) % length);
        }
        mask
    }

    fn check(&self, _: f64) -> Result<(), DataError> {
        let mean = self.mean_noise_span_length;
        if mean > 0.0 {
            return Ok(());
        }
        let message = format!(
            "`random_spans_noise_mask.mean_noise_span_length` is more than 0, found {mean}"
        );
        Err(DataError::Config(message))
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
