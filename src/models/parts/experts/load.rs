//! Reads blocks of experts.

use tch::{Kind, Tensor};

use crate::models::parts::FeedForwardSpec;
use crate::nn::{ExpertKernels, Experts, Params, kind};

/// Reads the router and the experts of `block` in the layer of that path.
pub fn load_experts(block: &FeedForwardSpec, layer: &str, params: &Params) -> Experts {
    let spec = block.experts.as_ref().expect("it is a block of experts");
    let read = |path: &str, kind: Kind| params.cast(&format!("{path}/kernel"), kind);
    let (of_experts, of_router) = (kind(spec.dtype), kind(spec.router.weights_dtype));
    let (router, output) = (block.router(layer), block.output(layer).path);
    let inputs: Vec<Tensor> =
        block.inputs(layer).iter().map(|input| read(&input.path, of_experts)).collect();
    let kernels = ExpertKernels {
        router: read(&router, of_router),
        router_bias: (spec.router.use_bias)
            .then(|| params.cast(&format!("{router}/bias"), of_router)),
        inputs,
        axis: params.division().exchange(&params.shard(&format!("{output}/kernel"))),
        output: read(&output, of_experts),
    };
    Experts::new(spec, &block.activations, kernels, params.division())
}
