//! The description of LoRA: additions of low rank to kernels.

use crate::checkpoint::{NamePatterns, NotAPattern};
use crate::gin::Configurable;
use crate::models::parts::param;
use crate::nn::{Distribution, FanMode, Initializer, LowRankScale, ParamSpec};

/// The axis between the two factors.
pub const RANK_AXIS: &str = "lora_rank";

/// The first values of a kernel's first factor: uniform up to `1 / sqrt(inputs)`, as PEFT draws them.
const FIRST_FACTOR: Initializer = Initializer::VarianceScaling {
    scale: 1.0 / 3.0,
    mode: FanMode::FanIn,
    distribution: Distribution::Uniform,
};

/// Additions of low rank to kernels, which are trained instead of them (Hu et al. 2021, arXiv:2106.09685). A kernel
/// `[in, out]` gets two factors beside it, `lora_a` `[in, rank]` and `lora_b` `[rank, out]`, and their product times
/// `alpha / rank` is added to it. The second factor begins with 0, so that a new model is the one without additions. The
/// optimizer decides what is trained: `gimlet/lora.gin` lets it update the factors alone.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "gimlet.LoRA")]
pub struct LoRA {
    /// Width between the two factors (PEFT: `r`).
    #[gin(default = 8)]
    pub rank: usize,
    /// The addition is multiplied by `alpha / rank` (PEFT: `lora_alpha`).
    #[gin(default = 16.0)]
    pub alpha: f64,
    /// Probability that an input of an addition is dropped in training (PEFT: `lora_dropout`).
    #[gin(default = 0.0, limit = BelowOne)]
    pub dropout_rate: f64,
    /// Regular expressions, of which one must match the whole path of a projection: `.*/(query|value)` matches
    /// `/encoder/layers_0/attention/query` (PEFT: `target_modules`, by transformers' names).
    #[gin(default = vec![".*/(query|value)".to_string()])]
    pub projections: Vec<String>,
}

impl LoRA {
    /// The factor of all additions, and the dropout of their inputs.
    pub fn scale(&self) -> LowRankScale {
        LowRankScale { alpha: self.alpha, dropout_rate: self.dropout_rate }
    }

    /// The factors beside those kernels, of the parameters of layers, that it chooses.
    pub fn params(&self, of_layers: &[ParamSpec]) -> Vec<ParamSpec> {
        // Patterns that are none are found by the check.
        let patterns = NamePatterns::new(&self.projections).unwrap_or_default();
        let chosen = of_layers.iter().filter_map(|param| {
            let path = projection(param)?;
            patterns.match_any(&format!("/{path}")).then(|| self.factors(path, param))
        });
        chosen.flatten().collect()
    }

    fn factors(&self, path: &str, kernel: &ParamSpec) -> [ParamSpec; 2] {
        let [(inputs, read), (outputs, written)] =
            [0, 1].map(|dim| (kernel.shape[dim], kernel.axes[dim]));
        let factor = |name, shape: [usize; 2], axes: [&'static str; 2], values| {
            param(format!("{path}/{name}"), shape.to_vec(), axes.to_vec(), values)
        };
        [
            factor("lora_a", [inputs, self.rank], [read, RANK_AXIS], FIRST_FACTOR),
            factor("lora_b", [self.rank, outputs], [RANK_AXIS, written], Initializer::ZEROS),
        ]
    }

    /// Finds values with which no addition can be made to a network with those parameters of layers.
    ///
    /// # Errors
    /// The first such value, with the expected ones.
    pub fn check(&self, of_layers: &[ParamSpec]) -> Result<(), String> {
        if self.rank == 0 {
            return Err("gimlet.LoRA.rank is 0, expected at least 1".to_string());
        }
        if let Err(NotAPattern { pattern, reason }) = NamePatterns::new(&self.projections) {
            return Err(format!(
                "`{pattern}` of gimlet.LoRA.projections is not a pattern: {reason}"
            ));
        }
        if self.params(of_layers).is_empty() {
            let known = of_layers.iter().filter_map(projection).map(|path| format!("/{path}"));
            let known: Vec<String> = known.take(8).collect();
            return Err(format!(
                "gimlet.LoRA.projections {:?} match no projection, expected patterns of whole paths, such as {}",
                self.projections,
                known.join(", ")
            ));
        }
        Ok(())
    }
}

/// The path of a projection of a layer, if the parameter is its kernel. Experts are no projections.
fn projection(param: &ParamSpec) -> Option<&str> {
    (param.shape.len() == 2).then(|| param.name.strip_suffix("/kernel")).flatten()
}
