//! Additions of low rank to kernels (LoRA, Hu et al. 2021, arXiv:2106.09685).

use tch::{Kind, Tensor};

use super::dropout::Dropout;
use super::params::Params;
use super::profiler::{Activity, part};
use super::shard::MeshDim;
use super::spec::LowRankScale;

/// The addition to one kernel: two factors in the compute dtype.
#[derive(Debug)]
pub struct LowRank {
    first: Tensor,  // [in, rank]
    second: Tensor, // [rank, out]
    factor: f64,
    dropout_rate: f64,
    /// Whether each process along the model axis has some of the kernel's inputs, instead of some of its results.
    divides_inputs: bool,
}

impl LowRank {
    /// Reads the factors beside `{path}/kernel`, if it has some.
    pub fn new(params: &Params, path: &str, kind: Kind, scale: LowRankScale) -> Option<Self> {
        let names = names(path);
        let rank = params.find(&names[0])?.size()[1];
        let shards = names.clone().map(|name| params.shard(&name));
        let model = &params.division().axes.model;
        let read = |index: usize| {
            let factor = params.cast(&names[index], kind);
            // A whole factor, of whose use each process has a part.
            let is_whole = shards[index].dim(MeshDim::Model).is_none();
            if is_whole { model.shared(&factor) } else { factor }
        };
        Some(Self {
            first: read(0),
            second: read(1),
            factor: scale.alpha / rank as f64,
            dropout_rate: scale.dropout_rate,
            divides_inputs: shards[0].dim(MeshDim::Model).is_some(),
        })
    }

    /// Returns the addition to a kernel whose results are divided by that factor.
    pub fn over(self, divisor: f64) -> Self {
        Self { factor: self.factor / divisor, ..self }
    }

    /// Returns the addition to the kernel's product: `[.., in]` to `[.., out]`. In training some inputs are dropped.
    pub fn of(&self, inputs: &Tensor, dropout: Dropout) -> Tensor {
        let dropout = dropout.with_rate(self.dropout_rate);
        let inputs = match (self.dropout_rate, self.divides_inputs) {
            (0.0, _) => inputs.shallow_clone(),
            (_, true) => dropout.apply_to_columns(inputs.shallow_clone()),
            (_, false) => dropout.apply_along_length(inputs.shallow_clone()),
        };
        let _part = part(Activity::Products);
        inputs.matmul(&self.first).matmul(&self.second) * self.factor
    }

    /// Returns the addition to the kernel itself: `[in, out]`.
    pub fn kernel(&self) -> Tensor {
        self.first.matmul(&self.second) * self.factor
    }
}

/// The names of the factors beside `{path}/kernel`.
fn names(path: &str) -> [String; 2] {
    ["lora_a", "lora_b"].map(|name| format!("{path}/{name}"))
}
