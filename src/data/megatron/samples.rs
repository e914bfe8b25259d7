//! Samples for BERT by their numbers.

use std::fmt;
use std::sync::{Mutex, OnceLock, PoisonError};

use super::cut_short;
use super::index::Index;
use super::mapping::MappingOptions;
use super::mapping_file::samples_of;
use super::masking::Masking;
use super::numpy_random::RandomState;
use super::sample_rows::SampleRows;
use super::segments::{Marks, Segments};
use crate::error::{DataError, file_error};
use crate::value::{Key, Value};
use gimlet_storage::{Path, RangeFile};
use gimlet_vocab::{PAD_ID, VocabularySpec};

/// The description of a data set of samples.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct BertOptions {
    /// Path of the `.bin` and `.idx` files without these endings.
    pub prefix: Path,
    /// A part of the name of the mapping's file.
    pub name: String,
    /// The settings of the mapping.
    pub mapping: MappingOptions,
    /// Length of the features.
    pub input_seq_len: usize,
    /// Share of the tokens that are masked.
    pub mlm_prob: f64,
    /// Whether samples have two segments and a label.
    pub use_nsp: bool,
    /// The vocabulary, which has `[PAD]` with id 0, `[CLS]`, `[SEP]` and `[MASK]`.
    pub vocabulary: VocabularySpec,
    /// Number of ids of which random ones are drawn.
    pub num_ids: usize,
}

/// The samples of a data set. Its files are opened, and the mapping is read or drawn, when the first of its samples, or
/// their number, is asked for.
pub(crate) struct BertSamples {
    options: BertOptions,
    opened: OnceLock<Opened>,
    opening: Mutex<()>,
}

/// The open files of samples.
struct Opened {
    bin: RangeFile,
    index: Index,
    rows: SampleRows,
    masking: Masking,
    features: Features,
}

/// The names of the features.
struct Features {
    tokens: Key,
    targets: Key,
    weights: Key,
    types: Key,
    label: Key,
}

impl fmt::Debug for BertSamples {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("BertSamples").field(&self.options).finish()
    }
}

impl BertSamples {
    /// The samples of a description; no file is opened yet.
    pub(crate) fn new(options: BertOptions) -> Self {
        Self { options, opened: OnceLock::new(), opening: Mutex::new(()) }
    }

    /// The file of token ids.
    pub(crate) fn bin(&self) -> Path {
        self.options.prefix.suffixed(".bin")
    }

    /// The settings on which the samples depend. Data and vocabulary may move to other folders.
    pub(super) fn settings(&self) -> String {
        let BertOptions { prefix, mapping, .. } = &self.options;
        let BertOptions { input_seq_len, mlm_prob, use_nsp, num_ids, .. } = self.options;
        let name = prefix.file_name();
        format!("{name} {mapping:?} {num_ids} {input_seq_len} {mlm_prob} {use_nsp}")
    }

    /// Number of samples.
    pub(crate) fn num_samples(&self) -> Result<u64, DataError> {
        Ok(self.opened()?.rows.len())
    }

    /// The features of a sample by its number, which is below [`Self::num_samples`], each of `input_seq_len` ids:
    /// `encoder_input_tokens` and `encoder_token_types`, padded with 0; `encoder_target_tokens`, the original ids at masked
    /// places and 0 elsewhere; `encoder_loss_weights`, 1 at masked places; and with two segments `next_sentence_label`, one
    /// number, 1 if they changed places.
    ///
    /// # Errors
    /// A file cannot be read, is not complete, or has ids that the vocabulary lacks.
    pub(crate) fn features(&self, number: u64) -> Result<Vec<(Key, Value)>, DataError> {
        let opened = self.opened()?;
        let [first, behind, target] = opened.rows.get(number)?;
        let sentences = opened.sentences(first.into(), behind.into())?;
        let seed = u64::from(self.options.mapping.seed).wrapping_add(number) as u32;
        let mut random = RandomState::new(seed);
        let length = target as usize;
        let marks = opened.masking.marks;
        let mut segments = match self.options.use_nsp {
            true => Segments::two(&sentences, length, marks, &mut random),
            false => Segments::one(&sentences, length, marks, &mut random),
        };
        let masked = opened.masking.mask(&mut segments.tokens, length, &mut random);
        Ok(self.named(&opened.features, segments, masked))
    }

    /// The features of a sample with these masked places and their original tokens.
    fn named(
        &self,
        names: &Features,
        segments: Segments,
        masked: Vec<(usize, i32)>,
    ) -> Vec<(Key, Value)> {
        let padded = self.options.input_seq_len;
        let Segments { mut tokens, first, is_swapped } = segments;
        let (mut targets, mut weights) = (vec![0; padded], vec![0; padded]);
        for (place, token) in masked {
            (targets[place], weights[place]) = (token, 1);
        }
        let mut types = vec![0; padded];
        types[first..tokens.len()].fill(1);
        tokens.resize(padded, PAD_ID);
        let lists = [
            (&names.tokens, tokens),
            (&names.targets, targets),
            (&names.weights, weights),
            (&names.types, types),
        ];
        let label = (&names.label, vec![i32::from(is_swapped)]);
        let label = self.options.use_nsp.then_some(label);
        let lists = lists.into_iter().chain(label);
        lists.map(|(name, ids)| (name.clone(), Value::Ints(ids))).collect()
    }

    fn opened(&self) -> Result<&Opened, DataError> {
        if let Some(opened) = self.opened.get() {
            return Ok(opened);
        }
        // Other threads wait, instead of drawing the same samples.
        let _opening = self.opening.lock().unwrap_or_else(PoisonError::into_inner);
        match self.opened.get() {
            Some(opened) => Ok(opened),
            None => {
                let opened = self.open()?;
                Ok(self.opened.get_or_init(|| opened))
            }
        }
    }

    fn open(&self) -> Result<Opened, DataError> {
        let BertOptions { prefix, name, mapping, .. } = &self.options;
        let path = self.bin();
        let (bin, index) = (path.open_ranges()?, Index::open_beside(&path)?);
        check_size(&bin, &index)?;
        let masking = self.masking()?;
        let rows = samples_of(prefix, &index, name, mapping)?;
        if rows.len() == 0 {
            let least = mapping.min_sentences;
            let reason = format!(
                "it has no document of at least {least} sentences of at most 512 tokens, and so no sample"
            );
            return Err(file_error(&path, reason));
        }
        let features = Features {
            tokens: "encoder_input_tokens".into(),
            targets: "encoder_target_tokens".into(),
            weights: "encoder_loss_weights".into(),
            types: "encoder_token_types".into(),
            label: "next_sentence_label".into(),
        };
        Ok(Opened { bin, index, rows, masking, features })
    }

    fn masking(&self) -> Result<Masking, DataError> {
        let vocabulary = self.options.vocabulary.build()?;
        let pieces = (0..self.options.num_ids as i32).map(|id| vocabulary.piece(id));
        let pieces: Vec<String> = pieces.collect();
        let id_of = |piece: &str| match pieces.iter().position(|known| known == piece) {
            Some(id) => Ok(id as i32),
            None => Err(DataError::Config(format!("{} has no piece '{piece}'", vocabulary.name()))),
        };
        let pad = id_of("[PAD]")?;
        if pad != PAD_ID {
            let name = vocabulary.name();
            let reason = format!("{name} has '[PAD]' with id {pad}, and rows are padded with 0");
            return Err(DataError::Config(reason));
        }
        Ok(Masking {
            prob: self.options.mlm_prob,
            marks: Marks { begin: id_of("[CLS]")?, end: id_of("[SEP]")? },
            mask_id: id_of("[MASK]")?,
            begins_word: pieces.iter().map(|piece| !piece.starts_with("##")).collect(),
        })
    }
}

impl Opened {
    /// The token ids of sentences, which follow each other in the file.
    fn sentences(&self, first: u64, behind: u64) -> Result<Vec<Vec<i32>>, DataError> {
        let size = self.index.token_type.size();
        let starts = self.index.starts(first..behind)?;
        let lengths = self.index.lengths(first..behind)?;
        let ranges: Vec<_> = (starts.iter().zip(&lengths))
            .map(|(start, length)| *start..start.saturating_add(u64::from(*length) * size))
            .collect();
        let sentences = (first + 1..).zip(self.bin.read_all(&ranges)?);
        sentences.map(|(number, bytes)| self.ids(number, &bytes)).collect()
    }

    /// The ids of a sentence with this number, from 1.
    fn ids(&self, number: u64, bytes: &[u8]) -> Result<Vec<i32>, DataError> {
        let bad = |reason| file_error(self.bin.path(), format!("sentence {number}: {reason}"));
        let ids = self.index.token_type.ids(bytes).map_err(bad)?;
        let num_ids = self.masking.begins_word.len();
        match ids.iter().find(|id| !usize::try_from(**id).is_ok_and(|id| id < num_ids)) {
            None => Ok(ids),
            Some(id) => Err(bad(format!(
                "it has the id {id}, expected ids from 0 to {}: the data were made with another vocabulary; set `vocabulary` \
                 to that one, or convert the texts again with this one (`gimlet megatron_index`)",
                num_ids - 1
            ))),
        }
    }
}

/// Checks that the file of ids has as many bytes as its index says.
fn check_size(bin: &RangeFile, index: &Index) -> Result<(), DataError> {
    let Some(last) = index.num_sentences.checked_sub(1) else { return Ok(()) };
    let (start, length) = (index.starts(last..last + 1)?[0], index.lengths(last..last + 1)?[0]);
    let place = start..start.saturating_add(u64::from(length) * index.token_type.size());
    if place.end <= bin.size() {
        return Ok(());
    }
    let sentence = format!("sentence {}", index.num_sentences);
    Err(cut_short(bin.path(), &sentence, &place, bin.size()))
}
