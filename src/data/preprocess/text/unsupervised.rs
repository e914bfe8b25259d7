//! Random examples from running text: texts cut into pieces, and texts with hidden words.

use super::strings::{strip, words};
use super::{Context, PairKeys, Preprocess, Step, filter_map, flat_map, text_of, texts_of};
use crate::error::DataError;
use crate::example::Example;
use crate::random::Draw;
use crate::value::{Key, Value};
use gimlet_gin::Configurable;

/// Cuts a text into pieces with the same number of words, which is drawn log-uniformly. Source: t5
/// `preprocessors.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "t5.data.preprocessors.random_split_text")]
pub struct RandomSplitText {
    /// The feature that holds the text, the only one kept.
    #[gin(default = "text".to_string())]
    pub text_key: String,
    /// Minimum number of words of a piece; the last piece may have fewer.
    #[gin(default = 16)]
    pub min_words_per_segment: usize,
    /// Maximum number of words of a piece.
    #[gin(default = 512)]
    pub max_words_per_segment: usize,
    /// Maximum number of words used; from a longer text, one random chunk of this size is used.
    /// None or 0 uses all words.
    #[gin(default = Some(8192))]
    pub max_words_total: Option<usize>,
}

impl Preprocess for RandomSplitText {
    fn steps(&self, _: &Context<'_>) -> Result<Vec<Step>, DataError> {
        let (shortest, longest) = (self.min_words_per_segment, self.max_words_per_segment);
        if shortest == 0 || longest < shortest {
            return Err(DataError::Config(format!(
                "`random_split_text` needs 1 <= min_words_per_segment <= max_words_per_segment, \
                 found {shortest} and {longest}"
            )));
        }
        let (spec, key) = (self.clone(), Key::from(self.text_key.as_str()));
        Ok(vec![flat_map(move |example, place| {
            let mut draw = place.draw();
            let all: Vec<&str> = words(text_of(&example, &key)?).collect();
            let chunk = spec.random_chunk(&all, &mut draw);
            let length = log_uniform(shortest, longest, &mut draw);
            let piece = |piece: &[&str]| Example::of(key.clone(), Value::Text(piece.join(" ")));
            Ok(chunk.chunks(length).map(piece).collect())
        })])
    }
}

impl RandomSplitText {
    fn random_chunk<'a, 'b>(&self, all: &'a [&'b str], draw: &mut Draw) -> &'a [&'b str] {
        match self.max_words_total {
            Some(size) if size > 0 => {
                let first = size * draw.below(all.len().div_ceil(size).max(1));
                &all[first..(first + size).min(all.len())]
            }
            _ => all,
        }
    }
}

/// A number whose logarithm is uniform, rounded down.
fn log_uniform(lowest: usize, highest: usize, draw: &mut Draw) -> usize {
    let (low, high) = ((lowest as f64).ln(), (highest as f64).ln());
    let number = (low + draw.unit() * (high - low)).exp() as usize;
    number.clamp(lowest, highest)
}

/// Adds the list of a text's words, and drops texts with too few words. Source: t5
/// `preprocessors.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "t5.data.preprocessors.split_text_to_words")]
pub struct SplitTextToWords {
    /// The feature that holds the text.
    #[gin(default = "text".to_string())]
    pub text_key: String,
    /// Minimum number of words of an example that is kept.
    #[gin(default = 2)]
    pub min_num_words: usize,
}

impl Preprocess for SplitTextToWords {
    fn steps(&self, _: &Context<'_>) -> Result<Vec<Step>, DataError> {
        Ok(vec![self.step()])
    }
}

impl SplitTextToWords {
    fn step(&self) -> Step {
        let (text_key, fewest, key) =
            (self.text_key.clone(), self.min_num_words, Key::from("words"));
        filter_map(move |mut example, _| {
            let words: Vec<String> =
                words(text_of(&example, &text_key)?).map(str::to_string).collect();
            let enough = words.len() >= fewest;
            example.set(key.clone(), Value::Texts(words));
            Ok(enough.then_some(example))
        })
    }
}

/// Replaces random runs of words by 'X' and makes two examples, one the inverse of the other.
/// Source: t5 `preprocessors.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "t5.data.preprocessors.fill_in_the_blank")]
pub struct FillInTheBlank {
    /// The feature that holds the text.
    #[gin(default = "text".to_string())]
    pub text_key: String,
    /// The prefix of the inputs.
    #[gin(default = "fill: ".to_string())]
    pub label: String,
}

impl Preprocess for FillInTheBlank {
    fn steps(&self, _: &Context<'_>) -> Result<Vec<Step>, DataError> {
        let (keys, label) = (PairKeys::new(), self.label.clone());
        let split = SplitTextToWords { text_key: self.text_key.clone(), min_num_words: 2 };
        let step = flat_map(move |example, place| {
            let words = texts_of(&example, "words")?;
            let breaks = random_breaks(words.len(), &mut place.draw());
            let [even, odd] = [0, 1].map(|side| one_side(words, &breaks, side));
            Ok(vec![
                keys.pair(format!("{label}{even}"), odd.clone()),
                keys.pair(format!("{label}{odd}"), even),
            ])
        });
        Ok(vec![split.step(), step])
    }
}

/// Whether a run begins before each word: the first word, and at least one more. The probability
/// that a run ends is drawn log-uniformly between 1 / (number of words + 2) and 1/2.
fn random_breaks(num_words: usize, draw: &mut Draw) -> Vec<bool> {
    let (low, high) = (-(num_words as f64 + 2.0).ln(), -f64::ln(2.0));
    let probability = (low + draw.unit() * (high - low)).exp();
    let mut breaks = vec![true];
    breaks.extend((1..num_words).map(|_| draw.unit() < probability));
    if !breaks[1..].contains(&true) {
        breaks[1 + draw.below(num_words - 1)] = true;
    }
    breaks
}

/// The words of every second run, with 'X' for each run between them.
fn one_side(words: &[String], breaks: &[bool], side: usize) -> String {
    let mut run = 0;
    let mut out = String::new();
    for (word, begins) in words.iter().zip(breaks) {
        run += usize::from(*begins);
        if run % 2 == side {
            out.extend([" ", word]);
        } else if *begins {
            out.push_str(" X");
        }
    }
    out.split_off(1)
}

/// Replaces one random run of words by a mark with its size, such as "_4_". Source: t5
/// `preprocessors.py`.
///
/// If a text has no more words than the smallest size, that many words are hidden; t5 fails on such
/// a text.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "t5.data.preprocessors.fill_in_the_blank_sized")]
pub struct FillInTheBlankSized {
    /// Sizes that a mark may show; it shows the nearest one.
    #[gin(default = vec![1, 2, 4, 8, 16, 32, 64, 128, 256, 512])]
    pub size_bins: Vec<usize>,
    /// The feature that holds the text.
    #[gin(default = "text".to_string())]
    pub text_key: String,
    /// The prefix of the inputs.
    #[gin(default = "fill: ".to_string())]
    pub label: String,
}

impl Preprocess for FillInTheBlankSized {
    fn steps(&self, _: &Context<'_>) -> Result<Vec<Step>, DataError> {
        let mut bins = self.size_bins.clone();
        bins.sort_unstable();
        let &[smallest, ..] = &bins[..] else {
            let reason = "`fill_in_the_blank_sized.size_bins` is empty, expected sizes";
            return Err(DataError::Config(reason.to_string()));
        };
        let (keys, label) = (PairKeys::new(), self.label.clone());
        let fewest = smallest.max(2);
        let split = SplitTextToWords { text_key: self.text_key.clone(), min_num_words: fewest };
        let step = filter_map(move |example, place| {
            let words = texts_of(&example, "words")?;
            let blank = Blank::draw(words.len(), &bins, &mut place.draw());
            let inputs = format!("{label}{}", strip(&blank.around(words)));
            let targets = words[blank.start..blank.start + blank.size].join(" ");
            Ok(Some(keys.pair(strip(&inputs).to_string(), targets)))
        });
        Ok(vec![split.step(), step])
    }
}

/// The hidden words.
struct Blank {
    start: usize,
    size: usize,
    told: usize,
}

impl Blank {
    /// `bins` is sorted and not empty; the largest size and the number of words are not drawn.
    fn draw(num_words: usize, bins: &[usize], draw: &mut Draw) -> Self {
        let (smallest, end) = (bins[0], num_words.min(bins[bins.len() - 1]));
        let size = smallest + draw.below(end.saturating_sub(smallest).max(1));
        let told = bins.iter().copied().min_by_key(|bin| bin.abs_diff(size)).unwrap_or(size);
        Self { start: draw.below(num_words - size + 1), size, told }
    }

    fn around(&self, words: &[String]) -> String {
        let (before, after) = (&words[..self.start], &words[self.start + self.size..]);
        format!("{} _{}_ {}", before.join(" "), self.told, after.join(" "))
    }
}
