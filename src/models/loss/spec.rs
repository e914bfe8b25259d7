//! The loss as gin binds it, and the sums from which every training metric follows.

use std::ops::AddAssign;

use crate::gin::{
    Diagnostic, Evaluator, FromGin, Reported, Value, ValueKind, did_you_mean, one_of,
};

/// What the summed loss is divided by. T5X `losses.py`, `SpecialLossNormalizingFactor`.
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
}

/// The spellings of the special factors; case does not matter.
const SPECIAL: [(&str, LossNormalizingFactor); 3] = [
    ("NUM_REAL_TARGET_TOKENS", LossNormalizingFactor::NumRealTargetTokens),
    ("NUM_TOTAL_TARGET_TOKENS", LossNormalizingFactor::NumTotalTargetTokens),
    ("AVERAGE_PER_SEQUENCE", LossNormalizingFactor::AveragePerSequence),
];

impl FromGin for LossNormalizingFactor {
    fn expected() -> String {
        format!("a number, {}", one_of(&SPECIAL.map(|(name, _)| name)))
    }

    fn from_gin(value: &Value, cx: &mut Evaluator<'_>) -> Result<Self, Reported> {
        let ValueKind::Str(text) = &value.kind else {
            return match value.kind {
                ValueKind::Int(_) | ValueKind::Float(_) => cx.read(value).map(Self::Constant),
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
}

/// The parameters of the loss, as bound on the model.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LossSpec {
    /// Probability mass that the target gives to the other tokens.
    pub label_smoothing: f64,
    /// Weight of the squared logarithm of the softmax's normalizer.
    pub z_loss: f64,
    /// Divisor of the summed loss; `None` leaves the sum.
    pub loss_normalizing_factor: Option<LossNormalizingFactor>,
}

/// What a step, or several, add up to. T5X `models.py`, `compute_base_metrics`.
#[derive(Clone, Debug, PartialEq)]
pub struct LossSums {
    /// The loss that was minimized, z-loss included.
    pub loss: f64,
    /// The part of it that is z-loss.
    pub z_loss: f64,
    /// Targets of any weight that are the most probable token.
    pub correct: f64,
    /// Targets of any weight.
    pub num_weighted_tokens: f64,
    /// Weights of all targets, after normalization.
    pub weight_sum: f64,
    /// Rows.
    pub num_sequences: u64,
    /// Target positions, padding included.
    pub num_target_tokens: u64,
    /// The encoder's tokens.
    pub encoder: FeatureSums,
    /// The decoder's tokens.
    pub decoder: FeatureSums,
}

/// How full one feature was.
#[derive(Clone, Debug, PartialEq)]
pub struct FeatureSums {
    /// T5X's name of it in metrics: `encoder` in packed batches, else `encoder_input_tokens`.
    pub name: &'static str,
    /// Examples, counting each of a packed row.
    pub num_examples: f64,
    /// Positions that are not padding.
    pub num_non_padding: f64,
    /// All positions.
    pub num_positions: u64,
}

/// Sums over microbatches or steps.
impl AddAssign<&LossSums> for LossSums {
    fn add_assign(&mut self, other: &LossSums) {
        self.loss += other.loss;
        self.z_loss += other.z_loss;
        self.correct += other.correct;
        self.num_weighted_tokens += other.num_weighted_tokens;
        self.weight_sum += other.weight_sum;
        self.num_sequences += other.num_sequences;
        self.num_target_tokens += other.num_target_tokens;
        self.encoder += &other.encoder;
        self.decoder += &other.decoder;
    }
}

impl AddAssign<&FeatureSums> for FeatureSums {
    fn add_assign(&mut self, other: &FeatureSums) {
        self.num_examples += other.num_examples;
        self.num_non_padding += other.num_non_padding;
        self.num_positions += other.num_positions;
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
