//! The tokens of a sample before they are masked. Sources: `build_training_sample` of `megatron/data/bert_dataset.py`, and
//! `megatron/data/dataset_utils.py`.

use super::numpy_random::RandomState;

/// Special ids around segments.
#[derive(Clone, Copy, Debug)]
pub(super) struct Marks {
    /// `[CLS]`
    pub begin: i32,
    /// `[SEP]`
    pub end: i32,
}

/// A sample: `[CLS] A [SEP]`, and with two segments `B [SEP]`.
#[derive(Debug, PartialEq)]
pub(super) struct Segments {
    /// The tokens of the sample.
    pub tokens: Vec<i32>,
    /// The number of tokens of the first segment with its marks.
    pub first: usize,
    /// Whether the segments changed places.
    pub is_swapped: bool,
}

impl Segments {
    /// One segment of all sentences, cut to `length` tokens.
    pub(super) fn one(
        sentences: &[Vec<i32>],
        length: usize,
        marks: Marks,
        random: &mut RandomState,
    ) -> Self {
        let whole = sentences.concat();
        let [a, _] = cut([&whole, &[]], length, random);
        Self::joined([a, &[]], marks, false)
    }

    /// Two segments of at least one sentence each, which change places in half of the samples, cut to `length` tokens
    /// together.
    pub(super) fn two(
        sentences: &[Vec<i32>],
        length: usize,
        marks: Marks,
        random: &mut RandomState,
    ) -> Self {
        let count = sentences.len() as u32;
        let in_first = if count >= 3 { random.randint(1, count) } else { 1 };
        let (a, b) = sentences.split_at((in_first as usize).min(sentences.len()));
        let (mut a, mut b) = (a.concat(), b.concat());
        let is_swapped = random.random() < 0.5;
        if is_swapped {
            std::mem::swap(&mut a, &mut b);
        }
        Self::joined(cut([&a, &b], length, random), marks, is_swapped)
    }

    fn joined([a, b]: [&[i32]; 2], marks: Marks, is_swapped: bool) -> Self {
        let mut tokens = vec![marks.begin];
        tokens.extend(a);
        tokens.push(marks.end);
        let first = tokens.len();
        if !b.is_empty() {
            tokens.extend(b);
            tokens.push(marks.end);
        }
        Self { tokens, first, is_swapped }
    }
}

/// Drops tokens of the longer segment, the second one if they are equally long, until `length` are left: each time the
/// first or the last token.
fn cut<'a>(
    mut segments: [&'a [i32]; 2],
    length: usize,
    random: &mut RandomState,
) -> [&'a [i32]; 2] {
    while segments[0].len() + segments[1].len() > length {
        let longer = usize::from(segments[0].len() <= segments[1].len());
        let tokens = &mut segments[longer];
        *tokens = match random.random() < 0.5 {
            true => &tokens[1..],
            false => &tokens[..tokens.len() - 1],
        };
    }
    segments
}
