//! A stack over whole sequences, with gradients.

use std::sync::Arc;

use tch::{Kind, Tensor};

use super::layer::{Layer, Passed};
use super::reach::{Embeddings, OwnBias, Visible};
use super::spec::{LayerDims, StackEnd, StackSpec};
use crate::models::parts::{
    AttentionBlock, KernelSpec, Load, Product, ResidualStream, Rotary, RowTensors, norm,
};
use crate::nn::{
    AttentionBias, AttentionDims, Block, Division, Dropout, Heads, Joined, Lookahead, LowRank,
    LowRankScale, LowRanks, Norm, Params, Projection, Projections, RoutingReport, Runs, attention,
    kind,
};

/// A stack's weights in the compute dtype.
#[derive(Debug)]
pub struct Stack {
    spec: Arc<StackSpec>,
    layers: Vec<Block<Layer<TrainedKernels>>>,
    division: Arc<Division>,
    embeddings: Embeddings, // of relative positions, that all layers share
    norm: Option<Norm>,
}

/// The result of an encoder, and the pairs of a decoder's positions and its own that may attend.
#[derive(Debug)]
pub struct Encoding {
    /// `[batch, inputs_length, embed]`
    pub hidden: Tensor,
    /// bool `[batch, 1, targets_length, inputs_length]`
    pub mask: Tensor,
    /// The same as runs, if the host knows them.
    pub runs: Option<Runs>,
}

/// Embedded tokens that enter a stack.
#[derive(Debug)]
pub struct StackInput<'a> {
    /// `[batch, length, embed]`
    pub embedded: Tensor,
    /// The positions of the stack that may attend to each other.
    pub visible: &'a Visible,
    /// The positions that are not padding, for a stack with experts: bool `[batch, length]`
    pub real: Option<Tensor>,
}

/// Receives the queries, keys and values of a layer's attention to its own positions.
type Watch<'a> = &'a mut dyn FnMut(usize, &Joined);

impl Stack {
    /// Reads the parameters of the stack, for a pass through it alone.
    pub fn new(spec: &StackSpec, params: &Params) -> Self {
        Self::among(&Arc::new(Lookahead::new(params, spec.layers())), spec, params)
    }

    /// Reads the parameters of the stack, for a pass through `layers`, of which it has some.
    pub fn among(layers: &Arc<Lookahead>, spec: &StackSpec, params: &Params) -> Self {
        let (division, kind) = (Arc::clone(params.division()), kind(spec.dims.dtype));
        let spec = Arc::new(spec.share(division.axes.model.size()));
        let layer = |index| {
            let (made, path) = (Arc::clone(&spec), spec.layer(index));
            let policy = (spec.dims.remat_policy, spec.dims.style.norm_comes_after);
            Block::new(policy, (layers, &path), move |params| {
                let lora = made.lora.as_ref().map(|lora| lora.scale());
                Layer::new(&made, index, &ForTraining { params, kind, lora })
            })
        };
        Self {
            layers: (0..spec.num_layers).map(layer).collect(),
            embeddings: Embeddings::new(&spec, |path| params.cast(path, kind)),
            norm: spec.last_norm().map(|path| {
                let read = |path: &str| division.of_stream(params.cast(path, kind));
                norm(&path, &spec.dims.stream().norm, &read)
            }),
            division,
            spec,
        }
    }

    /// Maps embedded tokens to hidden states of the same shape, for work that processes along the model axis divide.
    pub fn forward(
        &self,
        input: StackInput<'_>,
        encoding: Option<&Encoding>,
        dropout: Dropout,
    ) -> Passed {
        self.pass(input, encoding, dropout, &mut |_, _| ())
    }

    /// Does the same without an encoding, dropout and gradients, and passes on the queries, keys and
    /// values of each layer, each `[batch, length, num_heads * head_dim]`.
    pub fn watched(&self, input: StackInput<'_>, watch: Watch<'_>) {
        let _ = tch::no_grad(|| self.pass(input, None, Dropout::off(), watch));
    }

    fn pass(
        &self,
        input: StackInput<'_>,
        encoding: Option<&Encoding>,
        dropout: Dropout,
        watch: Watch<'_>,
    ) -> Passed {
        let StackInput { embedded, visible, real } = input;
        let mut routing = Vec::new();
        let real = real.map(|real| real.unsqueeze(-1).to_kind(embedded.kind()));
        let all_real = real.as_ref().map(Tensor::shallow_clone);
        let real = real.map(|real| self.division.stream(real));
        let length = embedded.size()[1];
        let shared = self.embeddings.biases(&self.spec, length);
        let has_cdq = self.spec.dims.num_cdq_heads > 0;
        let biases = Biases {
            own: OwnBias::new(&self.spec, visible, length, &shared),
            keys: has_cdq.then(|| visible.of_keys(embedded.kind())),
            cross: encoding.map(|encoding| {
                AttentionBias::new(None, &encoding.mask).over(encoding.runs.clone())
            }),
            dims: attention_dims(&self.spec.dims),
            rotary: self.spec.rotary,
            dropout_rate: self.spec.dims.style.attention_dropout_rate,
        };
        let encoded = encoding.map(|encoding| &encoding.hidden);
        let model = &self.division.axes.model;
        let dropout = dropout.of_columns(model.index(), model.size());
        let mut hidden = self.division.stream(dropout.apply_along_length(embedded));
        let of_stream = match self.division.splits_length {
            true => dropout.of_length(model.index(), model.size()),
            false => dropout,
        };
        for (index, layer) in self.layers.iter().enumerate() {
            let read = Read { encoded, real: real.as_ref(), dropout: of_stream };
            let passed = match layer {
                Block::Kept(layer) => {
                    biases.layer((index, layer), &hidden, read, &mut |joined| watch(index, joined))
                }
                Block::Remade(recipe) => {
                    let biases = biases.with_shared(&[]);
                    let real = real.as_ref().map(Tensor::shallow_clone);
                    let inputs: Vec<&Tensor> =
                        [&hidden].into_iter().chain(&shared).chain(encoded).collect();
                    let num_shared = shared.len();
                    let mut results = recipe.forward(&inputs, move |layer, inputs| {
                        let (shared, encoded) = inputs[1..].split_at(num_shared);
                        let biases = biases.with_shared(shared);
                        let encoded = encoded.first().copied();
                        let read = Read { encoded, real: real.as_ref(), dropout: of_stream };
                        let Passed { hidden, routing } =
                            biases.layer((index, layer), inputs[0], read, &mut |_| ());
                        let routing = routing.into_iter().map(|report| report.0);
                        [hidden].into_iter().chain(routing).collect()
                    });
                    let routing = results.split_off(1).into_iter().map(RoutingReport).collect();
                    Passed { hidden: results.remove(0), routing }
                }
            };
            hidden = passed.hidden;
            routing.extend(passed.routing);
        }
        let normal = self.norm.as_ref().map(|norm| norm.of(&hidden));
        let normal = self.division.entered(normal.as_ref().unwrap_or(&hidden));
        let hidden = match self.spec.end {
            StackEnd::Open | StackEnd::Norm => normal,
            StackEnd::NormAndDropout { is_shared: true } => dropout.apply_along_length(normal),
            StackEnd::NormAndDropout { is_shared: false } => dropout.apply(normal),
        };
        let hidden = match all_real {
            Some(real) => hidden * real,
            None => hidden,
        };
        Passed { hidden, routing }
    }
}

/// The addends for the scores of all layers; without that of relative positions if each layer has its own.
struct Biases {
    own: OwnBias,
    keys: Option<Tensor>, // for all queries of a row
    cross: Option<AttentionBias>,
    dims: AttentionDims,
    rotary: Option<Rotary>,
    dropout_rate: Option<f64>, // of attention weights, if they have their own
}

/// The other inputs of each layer.
#[derive(Clone, Copy)]
struct Read<'a> {
    encoded: Option<&'a Tensor>,
    real: Option<&'a Tensor>,
    dropout: Dropout,
}

impl Biases {
    /// The same with other handles of the biases that all layers share.
    fn with_shared(&self, shared: &[&Tensor]) -> Self {
        Self {
            own: self.own.with_shared(shared),
            keys: self.keys.as_ref().map(Tensor::shallow_clone),
            cross: self.cross.as_ref().map(|cross| cross.with_position(None)),
            ..*self
        }
    }

    /// Runs a layer; `watch` receives the projections of its own positions.
    fn layer(
        &self,
        (index, layer): (usize, &Layer<TrainedKernels>),
        hidden: &Tensor,
        Read { encoded, real, dropout }: Read<'_>,
        watch: &mut dyn FnMut(&Joined),
    ) -> Passed {
        // A layer's own view: its gradients are summed before those of other layers are added to
        // them, in the same way as when the layer is recomputed.
        let encoded = encoded.map(|encoded| encoded.view_as(encoded));
        let of_layer = layer.rel_embedding.as_ref().map(|embedding| self.own.of_layer(embedding));
        let own = of_layer.as_ref().unwrap_or(&self.own);
        let of_weights = self.dropout_rate.map_or(dropout, |rate| dropout.with_rate(rate));
        let mut attend = |block: &AttentionBlock<TrainedKernels>, projected: Joined| {
            let heads = |joined| Heads { joined, count: self.dims.num_heads };
            match (&block.context, &encoded, &self.cross) {
                (Some(context), Some(encoded), Some(cross)) => {
                    let mut wholes = projected.into_wholes();
                    wholes.extend(context.of(encoded, dropout).into_wholes());
                    attention(&heads(Joined::new(wholes, 3)), cross, &self.dims, of_weights)
                }
                _ => {
                    watch(&projected);
                    let turned = self.rotary.map(|it| it.turn(&projected, self.dims.num_heads));
                    own.attend(index, &heads(turned.unwrap_or(projected)), &self.dims, of_weights)
                }
            }
        };
        let rows = RowTensors { real, keys: self.keys.as_ref(), blocks: self.own.rows() };
        layer.forward(hidden.shallow_clone(), rows, dropout, &mut attend)
    }
}

/// Attention's dimensions in torch's integers.
pub(super) fn attention_dims(dims: &LayerDims) -> AttentionDims {
    AttentionDims {
        num_heads: dims.num_heads as i64,
        head_dim: dims.head_dim as i64,
        float32_logits: dims.float32_attention_logits,
    }
}

/// Reads kernels as parts of the graph.
struct ForTraining<'a> {
    params: &'a Params,
    kind: Kind,
    lora: Option<LowRankScale>,
}

impl ForTraining<'_> {
    fn projection(&self, spec: &KernelSpec) -> Projection {
        let projection = Projection::new(self.params, &spec.path, self.kind);
        let projection = match &spec.scale {
            Some(scale) => projection.with_kernel(|kernel| scale.within(self.params, kernel)),
            None => projection,
        };
        // T5X's contrib/gpu divides the query's input, which gives the same result.
        spec.divisor.into_iter().fold(projection, Projection::over)
    }

    /// The products of kernels that have a copy.
    fn of_copy(&self, specs: &[KernelSpec]) -> Option<Projections> {
        if specs.iter().any(|spec| spec.scale.is_some()) {
            return None;
        }
        let factors = specs.iter().map(|spec| spec.divisor.map_or(1.0, |divisor| 1.0 / divisor));
        let kernels = specs.iter().map(|spec| &spec.path[..]).zip(factors);
        Projections::of_copy(self.params, &kernels.collect::<Vec<_>>(), self.kind)
    }
}

impl Load for ForTraining<'_> {
    type Product = TrainedKernels;

    fn of_norm(&self, path: &str) -> Tensor {
        self.params.division().of_stream(self.params.cast(path, self.kind))
    }

    fn of_shared_norm(&self, path: &str) -> Tensor {
        self.params.division().axes.model.shared(&self.params.cast(path, self.kind))
    }

    fn table(&self, path: &str) -> Tensor {
        self.params.cast(path, self.kind)
    }

    fn params(&self) -> &Params {
        self.params
    }

    fn kernels(&self, specs: &[KernelSpec]) -> TrainedKernels {
        let projections = self.of_copy(specs).unwrap_or_else(|| {
            Projections::new(specs.iter().map(|spec| self.projection(spec)).collect())
        });
        let biases = specs.iter().filter(|spec| spec.has_bias).map(|spec| {
            let bias = self.params.cast(&format!("{}/bias", spec.path), self.kind);
            spec.divisor.into_iter().fold(bias, |bias, divisor| bias / divisor)
        });
        let addition = |spec: &KernelSpec| {
            let addition = LowRank::new(self.params, &spec.path, self.kind, self.lora?)?;
            Some(spec.divisor.into_iter().fold(addition, LowRank::over))
        };
        TrainedKernels {
            projections,
            biases: biases.collect(),
            additions: LowRanks::new(specs.iter().map(addition).collect()),
            division: Arc::clone(self.params.division()),
        }
    }
}

/// Kernels that multiply the same inputs; each process along the model axis has some columns of those that read the
/// stream, and the same rows of those that add to it.
#[derive(Debug)]
struct TrainedKernels {
    projections: Projections,
    biases: Vec<Tensor>, // of each, [out], or none
    additions: Option<LowRanks>,
    division: Arc<Division>,
}

impl TrainedKernels {
    /// The products of the kernels and of the additions to them.
    fn products(&self, inputs: &Tensor, dropout: Dropout) -> Joined {
        let products = self.projections.forward(inputs);
        match &self.additions {
            Some(additions) => additions.add(products, inputs, dropout),
            None => products,
        }
    }
}

impl Product for TrainedKernels {
    fn read(&self, stream: &mut ResidualStream, norm: Option<&Norm>) -> Tensor {
        match norm {
            Some(norm) => self.division.entered(&stream.normed(norm)),
            None => self.division.entered(stream.whole()),
        }
    }

    fn of(&self, inputs: &Tensor, dropout: Dropout) -> Joined {
        self.products(inputs, dropout).plus(&self.biases)
    }

    fn add(&self, inputs: &Tensor, stream: &mut ResidualStream) {
        let result = self.products(inputs, stream.dropout).into_wholes().pop();
        let sum = result.map(|result| self.division.left(result));
        // Added once to the sum of all processes.
        stream.branch = sum.map(|sum| match &self.biases[..] {
            [bias] => sum + self.division.of_stream(bias.shallow_clone()),
            _ => sum,
        });
    }
}
