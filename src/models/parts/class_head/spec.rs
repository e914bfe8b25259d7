//! The description of a head of classes. Sources: transformers `modeling_bert.py` (`BertPooler`) and `modeling_t5.py`
//! (`T5ClassificationHead`).

use crate::models::parts::{StreamDims, biased_kernel};
use crate::nn::{Initializer, ParamSpec};

/// Two projections, with tanh and perhaps dropout between them. Both have biases, which begin with 0.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ClassHead {
    /// The stream that it reads.
    pub stream: StreamDims,
    /// The position that it reads.
    pub reads: ReadPosition,
    /// Path of the projection to classes, `[embed, classes]`.
    pub path: &'static str,
    /// Number of classes.
    pub num_classes: usize,
    /// Probability that a number between the projections, or of a last token before them, is dropped in training.
    pub dropout_rate: f64,
    /// The initial values of both kernels.
    pub initializer: Initializer,
}

/// The position of a row whose hidden state says its class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadPosition {
    /// The first one, as of BERT's `[CLS]`.
    First,
    /// The last token's, as of T5's end of a sequence.
    LastToken,
}

/// Path of the first projection, `[embed, embed]`.
pub(super) const POOLER: &str = "pooler";

impl ClassHead {
    /// Its parameters.
    pub fn params(&self) -> Vec<ParamSpec> {
        let embed = self.stream.emb_dim;
        let projections = [(POOLER, embed, "pooled"), (self.path, self.num_classes, "classes")];
        let params = projections.into_iter().flat_map(|(path, width, axis)| {
            biased_kernel(path, [embed, width], ["embed", axis], self.initializer)
        });
        params.collect()
    }

    /// Operations of its products for so many rows.
    pub fn flops(&self, rows: usize) -> f64 {
        2.0 * (rows * self.stream.emb_dim * (self.stream.emb_dim + self.num_classes)) as f64
    }
}
