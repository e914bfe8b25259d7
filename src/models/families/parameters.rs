//! Parameters that models of several families share.

use crate::gin::Parameters;
use crate::models::heads::{LossNormalizingFactor, LossSpec, RoutingLosses};
use crate::models::transformer::{StackSpec, TransformerSpec};

/// Parameters of the loss of predicted tokens. Source: T5X `models.py`.
#[derive(Clone, Debug, PartialEq, Parameters)]
pub struct LossParameters {
    /// Probability mass that the target gives to the other tokens.
    #[gin(default = 0.0, limit = BelowOne)]
    pub label_smoothing: f64,
    /// Weight of the squared logarithm of the softmax's normalizer, which keeps logits near 0.
    #[gin(default = 0.0, limit = NonNegative)]
    pub z_loss: f64,
    /// Divisor of the summed loss: a number, 'NUM_REAL_TARGET_TOKENS', 'NUM_TOTAL_TARGET_TOKENS',
    /// 'AVERAGE_PER_SEQUENCE' or `@gimlet.losses.mean_of_microbatches()`. None keeps the sum. Its
    /// scale has no effect on Adafactor; with experts, the losses of routers, which are means, are
    /// small beside it.
    #[gin(default = None)]
    pub loss_normalizing_factor: Option<LossNormalizingFactor>,
}

impl LossParameters {
    /// The loss, to which routers may add theirs.
    pub fn spec(&self, routing: Option<&RoutingLossFactors>) -> LossSpec {
        LossSpec {
            label_smoothing: self.label_smoothing,
            z_loss: self.z_loss,
            loss_normalizing_factor: self.loss_normalizing_factor,
            routing: routing.map(RoutingLossFactors::losses),
            ..LossSpec::default()
        }
    }
}

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
    fn losses(&self) -> RoutingLosses {
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

/// Defines the methods of `BaseModel` that `self.shared`, the parameters of the family, answers.
macro_rules! of_shared {
    () => {
        of_shared!(shared);

        fn feature_converter(&self) -> ConverterClass {
            self.shared.feature_converter()
        }

        fn step_shape(&self, rows: usize, lengths: &Lengths) -> Result<StepShape, DataError> {
            self.shared.step_shape(rows, lengths)
        }
    };
    // Those that do not depend on the features of tasks.
    ($($shared:ident).+) => {
        fn module(&self) -> &dyn ModuleSpec {
            &*self.$($shared).+.module
        }

        fn hugging_face(&self) -> Result<crate::checkpoint::HuggingFaceOptions, String> {
            crate::models::families::t5::hugging_face::stated(self)
        }

        fn vocabularies(&self) -> Vec<(&'static str, &VocabularySpec)> {
            self.$($shared).+.vocabularies()
        }

        fn lora(&self) -> Option<&crate::models::parts::LoRA> {
            self.$($shared).+.lora.as_ref()
        }

        fn optimizer_def(&self) -> &OptimizerDef {
            &self.$($shared).+.optimizer_def
        }
    };
}
pub(super) use of_shared;
