//! The names of the factors of a schedule.

use std::fmt;

use gimlet_gin::{Diagnostic, Evaluator, FromGin, Reported, Value, ValueKind, did_you_mean};

/// The factors of a schedule in the order written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Factors(pub Vec<Factor>);

impl Factors {
    /// Parses names joined by `*`.
    ///
    /// # Errors
    /// The first name that is not a factor.
    pub fn parse(text: &str) -> Result<Self, UnknownFactor> {
        let parts = text.split('*').map(str::trim);
        let factors = parts.map(|name| {
            let known = Factor::ALL.into_iter().find(|factor| factor.as_str() == name);
            known.ok_or_else(|| UnknownFactor { name: name.to_string() })
        });
        Ok(Self(factors.collect::<Result<_, _>>()?))
    }

    /// Parses a text from Gimlet's own code.
    ///
    /// # Panics
    /// If it names no factors.
    pub fn known(text: &str) -> Self {
        Self::parse(text).expect("a text of ours names known factors")
    }
}

impl fmt::Display for Factors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.0.iter().map(Factor::as_str).collect();
        f.write_str(&names.join(" * "))
    }
}

/// A name that is not a factor.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown factor '{name}', expected {} joined by '*'", gimlet_gin::one_of(&Factor::NAMES))]
pub struct UnknownFactor {
    /// The name as written.
    pub name: String,
}

impl FromGin for Factors {
    fn expected() -> String {
        "a str of factors joined by '*'".to_string()
    }

    fn from_gin(value: &Value, cx: &mut Evaluator<'_>) -> Result<Self, Reported> {
        let ValueKind::Str(text) = &value.kind else {
            return Err(cx.mismatch(value, &Self::expected()));
        };
        Self::parse(text).map_err(|unknown| {
            let diagnostic = Diagnostic::error(value.span, unknown.to_string())
                .help(did_you_mean(&unknown.name, Factor::NAMES));
            cx.report(diagnostic)
        })
    }

    fn to_gin(&self) -> Option<ValueKind> {
        Some(ValueKind::Str(self.to_string()))
    }
}

/// One factor of a learning-rate schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Factor {
    /// `base_learning_rate`.
    Constant,
    /// Rises from 0 to 1 over `warmup_steps`.
    LinearWarmup,
    /// Rises to `base_learning_rate` over `warmup_steps`, then falls by `decay_factor` of it a step.
    LinearDecay,
    /// One over the square root of the step, held during `warmup_steps`.
    RsqrtDecay,
    /// The same, scaled to 1 during `warmup_steps`.
    RsqrtNormalizedDecay,
    /// Multiplies by `decay_factor` every `steps_per_decay`.
    DecayEvery,
    /// Falls from 1 to 0 over `steps_per_cycle`, repeatedly.
    CosineDecay,
}

impl Factor {
    const ALL: [Factor; 7] = [
        Factor::Constant,
        Factor::LinearWarmup,
        Factor::LinearDecay,
        Factor::RsqrtDecay,
        Factor::RsqrtNormalizedDecay,
        Factor::DecayEvery,
        Factor::CosineDecay,
    ];

    /// Every name, in the order of T5X's documentation.
    pub const NAMES: [&str; 7] = [
        "constant",
        "linear_warmup",
        "linear_decay",
        "rsqrt_decay",
        "rsqrt_normalized_decay",
        "decay_every",
        "cosine_decay",
    ];

    /// The name as gin files write it.
    pub fn as_str(&self) -> &'static str {
        Self::NAMES[*self as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_factor_is_named_with_those_known() {
        let message = Factors::parse("constant * rsqrt").unwrap_err().to_string();
        assert!(message.starts_with("unknown factor 'rsqrt', expected 'constant', "), "{message}");
        assert!(message.ends_with("joined by '*'"), "{message}");
    }
}
