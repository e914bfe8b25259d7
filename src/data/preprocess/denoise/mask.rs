//! The choice of noise tokens: the functions for `noise_mask_fn` of `denoise`. Source: t5
//! `preprocessors.py`.
//!
//! The algorithms are t5's; the random values are Gimlet's, a function of seed and place. `denoise`
//! supplies length and density; the other parameters are bound to the functions:
//!
//! ```text
//! preprocessors.denoise.noise_mask_fn = @preprocessors.random_spans_noise_mask
//! preprocessors.random_spans_noise_mask.mean_noise_span_length = 3.0
//! ```

use crate::error::DataError;
use crate::random::Draw;
use gimlet_gin::Configurable;

gimlet_gin::slot! {
    /// Any choice of noise tokens, named without parentheses: `@preprocessors.iid_noise_mask`.
    pub enum NoiseMaskFn: DrawMask {
        IidNoiseMask,
        RandomPrefixNoiseMask,
        RandomSpansNoiseMask,
        RegularNoiseMask,
    }
}

impl NoiseMaskFn {
    /// Draws the noise of a sequence.
    pub(super) fn draw(&self, length: usize, density: f64, draw: &mut Draw) -> Mask {
        self.spec().draw(length, density, draw)
    }

    /// Rejects parameters that make no masks.
    pub(super) fn check(&self, density: f64) -> Result<(), DataError> {
        if !(0.0..=1.0).contains(&density) {
            let message = format!("`noise_density` lies between 0 and 1, found {density}");
            return Err(DataError::Config(message));
        }
        self.spec().check(density)
    }
}

/// The noise tokens of a sequence, as the lengths of alternating runs, of which the first is not
/// noise. Only the first run may be empty. There are a tenth as many runs as tokens, so iterating
/// over runs is faster.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Mask(Vec<usize>);

impl Mask {
    /// The mask whose noise is where `tokens` are true.
    pub(super) fn of(tokens: impl IntoIterator<Item = bool>) -> Self {
        let mut runs = vec![0];
        for is_noise in tokens {
            if is_noise == runs.len().is_multiple_of(2) {
                *runs.last_mut().expect("there is a first run") += 1;
            } else {
                runs.push(1);
            }
        }
        Self(runs)
    }

    /// Each run that is not empty, and whether it is noise.
    pub(super) fn runs(&self) -> impl Iterator<Item = (usize, bool)> {
        let numbered = self.0.iter().enumerate().filter(|(_, length)| **length > 0);
        numbered.map(|(i, length)| (*length, i % 2 == 1))
    }

    /// For each token, whether it is noise.
    pub(super) fn tokens(&self) -> impl Iterator<Item = bool> {
        self.runs().flat_map(|(length, is_noise)| std::iter::repeat_n(is_noise, length))
    }

    /// The mask of the first `length` tokens.
    fn truncated(mut self, length: usize) -> Self {
        let mut rest = length;
        for run in &mut self.0 {
            *run = (*run).min(rest);
            rest -= *run;
        }
        while self.0.len() > 1 && self.0.last() == Some(&0) {
            self.0.pop();
        }
        self
    }
}

/// The operations of a noise mask.
trait DrawMask {
    /// Draws the noise of a sequence.
    fn draw(&self, length: usize, density: f64, draw: &mut Draw) -> Mask;

    /// Rejects parameters that make no masks; the density lies between 0 and 1.
    fn check(&self, _density: f64) -> Result<(), DataError> {
        Ok(())
    }
}

/// Makes each token noise independently, with the probability of the density. Source: t5
/// `preprocessors.py`.
#[derive(Clone, Debug, Default, PartialEq, Configurable)]
#[gin(name = "t5.data.preprocessors.iid_noise_mask", open)]
pub struct IidNoiseMask {}

/// A prefix whose length is uniform between that of `1 - 2 * noise_density` and all but one token.
/// Source: t5 `preprocessors.py`.
#[derive(Clone, Debug, Default, PartialEq, Configurable)]
#[gin(name = "t5.data.preprocessors.random_prefix_noise_mask", open)]
pub struct RandomPrefixNoiseMask {}

/// Noise spans of random lengths between spans that are not noise; the first span is not noise. For
/// given numbers of spans and noise tokens, all masks are equally likely. Source: t5
/// `preprocessors.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(
    name = "t5.data.preprocessors.random_spans_noise_mask",
    open,
    ignored(batch_size = "masks are made one example at a time")
)]
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
    /// Minimum number of tokens of a span; the spans at both ends may be cut.
    #[gin(default = 1)]
    pub min_span_length: usize,
    /// Maximum number of tokens of a span.
    #[gin(default = 5)]
    pub max_span_length: usize,
}

impl Default for RandomSpansNoiseMask {
    fn default() -> Self {
        Self { mean_noise_span_length: 3.0, random_roll: false }
    }
}

impl DrawMask for IidNoiseMask {
    fn draw(&self, length: usize, density: f64, draw: &mut Draw) -> Mask {
        Mask::of((0..length).map(|_| draw.unit() < density))
    }
}

impl DrawMask for RandomPrefixNoiseMask {
    fn draw(&self, length: usize, density: f64, draw: &mut Draw) -> Mask {
        let most = length.saturating_sub(1);
        let fewest = ((1.0 - 2.0 * density) as f32 * most as f32).round_ties_even() as usize;
        let fewest = fewest.max(1).min(most);
        let prefix = fewest + draw.below(most - fewest + 1);
        Mask(vec![0, prefix, length - prefix]).truncated(length)
    }

    fn check(&self, density: f64) -> Result<(), DataError> {
        if density <= 0.5 {
            return Ok(());
        }
        let message = format!(
            "`random_prefix_noise_mask` needs a noise density of at most 0.5, found {density}"
        );
        Err(DataError::Config(message))
    }
}

impl DrawMask for RegularNoiseMask {
    fn draw(&self, length: usize, density: f64, draw: &mut Draw) -> Mask {
        let span =
            self.min_span_length + draw.below(self.max_span_length + 1 - self.min_span_length);
        let period = (span as f32 / density as f32).round_ties_even() as usize;
        let offset = draw.below(period);
        Mask::of((0..length).map(|i| (i + offset) % period < span))
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
    fn draw(&self, length: usize, density: f64, draw: &mut Draw) -> Mask {
        let mask = random_spans(length, density, self.mean_noise_span_length, draw);
        if !self.random_roll || length == 0 || density == 0.0 {
            return mask;
        }
        let mut tokens: Vec<bool> = mask.tokens().collect();
        tokens.rotate_right(draw.below(length.max(2)) % length);
        Mask::of(tokens)
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

/// Alternating spans, of which the first is not noise; for given counts, all masks are equally
/// likely.
fn random_spans(length: usize, density: f64, mean_span: f64, draw: &mut Draw) -> Mask {
    if density == 0.0 {
        return Mask(vec![length]);
    }
    let padded = length.max(2);
    // As TensorFlow computes the number: in 32 bits, rounding halves to even.
    let num_noise = (padded as f32 * density as f32).round_ties_even() as usize;
    let num_noise = num_noise.clamp(1, padded - 1);
    let num_spans = (num_noise as f32 / mean_span as f32).round_ties_even() as usize;
    // t5 fails if there are fewer tokens than spans; no mask has empty spans.
    let num_spans = num_spans.max(1).min(num_noise).min(padded - num_noise);
    let mut runs = vec![0; num_spans * 2];
    random_segmentation(num_noise, num_spans, draw, runs.iter_mut().skip(1).step_by(2));
    random_segmentation(padded - num_noise, num_spans, draw, runs.iter_mut().step_by(2));
    Mask(runs).truncated(length)
}

/// Writes the lengths of `num_segments` non-empty segments of `num_items` items.
fn random_segmentation<'a>(
    num_items: usize,
    num_segments: usize,
    draw: &mut Draw,
    lengths: impl Iterator<Item = &'a mut usize>,
) {
    // Segments begin at item 0 and at `num_segments - 1` of the others, each set equally likely
    // (Floyd's sampling). If most others begin a segment, those that do not are drawn instead.
    let (others, begins) = (num_items - 1, num_segments - 1);
    let drawn_begin = begins * 2 <= others;
    let num_drawn = if drawn_begin { begins } else { others - begins };
    let mut drawn = Bits(vec![0; others.div_ceil(64)]);
    for last in others - num_drawn..others {
        let item = draw.below(last + 1);
        drawn.set(if drawn.has(item) { last } else { item });
    }
    let mut firsts = drawn.places(drawn_begin).map(|place| place + 1).take(begins);
    let mut first = 0;
    for length in lengths {
        let next = firsts.next().unwrap_or(num_items);
        *length = next - first;
        first = next;
    }
}

/// A set of small numbers.
struct Bits(Vec<u64>);

impl Bits {
    fn set(&mut self, place: usize) {
        self.0[place / 64] |= 1 << (place % 64);
    }

    fn has(&self, place: usize) -> bool {
        self.0[place / 64] >> (place % 64) & 1 == 1
    }

    /// The positions of the bits that are set, or of those that are not, in order; the latter also
    /// beyond the end.
    fn places(&self, set: bool) -> impl Iterator<Item = usize> {
        let words = self.0.iter().enumerate();
        words.flat_map(move |(i, word)| {
            let mut rest = if set { *word } else { !*word };
            std::iter::from_fn(move || {
                let place = rest.trailing_zeros() as usize;
                // Clears the lowest bit.
                rest &= rest.checked_sub(1)?;
                Some(i * 64 + place)
            })
        })
    }
}
