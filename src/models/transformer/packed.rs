//! A stack for predictions: its weights are laid out once for products without gradients, those with
//! the same input as one.

use tch::{Device, Kind, Tensor};

use super::layer::Layer;
use super::spec::StackSpec;
use super::stack::attention_dims;
use crate::models::parts::{KernelSpec, Load, Product, ResidualStream, norm};
use crate::nn::{
    Activation, AttentionDims, Dropout, Joined, LowRank, LowRankScale, Norm, PackedKernel, Params,
    kind,
};

/// A stack's weights in the compute dtype.
#[derive(Debug)]
pub struct PackedStack {
    pub(super) spec: StackSpec,
    pub(super) layers: Vec<Layer<PackedKernels>>,
    pub(super) rel_embedding: Option<Tensor>, // that all layers share
    pub(super) norm: Norm,
    pub(super) kind: Kind,
    pub(super) dims: AttentionDims,
}

impl PackedStack {
    /// Reads the parameters of the stack, for products with `rows` rows.
    ///
    /// # Panics
    /// It does not end in a norm, or its projections have biases.
    pub fn new(spec: &StackSpec, params: &Params, rows: i64) -> Self {
        let last_norm = spec.last_norm().expect("a stack for predictions ends in a norm");
        let kind = kind(spec.dims.dtype);
        let lora = spec.lora.as_ref().map(|lora| lora.scale());
        let load = ForPrediction { params, kind, rows, lora };
        Self {
            layers: (0..spec.num_layers).map(|index| Layer::new(spec, index, &load)).collect(),
            rel_embedding: spec.shared_rel_embedding().map(|path| params.cast(&path, kind)),
            norm: norm(&last_norm, &spec.dims.stream().norm, &|path| params.cast(path, kind)),
            kind,
            dims: attention_dims(&spec.dims),
            spec: spec.clone(),
        }
    }

    /// The embedding of relative positions that all layers share, or that of each layer.
    pub(super) fn rel_embeddings(&self) -> impl Iterator<Item = &Tensor> {
        self.rel_embedding.iter().chain(self.layers.iter().flat_map(|layer| &layer.rel_embedding))
    }

    /// Whether it encodes whole sequences.
    pub fn suits_sequences(spec: &StackSpec, device: Device) -> bool {
        // Routers need the batch with its padding, and queries that depend on the row, as learned rows in layers, need rows of
        // one length.
        let has_lengths = spec.dims.num_cdq_heads > 0 || spec.layer_rows.is_some();
        spec.sparse.is_none() && !has_lengths && !device.is_cuda()
    }
}

/// Kernels side by side, or a gate with what it gates.
#[derive(Debug)]
pub struct PackedKernels {
    /// The packed kernel.
    pub kernel: PackedKernel,
    count: usize, // results of a product
}

impl Product for PackedKernels {
    fn of_stream(&self, stream: &mut ResidualStream, norm: Option<&Norm>) -> Joined {
        match norm {
            Some(Norm::Rms(norm)) => {
                Joined::new(vec![self.kernel.apply_to_normal(&stream.sum, norm)], self.count)
            }
            _ => self.of(&self.read(stream, norm), stream.dropout),
        }
    }

    fn read(&self, stream: &mut ResidualStream, norm: Option<&Norm>) -> Tensor {
        norm.map_or_else(|| stream.sum.shallow_clone(), |norm| norm.of(&stream.sum))
    }

    fn of(&self, inputs: &Tensor, _: Dropout) -> Joined {
        Joined::new(vec![self.kernel.apply(inputs)], self.count)
    }

    fn add(&self, inputs: &Tensor, stream: &mut ResidualStream) {
        stream.sum = self.kernel.apply_and_add(inputs, &stream.sum);
    }
}

/// Reads kernels for products with so many rows.
struct ForPrediction<'a> {
    params: &'a Params,
    kind: Kind,
    rows: i64,
    lora: Option<LowRankScale>,
}

impl ForPrediction<'_> {
    /// Reads a kernel with the addition to it.
    fn whole(&self, path: &str) -> Tensor {
        let kernel = self.params.read(&format!("{path}/kernel"));
        let addition = |scale| LowRank::new(self.params, path, Kind::Float, scale);
        match self.lora.and_then(addition) {
            None => kernel,
            Some(addition) => kernel + addition.kernel(),
        }
    }

    fn read(&self, specs: &[KernelSpec]) -> Vec<Tensor> {
        let kernel = |spec: &KernelSpec| {
            assert!(!spec.has_bias, "packed kernels have no biases");
            let kernel = self.whole(&spec.path);
            let kernel = match &spec.scale {
                Some(scale) => scale.within(self.params, &kernel),
                None => kernel,
            };
            let kernel = kernel.to_kind(self.kind);
            spec.divisor.into_iter().fold(kernel, |kernel, divisor| kernel / divisor)
        };
        specs.iter().map(kernel).collect()
    }

    fn pack(&self, specs: &[KernelSpec], rows: i64) -> PackedKernels {
        let kernel = PackedKernel::new(&Tensor::cat(&self.read(specs), 1), rows);
        PackedKernels { kernel, count: specs.len() }
    }
}

impl Load for ForPrediction<'_> {
    type Product = PackedKernels;

    fn of_norm(&self, path: &str) -> Tensor {
        self.params.cast(path, self.kind)
    }

    fn of_shared_norm(&self, path: &str) -> Tensor {
        self.of_norm(path)
    }

    fn table(&self, path: &str) -> Tensor {
        self.params.cast(path, self.kind)
    }

    fn kernels(&self, specs: &[KernelSpec]) -> PackedKernels {
        self.pack(specs, self.rows)
    }

    fn params(&self) -> &Params {
        self.params
    }

    fn context(&self, specs: &[KernelSpec]) -> PackedKernels {
        self.pack(specs, PackedKernel::MANY_ROWS)
    }

    fn mlp_inputs(
        &self,
        specs: &[KernelSpec],
        activations: &[Activation],
    ) -> (PackedKernels, Vec<Activation>) {
        match (activations, &self.read(specs)[..]) {
            ([Activation::Gelu, Activation::Linear], [gate, linear]) => {
                let kernel = PackedKernel::gated_gelu([gate, linear], self.rows);
                (PackedKernels { kernel, count: 1 }, Vec::new())
            }
            _ => (self.kernels(specs), activations.to_vec()),
        }
    }
}
