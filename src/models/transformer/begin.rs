//! The beginning of a forward pass.

use super::layer_arrays::LayerArrays;
use super::spec::TransformerSpec;
use crate::nn::Params;

impl TransformerSpec {
    /// Begins a forward pass: sets the format in which projections compute, and returns the parameters of separate
    /// layers.
    pub fn begin(&self, params: &Params) -> Params {
        let params = self.of_layers(params);
        params.begin_fp8(self.fp8.as_ref());
        params
    }

    /// Returns the parameters of separate layers, as parts of the graph, wherever they lie.
    pub fn of_layers(&self, params: &Params) -> Params {
        match self.layer_arrays {
            LayerArrays::Joined => params.clone(),
            LayerArrays::ByHead | LayerArrays::Stacked | LayerArrays::Fused => {
                params.of_layers(&self.param_tree())
            }
        }
    }
}
