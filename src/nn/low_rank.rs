//! Additions of low rank to kernels (LoRA, Hu et al. 2021, arXiv:2106.09685).

use tch::{Kind, Tensor};

use super::dropout::Dropout;
use super::joined::Joined;
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

    /// Returns the inputs' product with the first factor: `[.., in]` to `[.., rank]`. In training some inputs are dropped.
    fn reduced(&self, inputs: &Tensor, dropout: Dropout) -> Tensor {
        // A mask for each position, as PEFT draws them.
        let dropout = dropout.with_rate(self.dropout_rate).of_each_position();
        let inputs = match self.divides_inputs {
            true => dropout.apply_to_columns(inputs.shallow_clone()),
            false => dropout.apply_along_length(inputs.shallow_clone()),
        };
        inputs.matmul(&self.first)
    }

    /// Returns the addition to the kernel itself: `[in, out]`.
    pub fn kernel(&self) -> Tensor {
        self.first.matmul(&self.second) * self.factor
    }
}

/// The additions to some of several kernels that multiply the same inputs and lie side by side.
#[derive(Debug)]
pub struct LowRanks {
    additions: Vec<LowRank>,
    /// The second factors, each in rows of its own and in the columns of its kernel: `[ranks, kernels * out]`.
    second: Tensor,
}

impl LowRanks {
    /// Joins the additions to kernels in order; `None` if no kernel has one.
    pub fn new(of_kernels: Vec<Option<LowRank>>) -> Option<Self> {
        let last = of_kernels.len() as i64 - 1;
        let in_columns = (0..).zip(&of_kernels).filter_map(|(place, addition)| {
            let LowRank { second, factor, .. } = addition.as_ref()?;
            let width = second.size()[1];
            Some((second * *factor).constant_pad_nd([place * width, (last - place) * width]))
        });
        let in_columns: Vec<Tensor> = in_columns.collect();
        let second = (!in_columns.is_empty()).then(|| Tensor::cat(&in_columns, 0))?;
        Some(Self { additions: of_kernels.into_iter().flatten().collect(), second })
    }

    /// Returns the kernels' products of these inputs with those of the additions.
    pub fn add(&self, products: Joined, inputs: &Tensor, dropout: Dropout) -> Joined {
        let _part = part(Activity::Products);
        let reduced = match &self.additions[..] {
            // The same inputs of all.
            [LowRank { dropout_rate: 0.0, .. }, ..] => {
                let firsts: Vec<&Tensor> = self.additions.iter().map(|it| &it.first).collect();
                inputs.matmul(&Tensor::cat(&firsts, 1))
            }
            additions => {
                let reduced = additions.iter().map(|it| it.reduced(inputs, dropout));
                Tensor::cat(&reduced.collect::<Vec<_>>(), -1)
            }
        };
        products.plus_product(&reduced, &self.second)
    }
}

/// The names of the factors beside `{path}/kernel`.
fn names(path: &str) -> [String; 2] {
    ["lora_a", "lora_b"].map(|name| format!("{path}/{name}"))
}
