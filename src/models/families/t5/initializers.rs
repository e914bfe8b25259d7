//! The first values of a T5's parameters.

use super::spec::T5Config;
use crate::gin::Configurable;
use crate::models::parts::{EMBEDDING_INIT, RelativeBias};
use crate::models::transformer::{LayerInitializers, kernel_init};
use crate::nn::{Distribution, FanMode, Initializer, RelativePosition};

/// The distributions of a T5's first values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Configurable)]
pub enum FirstValues {
    /// T5X's.
    T5x,
    /// Those of the T5 of transformers 4.0, which t5-experiments has too: Gaussians that are not cut, also for biases of
    /// relative position, and torch's own distribution of a linear map for a logits kernel.
    Transformers,
}

/// The initial values of all parameters.
pub(super) struct T5Initializers {
    pub layers: LayerInitializers,
    pub embedding: Initializer,
    pub logits: Initializer,
    pub rel_embedding: Initializer,
}

impl T5Initializers {
    pub fn of(config: &T5Config) -> Self {
        match config.initializers {
            FirstValues::T5x => Self::t5x(config),
            FirstValues::Transformers => Self::transformers(config),
        }
    }

    fn t5x(config: &T5Config) -> Self {
        let kernels = kernel_init(config.correct_truncation);
        Self {
            layers: LayerInitializers::t5(config.head_dim, kernels),
            embedding: EMBEDDING_INIT,
            logits: kernels,
            rel_embedding: RelativeBias::t5(RelativePosition::Causal).initializer,
        }
    }

    /// Source: t5-experiments `modeling_t5.py`, `T5PreTrainedModel._init_weights`.
    fn transformers(config: &T5Config) -> Self {
        let scaling = |scale, distribution| Initializer::VarianceScaling {
            scale,
            mode: FanMode::FanIn,
            distribution,
        };
        let (factor, kernels) = (config.initializer_factor, scaling(1.0, Distribution::Normal));
        Self {
            layers: LayerInitializers::t5(config.head_dim, kernels).times(factor),
            embedding: EMBEDDING_INIT.times(factor),
            // As in `torch.nn.Linear`: the factor does not reach it.
            logits: scaling(1.0 / 3.0, Distribution::Uniform),
            rel_embedding: Initializer::Normal { stddev: factor }.over_sqrt(config.emb_dim as f64),
        }
    }
}

impl T5Config {
    /// Finds a factor that scales nothing.
    ///
    /// # Errors
    /// The first values are not those that it scales.
    pub(super) fn check_initializers(&self) -> Result<(), String> {
        let factor = self.initializer_factor;
        match self.initializers == FirstValues::T5x && factor != 1.0 {
            true => Err(format!(
                "network.T5Config.initializer_factor is {factor}, expected 1.0 with initializers = 't5x', which it does \
                 not scale: set initializers = 'transformers', or leave the factor out"
            )),
            false => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_factor_without_effect_is_refused() {
        let config = T5Config { initializer_factor: 0.5, ..T5Config::t5_1_1_small() };
        assert!(config.check_initializers().unwrap_err().contains("initializer_factor is 0.5"));
        let scaled = T5Config { initializers: FirstValues::Transformers, ..config };
        assert_eq!(scaled.check_initializers(), Ok(()));
    }
}
