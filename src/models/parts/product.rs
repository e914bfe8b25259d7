//! Products of kernels in different layouts: training multiplies by kernels in the graph, predictions by packed ones.

use tch::{Kind, Tensor};

use super::kernel::{KernelScale, KernelSpec, ScaledSide};
use super::part::NormSpec;
use crate::nn::{
    Activation, BlockRows, Dropout, Joined, LayerNorm, Norm, NormKind, Params, Projection, RmsNorm,
};

/// Kernels that multiply the same inputs.
pub trait Product {
    /// Returns the norm of the stream, or without a norm the stream, as the kernels multiply it: `[.., embed]`.
    fn read(&self, stream: &mut ResidualStream, norm: Option<&Norm>) -> Tensor;

    /// Multiplies `inputs` `[.., in]` by the kernels: `[.., out]` of each. In training, `dropout` says how inputs of additions
    /// to kernels are dropped.
    fn of(&self, inputs: &Tensor, dropout: Dropout) -> Joined;

    /// Multiplies the norm of the stream, or without a norm the stream, by the kernels: `[.., out]` of each.
    fn of_stream(&self, stream: &mut ResidualStream, norm: Option<&Norm>) -> Joined {
        self.of(&self.read(stream, norm), stream.dropout)
    }

    /// Multiplies `inputs` by the one kernel, and adds the result to the stream.
    fn add(&self, inputs: &Tensor, stream: &mut ResidualStream);
}

/// Reads the parameters of a layer.
pub trait Load {
    /// The kernels of one product.
    type Product: Product;

    /// Reads a parameter of a norm of the stream: `[embed]`.
    fn of_norm(&self, path: &str) -> Tensor;

    /// Reads a parameter of a norm of activations of which processes along the model axis share the work: `[embed]`.
    fn of_shared_norm(&self, path: &str) -> Tensor;

    /// Reads the norm of the stream of that path.
    fn norm(&self, path: &str, spec: &NormSpec) -> Norm {
        norm(path, spec, &|name| self.of_norm(name))
    }

    /// Reads the norm of shared activations of that path.
    fn shared_norm(&self, path: &str, spec: &NormSpec) -> Norm {
        norm(path, spec, &|name| self.of_shared_norm(name))
    }

    /// Reads an embedding of relative positions, or learned rows.
    fn table(&self, path: &str) -> Tensor;

    /// Reads kernels with the same inputs.
    fn kernels(&self, specs: &[KernelSpec]) -> Self::Product;

    /// Reads kernels whose inputs are a whole encoding.
    fn context(&self, specs: &[KernelSpec]) -> Self::Product {
        self.kernels(specs)
    }

    /// The parameters, from which experts are read.
    fn params(&self) -> &Params;

    /// Reads the input kernels of a feed-forward block, and returns the activations that their
    /// product leaves to do.
    fn mlp_inputs(
        &self,
        specs: &[KernelSpec],
        activations: &[Activation],
    ) -> (Self::Product, Vec<Activation>) {
        (self.kernels(specs), activations.to_vec())
    }
}

impl KernelScale {
    /// Returns the kernel that has the same products as `kernel` `[in, out]` with the vector.
    pub fn within(&self, params: &Params, kernel: &Tensor) -> Tensor {
        let vector = params.cast(&self.name, kernel.kind()).reshape(-1);
        match self.side {
            ScaledSide::Inputs => kernel * vector.unsqueeze(1),
            ScaledSide::Results => kernel * vector,
        }
    }
}

/// The norm of that path, whose parameters `read` reads.
pub fn norm(path: &str, spec: &NormSpec, read: &dyn Fn(&str) -> Tensor) -> Norm {
    let (scale, epsilon) = (read(&format!("{path}/scale")), spec.epsilon);
    match spec.kind {
        NormKind::Rms => Norm::Rms(RmsNorm { scale, epsilon }),
        NormKind::Layer => {
            let bias = read(&format!("{path}/bias"));
            Norm::Layer(LayerNorm { scale, bias, epsilon })
        }
    }
}

/// The product of `inputs` `[.., in]` and the kernel of that path, with its bias: `[.., out]`.
pub fn biased_product(params: &Params, path: &str, inputs: &Tensor, kind: Kind) -> Tensor {
    let bias = params.cast(&format!("{path}/bias"), kind);
    Projection::new(params, path, kind).forward(inputs) + bias
}

/// Facts of rows that only some stacks need.
#[derive(Clone, Copy, Debug, Default)]
pub struct RowTensors<'a> {
    /// The positions that are not padding, for layers with experts: 1 or 0 `[batch, length, 1]`.
    pub real: Option<&'a Tensor>,
    /// The addend for scores of keys that all queries share, for heads whose queries depend on the row: `[batch or 1, 1,
    /// length or 1]`.
    pub keys: Option<&'a Tensor>,
    /// The blocks by which positions attend to neighbours. `attend` then also receives the projections of tokens
    /// beside the sequence.
    pub blocks: Option<&'a BlockRows>,
}

/// The residual stream, to which the result of the last block may not be added yet: its sum and its
/// norm are one operation in training.
#[derive(Debug)]
pub struct ResidualStream {
    /// `[.., embed]`
    pub sum: Tensor,
    /// `[.., embed]`
    pub branch: Option<Tensor>,
    /// Dropout of branches.
    pub dropout: Dropout,
    /// 1 at positions that are not padding, in stacks with experts, whose routers read padding as zeros: `[.., 1]`
    pub real: Option<Tensor>,
}

impl ResidualStream {
    /// Adds what is not added yet, and returns the norm of the sum, 0 at padding.
    pub fn normed(&mut self, norm: &Norm) -> Tensor {
        let normal = match self.branch.take() {
            None => norm.of(&self.sum),
            Some(branch) => {
                let (sum, normal) = norm.of_sum(&self.sum, &branch, self.dropout);
                self.sum = sum;
                normal
            }
        };
        match &self.real {
            Some(real) => normal * real,
            None => normal,
        }
    }

    /// Adds what is not added yet, and returns the sum.
    pub fn whole(&mut self) -> &Tensor {
        if let Some(branch) = self.branch.take() {
            self.sum = self.dropout.add_along_length(&self.sum, &branch);
        }
        &self.sum
    }

    /// Adds what is not added yet, and replaces the sum by its norm.
    pub fn normalize(&mut self, norm: &Norm) {
        self.sum = self.normed(norm);
    }
}
