//! The parts that both models with experts share.

use crate::gin::Parameters;
use crate::models::loss::RoutingLosses;
use crate::models::transformer::{StackSpec, TransformerSpec};

/// Defines the methods of `BaseModel` that are those of the model without experts, `self.model()`, a copy, or of `self.shared.module`,
/// and the losses and the check of routers. The caller's `NAME` names its configurable.
macro_rules! as_without_experts {
    () => {
        fn check(&self) -> Result<(), String> {
            self.model().check()?;
            check_experts(&self.transformer(), NAME)
        }

        fn check_training(&self) -> Result<(), String> {
            self.model().check_training()
        }

        fn dimensions(&self) -> DimensionNames {
            self.shared.module.dimensions()
        }

        fn feature_converter(&self) -> ConverterClass {
            self.model().feature_converter()
        }

        fn prediction_converter(&self) -> ConverterClass {
            self.model().prediction_converter()
        }

        fn step_shape(&self, rows: usize, lengths: &Lengths) -> Result<StepShape, DataError> {
            self.model().step_shape(rows, lengths)
        }

        fn optimizer_def(&self) -> &OptimizerDef {
            &self.shared.optimizer_def
        }

        fn loss_spec(&self) -> LossSpec {
            LossSpec { routing: Some(self.routing.losses()), ..self.model().loss_spec() }
        }

        fn prediction(&self, eos_id: i64) -> Prediction {
            self.model().prediction(eos_id)
        }

        fn returns_all_decodes(&self) -> bool {
            self.predict_batch_with_aux.return_all_decodes
        }

        fn returns_intermediates(&self) -> bool {
            self.score_batch.return_intermediates
        }

        fn transformer(&self) -> TransformerSpec {
            self.shared.module.transformer()
        }
    };
}
pub(super) use as_without_experts;

/// Weights of the losses of routers. Source: T5X `contrib/moe/models.py`.
#[derive(Clone, Debug, PartialEq, Parameters)]
pub struct RoutingLossFactors {
    /// Weight of the loss that balances the load of experts, averaged over layers (Fedus et al. 2021, arXiv:2101.03961).
    #[gin(default = 0.0, limit = NonNegative)]
    pub aux_loss_factor: f64,
    /// Weight of the loss that keeps the scores of routers small, averaged over layers (Zoph et al. 2022,
    /// arXiv:2202.08906).
    #[gin(default = 0.0, limit = NonNegative)]
    pub router_z_loss_factor: f64,
}

impl RoutingLossFactors {
    /// The losses with these weights.
    pub(super) fn losses(&self) -> RoutingLosses {
        let Self { aux_loss_factor, router_z_loss_factor } = *self;
        RoutingLosses { aux_loss_factor, router_z_loss_factor, share: 1.0 }
    }
}

/// Finds a network without experts, whose routers have no losses; `model` names the configurable.
///
/// # Errors
/// No layer has experts.
pub(super) fn check_experts(spec: &TransformerSpec, model: &str) -> Result<(), String> {
    let num_sparse = |stack: &StackSpec| {
        stack.sparse.as_ref().map_or(0, |sparse| sparse.count(stack.num_layers))
    };
    match spec.stacks().map(num_sparse).sum::<usize>() {
        0 => Err(format!(
            "no layer of {model}.module has experts, expected some: set num_sparse_layers of \
             moe_architecture.SparseEncoder or SparseDecoder, or use the model without `Moe`"
        )),
        _ => Ok(()),
    }
}
