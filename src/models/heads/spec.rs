//! The loss as gin binds it.

use std::collections::BTreeMap;

use crate::gin::{
    Configurable, Diagnostic, Evaluator, FromGin, Registry, Reported, Value, ValueKind,
    did_you_mean, one_of,
};

/// The divisor of the summed loss. T5X `losses.py`, `SpecialLossNormalizingFactor`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum LossNormalizingFactor {
    /// A number, such as the targets in a full batch.
    Constant(f64),
    /// The sum of the batch's loss weights.
    NumRealTargetTokens,
    /// Rows times length of the targets, padding included.
    NumTotalTargetTokens,
    /// Each sequence's weights are divided by their sum, and the loss by the number of sequences.
    AveragePerSequence,
    /// Each micro-batch's weights are divided by their sum, and the loss by the number of micro-batches.
    MeanOfMicrobatches(MeanOfMicrobatches),
}

/// The mean of the means over micro-batches, which all count alike, however many targets they have. It does not depend on
/// `trainer.Trainer.num_microbatches` or the number of processes, each of which must compute whole micro-batches at a
/// time. A loss normalizing factor of models. Source: t5-experiments `lm_experiments_tools/trainer.py`, which accumulates
/// gradients in this way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Configurable)]
#[gin(name = "gimlet.losses.mean_of_microbatches")]
pub struct MeanOfMicrobatches {
    /// Rows of a micro-batch. A batch is cut into micro-batches of consecutive rows.
    pub rows: usize,
    /// The divisor of a batch in which some micro-batches have no targets, as at the end of a pass over the data
    /// (`utils.DatasetConfig.ends_batch_with_pass`): 'real', the number of those that have some, or 'upstream', the
    /// number of all, as in t5-experiments, which makes the loss and the gradients of such a batch smaller.
    #[gin(default = PartialBatches::Real)]
    pub partial_batches: PartialBatches,
}

/// The number of micro-batches by which a loss is divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Configurable)]
pub enum PartialBatches {
    /// Those with targets.
    Real,
    /// All that the batch has room for.
    Upstream,
}

/// The spellings of the special factors; case does not matter.
const SPECIAL: [(&str, LossNormalizingFactor); 3] = [
    ("NUM_REAL_TARGET_TOKENS", LossNormalizingFactor::NumRealTargetTokens),
    ("NUM_TOTAL_TARGET_TOKENS", LossNormalizingFactor::NumTotalTargetTokens),
    ("AVERAGE_PER_SEQUENCE", LossNormalizingFactor::AveragePerSequence),
];

impl FromGin for LossNormalizingFactor {
    fn expected() -> String {
        let special = one_of(&SPECIAL.map(|(name, _)| name));
        format!("a number, {special}, or {}", MeanOfMicrobatches::expected())
    }

    fn from_gin(value: &Value, cx: &mut Evaluator<'_>) -> Result<Self, Reported> {
        let ValueKind::Str(text) = &value.kind else {
            return match value.kind {
                ValueKind::Int(_) | ValueKind::Float(_) => cx.read(value).map(Self::Constant),
                ValueKind::Reference(_) => cx.read(value).map(Self::MeanOfMicrobatches),
                _ => Err(cx.mismatch(value, &Self::expected())),
            };
        };
        let name = text.to_uppercase();
        let found = SPECIAL.iter().find(|(special, _)| *special == name);
        found.map(|(_, factor)| *factor).ok_or_else(|| {
            let message = format!("expected {}, found '{text}'", Self::expected());
            let help = did_you_mean(&name, SPECIAL.iter().map(|(special, _)| *special));
            cx.report(Diagnostic::error(value.span, message).help(help))
        })
    }

    fn register(registry: &mut Registry) {
        MeanOfMicrobatches::register(registry);
    }
}

/// The parameters of the loss, as bound on the model.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LossSpec {
    /// Probability mass that the target gives to the other tokens.
    pub label_smoothing: f64,
    /// Weight of the squared logarithm of the softmax's normalizer.
    pub z_loss: f64,
    /// Divisor of the summed loss; `None` leaves the sum.
    pub loss_normalizing_factor: Option<LossNormalizingFactor>,
    /// The divisors of the whole batch, when losses of its parts are to add up to the batch's.
    pub divisors: Divisors,
    /// The losses of routers, if they count.
    pub routing: Option<RoutingLosses>,
}

/// The divisor of the loss of each head that has one, by the feature that the head predicts.
pub type Divisors = BTreeMap<&'static str, f64>;

/// The parts that losses of routers have in that of a model. Source: T5X `contrib/moe/models.py`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RoutingLosses {
    /// Weight of the loss that balances the load of experts.
    pub aux_loss_factor: f64,
    /// Weight of the loss that keeps the scores of routers small.
    pub router_z_loss_factor: f64,
    /// The batch at hand as a share of the whole one, when losses of its parts are to add up to the batch's.
    pub share: f64,
}

impl LossSpec {
    /// Returns the tag of the loss that a reader is told: that of a token. A loss with a divisor of its own is told as it is,
    /// since T5X's loss of a token is then divided twice.
    pub fn told(&self) -> &'static str {
        match self.loss_normalizing_factor {
            None => "loss_per_nonpadding_target_token",
            Some(_) => "loss",
        }
    }

    /// Whether the losses of parts, each computed alone, add up to another number than the loss of the whole batch.
    pub fn depends_on_parts(&self) -> bool {
        use LossNormalizingFactor::{Constant, MeanOfMicrobatches};
        let adds_up =
            |it: &LossNormalizingFactor| matches!(it, Constant(_) | MeanOfMicrobatches(_));
        !self.loss_normalizing_factor.as_ref().is_none_or(adds_up) || self.routing.is_some()
    }

    /// Returns the number of rows that a part of a batch must have, or a multiple of it.
    pub fn rows_together(&self) -> usize {
        match self.loss_normalizing_factor {
            Some(LossNormalizingFactor::MeanOfMicrobatches(microbatches)) => microbatches.rows,
            _ => 1,
        }
    }

    /// Finds values with which no training can succeed; `model` names the configurable that sets them.
    ///
    /// # Errors
    /// The first such value.
    pub fn check(&self, model: &str) -> Result<(), String> {
        match self.loss_normalizing_factor {
            Some(LossNormalizingFactor::Constant(factor)) if factor <= 0.0 => Err(format!(
                "{model}.loss_normalizing_factor is {factor}, expected more than 0 \
                 (LOSS_NORMALIZING_FACTOR)"
            )),
            _ if self.rows_together() == 0 => {
                Err("losses.mean_of_microbatches.rows is 0, expected at least 1".to_string())
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gin::{Config, FileId, Registry, Span};

    fn check(kind: ValueKind, expected: Option<LossNormalizingFactor>) {
        let (config, registry) = (Config::default(), Registry::default());
        let mut evaluator = Evaluator::new(&config, &registry);
        let value = Value { kind, span: Span { file: FileId(0), start: 0, end: 1 } };
        assert_eq!(evaluator.read::<LossNormalizingFactor>(&value).ok(), expected);
    }

    #[test]
    fn factors_are_numbers_or_names_in_any_case() {
        check(ValueKind::from(233_472), Some(LossNormalizingFactor::Constant(233_472.0)));
        check(
            ValueKind::Str("num_real_target_tokens".to_string()),
            Some(LossNormalizingFactor::NumRealTargetTokens),
        );
        check(
            ValueKind::Str("AVERAGE_PER_SEQUENCE".to_string()),
            Some(LossNormalizingFactor::AveragePerSequence),
        );
        check(ValueKind::Str("average".to_string()), None);
        check(ValueKind::Bool(true), None);
    }
}
