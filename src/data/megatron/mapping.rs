//! The sentences of each sample, in a shuffled order. Source: `build_mapping_impl` of `megatron/data/helpers.cpp`.

use rand_mt::{Mt, Mt64};

/// Documents with a longer sentence have no samples, in tokens.
const LONG_SENTENCE: u32 = 512;

/// A sample: its first sentence, the sentence after its last one, and its length in tokens without special ones, to which
/// it is cut.
pub(crate) type SampleRow = [u32; 3];

/// Settings on which the samples depend.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct MappingOptions {
    /// Passes over the documents; without a number, as many as give `num_samples`.
    pub num_epochs: Option<u32>,
    /// No pass begins once there are as many samples.
    pub num_samples: Option<u64>,
    /// Greatest length of a sample in tokens, without special ones; at least 2.
    pub max_length: u32,
    /// Share of samples of a random length.
    pub short_seq_prob: f64,
    /// The seed.
    pub seed: u32,
    /// Documents with fewer sentences have no samples.
    pub min_sentences: u64,
}

impl MappingOptions {
    /// The number of samples of which one has a random length; 0 if none has.
    pub(super) fn short_ratio(&self) -> u64 {
        match self.short_seq_prob > 0.0 {
            true => (1.0 / self.short_seq_prob).round() as u64,
            false => 0,
        }
    }

    /// Draws the length of a sample.
    fn target_length(&self, random: &mut Mt) -> u32 {
        let ratio = self.short_ratio();
        if ratio == 0 {
            return self.max_length;
        }
        let draw = random.next_u32();
        match u64::from(draw).is_multiple_of(ratio) {
            true => 2 + draw % (self.max_length - 1),
            false => self.max_length,
        }
    }
}

/// Draws the samples of documents. `pass` calls a function with the first sentence of each document, and the number of tokens
/// of each of its sentences; sentences have numbers below 2^32.
///
/// # Errors
/// Those of `pass`.
pub(crate) fn build_mapping<E>(
    options: &MappingOptions,
    mut pass: impl FnMut(&mut dyn FnMut(u64, &[u32])) -> Result<(), E>,
) -> Result<Vec<SampleRow>, E> {
    let mut drawn = Drawn { options, random: Mt::new(options.seed), rows: Vec::new() };
    let most = options.num_samples.unwrap_or(u64::MAX);
    for _ in 0..options.num_epochs.unwrap_or(u32::MAX) {
        let before = drawn.rows.len();
        if before as u64 >= most {
            break;
        }
        pass(&mut |first, lengths| drawn.add_document(first as usize, lengths))?;
        if drawn.rows.len() == before {
            break;
        }
    }
    let mut rows = drawn.rows;
    shuffle(&mut rows, options.seed);
    Ok(rows)
}

/// The samples that were drawn so far.
struct Drawn<'a> {
    options: &'a MappingOptions,
    random: Mt,
    rows: Vec<SampleRow>,
}

impl Drawn<'_> {
    /// Appends the samples of a document with this first sentence, and sentences of these lengths.
    fn add_document(&mut self, begin: usize, lengths: &[u32]) {
        let (count, least) = (lengths.len(), self.options.min_sentences as usize);
        let has_long_one = count > 1 && lengths.iter().any(|length| *length > LONG_SENTENCE);
        if count < least || has_long_one {
            return;
        }
        let end = begin + count;
        let (mut first, mut length) = (begin, 0);
        let mut target = self.options.target_length(&mut self.random);
        for (behind, tokens) in (begin + 1..).zip(lengths) {
            length += u64::from(*tokens);
            let is_full = length >= target.into() && end - behind > 1 && behind - first >= least;
            if is_full || behind == end {
                self.rows.push([first as u32, behind as u32, target]);
                // A length is drawn after a document's last sample too, and not used.
                target = self.options.target_length(&mut self.random);
                (first, length) = (behind, 0);
            }
        }
    }
}

/// Permutes the samples with the 64-bit generator.
fn shuffle(rows: &mut [SampleRow], seed: u32) {
    let mut random = Mt64::new(u64::from(seed) + 1);
    for last in (1..rows.len()).rev() {
        let other = random.next_u64() % (last as u64 + 1);
        rows.swap(last, other as usize);
    }
}
