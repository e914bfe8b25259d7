//! Samples for BERT from sentences that Megatron's tools prepared.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::contract::{Source, unknown_split};
use super::file::{Format, SourceFile};
use super::parse::RecordParser;
use super::split::SplitFiles;
use crate::error::DataError;
use crate::megatron::{BertOptions, BertSamples, MappingOptions, Samples};
use gimlet_gin::Configurable;
use gimlet_storage::Path;
use gimlet_vocab::VocabularySpec;

/// The split of which passes and samples are counted; others have the samples of one pass.
const TRAIN: &str = "train";

/// Masked samples of two segments, or one, drawn from documents of sentences in `.bin` and `.idx` files, number for number
/// as in t5-experiments. Examples have the features of an encoder: 'encoder_input_tokens', 'encoder_target_tokens' (the
/// original ids at masked places, 0 elsewhere), 'encoder_loss_weights' (1 at masked places), 'encoder_token_types' (0 and
/// 1), and with `use_nsp` 'next_sentence_label' (one number, 1 if the segments changed places). Source: t5-experiments
/// `megatron/data/bert_dataset.py`, except that random words are drawn from ascending ids.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "megatron.BertDataset")]
pub struct BertDataset {
    /// Split to the path of its `.bin` and `.idx` files without these endings, in any storage.
    pub split_to_prefix: BTreeMap<String, String>,
    /// The vocabulary of the ids. It has `[PAD]` with id 0, `[CLS]`, `[SEP]` and `[MASK]`; pieces with a leading `##`
    /// continue words, which are masked as a whole.
    pub vocabulary: VocabularySpec,
    /// Passes over the documents of the split 'train' from which samples are drawn; other splits have one.
    #[gin(default = None)]
    pub n_epochs: Option<u32>,
    /// Number of samples of the split 'train' after which no pass begins. This or `n_epochs` is needed.
    #[gin(default = None)]
    pub n_samples: Option<u64>,
    /// Length of the features in tokens, with special ones.
    #[gin(default = 128)]
    pub input_seq_len: usize,
    /// Share of the tokens that are masked.
    #[gin(default = 0.15)]
    pub mlm_prob: f64,
    /// Share of samples that are cut to a random length.
    #[gin(default = 0.1)]
    pub short_seq_prob: f64,
    /// Whether samples have two segments, which change places in half of the samples.
    #[gin(default = true)]
    pub use_nsp: bool,
    /// The seed of the samples and of their masked tokens; below 2147483647.
    #[gin(default = 42)]
    pub seed: u32,
    /// A part of the name of the file in which the drawn samples are kept, beside the `.bin` file.
    #[gin(default = String::new())]
    pub name: String,
}

impl BertDataset {
    /// The samples of a split.
    pub(super) fn samples(&self, task: &str, split: &str) -> Result<BertSamples, DataError> {
        let Some(prefix) = self.split_to_prefix.get(split) else {
            return Err(unknown_split(task, split, self.split_to_prefix.keys().cloned()));
        };
        self.check(split)?;
        let (num_marks, min_sentences) = if self.use_nsp { (3, 2) } else { (2, 1) };
        let (num_epochs, num_samples) = match split {
            TRAIN => (self.n_epochs, self.n_samples),
            _ => (Some(1), None),
        };
        let mapping = MappingOptions {
            num_epochs,
            num_samples,
            max_length: (self.input_seq_len - num_marks) as u32,
            short_seq_prob: self.short_seq_prob,
            seed: self.seed,
            min_sentences,
        };
        let size = self.vocabulary.build()?.vocab_size();
        // SeqIO's WordPiece counts one more id, for unknown pieces.
        let num_unknown = usize::from(matches!(self.vocabulary, VocabularySpec::BertWordPiece(_)));
        Ok(BertSamples::new(BertOptions {
            prefix: Path::parse(prefix)?,
            name: self.name.clone(),
            mapping,
            input_seq_len: self.input_seq_len,
            mlm_prob: self.mlm_prob,
            use_nsp: self.use_nsp,
            vocabulary: self.vocabulary.clone(),
            num_ids: size - num_unknown,
        }))
    }

    fn check(&self, split: &str) -> Result<(), DataError> {
        let is_share = |share: f64| (0.0..=1.0).contains(&share);
        let found = if split == TRAIN && (self.n_epochs, self.n_samples) == (None, None) {
            "needs `n_epochs` or `n_samples`".to_string()
        } else if self.n_epochs == Some(0) {
            "has n_epochs 0, expected at least 1, or None".to_string()
        } else if self.n_samples == Some(0) {
            "has n_samples 0, expected at least 1, or None".to_string()
        } else if !is_share(self.mlm_prob) || !is_share(self.short_seq_prob) {
            let (mlm_prob, short_seq_prob) = (self.mlm_prob, self.short_seq_prob);
            format!(
                "has mlm_prob {mlm_prob} and short_seq_prob {short_seq_prob}, expected shares from 0 to 1"
            )
        } else if self.input_seq_len < 5 || self.input_seq_len > i32::MAX as usize {
            format!("has input_seq_len {}, expected at least 5", self.input_seq_len)
        } else if self.seed >= i32::MAX as u32 {
            format!("has seed {}, expected one below {}", self.seed, i32::MAX)
        } else {
            return Ok(());
        };
        Err(DataError::Config(format!("`megatron.BertDataset` {found}")))
    }
}

/// The samples as a file, to whose name a saved position belongs.
pub(super) fn split_of(samples: Samples) -> SplitFiles {
    let file = SourceFile::new(samples.place(), Format::Samples(Arc::new(samples)));
    SplitFiles::new(vec![file], RecordParser::of_columns(None))
}

impl Source for BertDataset {
    fn splits(&self, _: &str) -> Result<Vec<String>, DataError> {
        Ok(self.split_to_prefix.keys().cloned().collect())
    }

    fn written_splits(&self) -> Option<Vec<String>> {
        Some(self.split_to_prefix.keys().cloned().collect())
    }

    fn split(&self, task: &str, split: &str) -> Result<SplitFiles, DataError> {
        Ok(split_of(Samples::one(self.samples(task, split)?)))
    }

    fn num_input_examples(&self, _: &str) -> Option<u64> {
        None
    }
}
