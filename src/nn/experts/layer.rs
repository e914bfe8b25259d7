//! A block of experts over activations.

use std::sync::Arc;

use tch::{Kind, Tensor};

use super::routing::{Places, RoutingReport, Scored};
use super::spec::{ExpertsSpec, RoutingMode, TokenGroups};
use crate::nn::autograd::custom_function;
use crate::nn::products::{keep, recall};
use crate::nn::profiler::{Activity, part};
use crate::nn::{Activation, Axis, Division, Dropout, Joined, activated, kind};

/// The parameters of a block of experts. Processes may divide the experts, and those along the model axis have parts of
/// `mlp`.
#[derive(Debug)]
pub struct ExpertKernels {
    /// The router's projection, in the format of its scores: `[embed, experts]`.
    pub router: Tensor,
    /// The bias of the router's scores, if it has one: `[experts]`.
    pub router_bias: Option<Tensor>,
    /// The input kernel of each activation, in the format of experts: `[experts, embed, mlp]`.
    pub inputs: Vec<Tensor>,
    /// The output kernel: `[experts, mlp, embed]`.
    pub output: Tensor,
    /// The processes that divide the experts; kernels are of this one's.
    pub axis: Axis,
}

/// A block of experts.
#[derive(Debug)]
pub struct Experts {
    spec: ExpertsSpec,
    activations: Vec<Activation>,
    router: Tensor,              // [embed, experts]
    router_bias: Option<Tensor>, // [experts]
    inputs: Tensor,              // side by side: [own experts, embed, activations * mlp]
    output: Tensor,              // [own experts, mlp, embed]
    axis: Axis,                  // the processes with the other experts
    division: Arc<Division>,
}

impl Experts {
    /// Lays out the parameters for products.
    pub fn new(
        spec: &ExpertsSpec,
        activations: &[Activation],
        kernels: ExpertKernels,
        division: &Arc<Division>,
    ) -> Self {
        let ExpertKernels { router, router_bias, inputs, output, axis } = kernels;
        let inputs = match &inputs[..] {
            [one] => one.shallow_clone(),
            several => Tensor::cat(several, -1),
        };
        let (spec, activations) = (spec.clone(), activations.to_vec());
        let division = Arc::clone(division);
        Self { spec, activations, router, router_bias, inputs, output, axis, division }
    }

    /// Maps normed activations, `[batch, length, embed]` or `[batch, embed]`, to the same shape. Rows are those of the
    /// part of a batch that `dropout` names; padding is zeros.
    pub fn forward(&self, normal: &Tensor, dropout: Dropout) -> (Tensor, RoutingReport) {
        let _part = part(Activity::Products);
        let entered = self.division.entered(normal);
        let batch = match entered.dim() {
            2 => entered.unsqueeze(1),
            _ => entered.shallow_clone(),
        };
        let (rows, length, embed) = batch.size3().expect("activations have three axes");
        let mode = match dropout.is_training() {
            true => RoutingMode::Training,
            false => RoutingMode::Evaluation,
        };
        let groups = self.spec.groups((rows as usize, length as usize), dropout.parts(), mode);
        let [more_length, more_rows] = [groups.length as i64 - length, groups.rows as i64 - rows];
        let padded = batch.constant_pad_nd([0, 0, 0, more_length, 0, more_rows]);
        let tokens = padded.reshape([-1, embed]);
        let (places, report) = self.route(&tokens, &groups, dropout);
        let outputs = self.compute(&self.dispatch(&tokens, &places, &groups), dropout);
        let results = self.combine(&outputs, &places, &groups).to_kind(normal.kind());
        let results = results.view([groups.rows as i64, groups.length as i64, embed]);
        let results = results.narrow(0, 0, rows).narrow(1, 0, length);
        (self.left(results.reshape(entered.size())), report)
    }

    /// Scores tokens `[tokens, embed]`, and gives them places.
    fn route(
        &self,
        tokens: &Tensor,
        groups: &TokenGroups,
        dropout: Dropout,
    ) -> (Places, RoutingReport) {
        let (router, model) = (&self.spec.router, &self.division.axes.model);
        let size = [groups.count as i64, groups.size as i64, tokens.size()[1]];
        // Scores are computed of float32, whatever the format of activations.
        let inputs = dropout.noisy(tokens.to_kind(Kind::Float).view(size), router.jitter_noise);
        let kernel = model.shared(&self.router);
        let scores = inputs.to_kind(kernel.kind()).matmul(&kernel);
        let logits = match &self.router_bias {
            Some(bias) => scores + model.shared(bias),
            None => scores,
        };
        let logits = logits.to_kind(Kind::Float);
        let real = router.ignore_padding_tokens.then(|| {
            let size = tokens.abs().sum_dim_intlist(-1, false, Kind::Float);
            size.gt(0).to_kind(Kind::Float).view([groups.count as i64, -1])
        });
        let scored = Scored { groups, logits: &logits, real: real.as_ref() };
        let (places, report) = router.route(&scored);
        let weights = places.weights.to_kind(kind(router.dtype));
        // All processes along the model axis report the same, and gradients of what they share are summed.
        let report = RoutingReport(with_gradient_times(report.0, 1.0 / model.size() as f64));
        (Places { weights, ..places }, report)
    }

    /// Moves tokens `[tokens, embed]` to their places: `[experts, groups * capacity, embed]`.
    fn dispatch(&self, tokens: &Tensor, places: &Places, groups: &TokenGroups) -> Tensor {
        let (by_group, num_places) = self.by_group(groups);
        let embed = tokens.size()[1];
        let entries = tokens.index_select(0, &places.tokens);
        let buffers = Tensor::zeros([num_places + 1, embed], (tokens.kind(), tokens.device()));
        // Tokens without a place share one after the last.
        let buffers = buffers.index_add(0, &places.places, &entries).narrow(0, 0, num_places);
        let by_expert = buffers.view([by_group[0], by_group[1], by_group[2], embed]);
        by_expert.transpose(0, 1).reshape([by_group[1], -1, embed])
    }

    /// Computes all experts, each on its process: `[experts, places, embed]` to the same shape.
    fn compute(&self, inputs: &Tensor, dropout: Dropout) -> Tensor {
        let (experts, places, embed) = inputs.size3().expect("buffers have three axes");
        let count = self.axis.size() as i64;
        let own = experts / count;
        let sent = self.axis.exchanged(&inputs.to_kind(self.inputs.kind()));
        let arrived = sent.view([count, own, places, embed]).transpose(0, 1);
        let results = self.compute_own(&arrived.reshape([own, count * places, embed]), dropout);
        let by_process = results.view([own, count, places, embed]).transpose(0, 1);
        self.axis.exchanged(&by_process.reshape([experts, places, embed]))
    }

    /// Computes this process's experts: `[own experts, places, embed]` to the same shape.
    fn compute_own(&self, inputs: &Tensor, dropout: Dropout) -> Tensor {
        let hidden = Joined::new(vec![inputs.bmm(&self.inputs)], self.activations.len());
        let hidden = activated(&self.activations, &hidden);
        // An expert has one mask for all its places; the mask is that of a part of the experts, and of no part of the batch.
        let dropout = dropout.with_rate(self.spec.dropout_rate);
        let dropout = dropout.of_part(self.axis.index(), self.axis.size());
        dropout.apply_to_columns(hidden).bmm(&self.output)
    }

    /// Returns the weighted sum of the results of each token: `[tokens, embed]` in the format of weights.
    fn combine(&self, outputs: &Tensor, places: &Places, groups: &TokenGroups) -> Tensor {
        let (by_group, num_places) = self.by_group(groups);
        let embed = outputs.size()[2];
        let by_group = outputs.view([by_group[1], by_group[0], by_group[2], embed]).transpose(0, 1);
        let by_place = by_group.reshape([num_places, embed]).to_kind(places.weights.kind());
        // The result without a place is 0.
        let by_place = by_place.constant_pad_nd([0, 0, 0, 1]);
        let entries = by_place.index_select(0, &places.places) * places.weights.unsqueeze(-1);
        let num_tokens = (groups.count * groups.size) as i64;
        Tensor::zeros([num_tokens, embed], (entries.kind(), entries.device())).index_add(
            0,
            &places.tokens,
            &entries,
        )
    }

    /// Returns the extents of buffers, groups, experts and capacity, and their product.
    fn by_group(&self, groups: &TokenGroups) -> ([i64; 3], i64) {
        let extents = [groups.count, self.spec.num_experts, groups.capacity].map(|n| n as i64);
        (extents, extents.iter().product())
    }

    /// Returns the result as the residual stream takes it. A layer that is made again takes the last one from memory.
    fn left(&self, result: Tensor) -> Tensor {
        if !self.division.axes.model.is_alone() {
            return self.division.left(result);
        }
        if recall().is_none() {
            keep(&result);
        }
        result
    }
}

/// Returns a tensor whose gradient is multiplied by that factor.
fn with_gradient_times(tensor: Tensor, factor: f64) -> Tensor {
    if factor == 1.0 {
        return tensor;
    }
    let scaled = move |gradients: Vec<Tensor>| vec![&gradients[0] * factor];
    custom_function(&[&tensor], vec![tensor.data()], scaled).remove(0)
}
