//! The parameters of transformers' `generate`, under transformers' names.

use serde::{Serialize, Serializer};
use serde_json::Value as Json;

use crate::gin::{Configurable, Evaluator, FromGin, Reported, Value, ValueKind};
use crate::models::decoding::DecodeError;

/// The end of a beam search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EarlyStopping {
    /// Once the best hypothesis, at its present length, is worse than all finished sequences.
    Heuristic,
    /// Once there are as many finished sequences as beams.
    Full,
    /// Once no hypothesis can become better than the finished sequences.
    Never,
}

impl FromGin for EarlyStopping {
    fn expected() -> String {
        "a bool or 'never'".to_string()
    }

    fn from_gin(value: &Value, cx: &mut Evaluator<'_>) -> Result<Self, Reported> {
        match &value.kind {
            ValueKind::Bool(true) => Ok(Self::Full),
            ValueKind::Bool(false) => Ok(Self::Heuristic),
            ValueKind::Str(text) if text == "never" => Ok(Self::Never),
            _ => Err(cx.mismatch(value, &Self::expected())),
        }
    }

    fn to_gin(&self) -> Option<ValueKind> {
        Some(match self {
            Self::Full => ValueKind::Bool(true),
            Self::Heuristic => ValueKind::Bool(false),
            Self::Never => ValueKind::Str("never".to_string()),
        })
    }
}

impl Serialize for EarlyStopping {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Heuristic => serializer.serialize_bool(false),
            Self::Full => serializer.serialize_bool(true),
            Self::Never => serializer.serialize_str("never"),
        }
    }
}

/// Decoding as transformers' `generate` does it, with the parameters of its `GenerationConfig`. The folder of a model
/// of transformers binds them. Source: transformers 5.24.
#[derive(Clone, Debug, PartialEq, Configurable, Serialize)]
#[gin(name = "gimlet.decoding.generate")]
pub struct Generate {
    /// Number of beams of a search; 1 searches nothing.
    #[gin(default = 1)]
    pub num_beams: usize,
    /// Whether tokens are drawn, instead of the most probable one taken. Not with beams.
    #[gin(default = false)]
    pub do_sample: bool,
    /// Number of answers: samples, or the best of the beams.
    #[gin(default = 1)]
    pub num_return_sequences: usize,
    /// Tokens that end a sequence; none means the model's own end.
    #[gin(default = Vec::new())]
    pub eos_token_id: Vec<i64>,
    /// Exponent of the length by which the log-probability of a sequence of a search is divided; above 0 it prefers
    /// longer sequences.
    #[gin(default = 1.0)]
    pub length_penalty: f64,
    /// Whether a search ends once there are as many finished sequences as beams. False ends it when the best hypothesis is
    /// worse than these at its present length, 'never' when it is worse at every length.
    #[gin(default = EarlyStopping::Heuristic)]
    pub early_stopping: EarlyStopping,
    /// Divisor of the logits of samples.
    #[gin(default = 1.0)]
    pub temperature: f64,
    /// Draw from this many most probable tokens; 0 for all.
    #[gin(default = 50)]
    pub top_k: usize,
    /// Draw from the most probable tokens that together have this probability.
    #[gin(default = 1.0)]
    pub top_p: f64,
    /// Draw from tokens with at least this share of the greatest probability.
    #[gin(default = None)]
    pub min_p: Option<f64>,
    /// Draw from the most probable tokens that together have this share of the entropy (Potraghloo et al. 2025, arXiv:2509.02510).
    #[gin(default = None)]
    pub top_h: Option<f64>,
    /// Draw from the most typical tokens that together have this probability (Meister et al. 2022, arXiv:2202.00666).
    #[gin(default = 1.0)]
    pub typical_p: f64,
    /// Draw from tokens of at least this probability (Hewitt et al. 2022, arXiv:2210.15191).
    #[gin(default = 0.0)]
    pub epsilon_cutoff: f64,
    /// Draw from tokens of at least this probability, or less if the entropy is high (Hewitt et al. 2022).
    #[gin(default = 0.0)]
    pub eta_cutoff: f64,
    /// Divisor of the positive logits, and factor of the negative ones, of tokens that the sequence has (Keskar et al. 2019,
    /// arXiv:1909.05858).
    #[gin(default = 1.0)]
    pub repetition_penalty: f64,
    /// Factor of the positive logits, and divisor of the negative ones, of tokens that the inputs have.
    #[gin(default = 1.0)]
    pub encoder_repetition_penalty: f64,
    /// Length of sequences of tokens that occur only once; 0 for no limit.
    #[gin(default = 0)]
    pub no_repeat_ngram_size: usize,
    /// Length of sequences of tokens that are not copied from the inputs; 0 for no limit.
    #[gin(default = 0)]
    pub encoder_no_repeat_ngram_size: usize,
    /// Numbers to add to the logit of the last token of each sequence of tokens, where the others precede it.
    #[gin(default = Vec::new())]
    pub sequence_bias: Vec<(Vec<i64>, f64)>,
    /// Sequences of tokens that are never written.
    #[gin(default = Vec::new())]
    pub bad_words_ids: Vec<Vec<i64>>,
    /// Number of tokens before an end token.
    #[gin(default = 0)]
    pub min_new_tokens: usize,
    /// The first token.
    #[gin(default = None)]
    pub forced_bos_token_id: Option<i64>,
    /// The tokens of which one is the last, where the greatest length is reached.
    #[gin(default = Vec::new())]
    pub forced_eos_token_id: Vec<i64>,
    /// Whether logits that are not finite become finite.
    #[gin(default = false)]
    pub remove_invalid_values: bool,
    /// Number of tokens, and the factor by which the logit of the end grows with each token after them.
    #[gin(default = None)]
    pub exponential_decay_length_penalty: Option<(usize, f64)>,
    /// Tokens that are never written.
    #[gin(default = Vec::new())]
    pub suppress_tokens: Vec<i64>,
    /// Tokens that are not written at the beginning.
    #[gin(default = Vec::new())]
    pub begin_suppress_tokens: Vec<i64>,
    /// Whether the changed logits of beams are normalized again.
    #[gin(default = false)]
    pub renormalize_logits: bool,
}

impl Default for Generate {
    fn default() -> Self {
        Self {
            num_beams: 1,
            do_sample: false,
            num_return_sequences: 1,
            eos_token_id: Vec::new(),
            length_penalty: 1.0,
            early_stopping: EarlyStopping::Heuristic,
            temperature: 1.0,
            top_k: 50,
            top_p: 1.0,
            min_p: None,
            top_h: None,
            typical_p: 1.0,
            epsilon_cutoff: 0.0,
            eta_cutoff: 0.0,
            repetition_penalty: 1.0,
            encoder_repetition_penalty: 1.0,
            no_repeat_ngram_size: 0,
            encoder_no_repeat_ngram_size: 0,
            sequence_bias: Vec::new(),
            bad_words_ids: Vec::new(),
            min_new_tokens: 0,
            forced_bos_token_id: None,
            forced_eos_token_id: Vec::new(),
            remove_invalid_values: false,
            exponential_decay_length_penalty: None,
            suppress_tokens: Vec::new(),
            begin_suppress_tokens: Vec::new(),
            renormalize_logits: false,
        }
    }
}

impl Generate {
    /// Finds values that `generate` of transformers refuses too.
    ///
    /// # Errors
    /// The first such value, and the expected ones.
    pub fn check(&self) -> Result<(), DecodeError> {
        let unfit = |param, found: String, expected| {
            Err(DecodeError::UnfitGenerate { param, found, expected })
        };
        let (positive, share) = ("a number above 0", "0 to 1");
        let is_share = |value: f64| (0.0..=1.0).contains(&value);
        let (min_p, top_h) = (self.min_p.unwrap_or(0.0), self.top_h.unwrap_or(1.0));
        for (param, value, is_fit, expected) in [
            (
                "repetition_penalty",
                self.repetition_penalty,
                self.repetition_penalty > 0.0,
                positive,
            ),
            (
                "encoder_repetition_penalty",
                self.encoder_repetition_penalty,
                self.encoder_repetition_penalty > 0.0,
                positive,
            ),
            ("temperature", self.temperature, !self.do_sample || self.temperature > 0.0, positive),
            ("typical_p", self.typical_p, !self.do_sample || self.typical_p > 0.0, positive),
            ("top_p", self.top_p, !self.do_sample || is_share(self.top_p), share),
            ("min_p", min_p, !self.do_sample || is_share(min_p), share),
            ("top_h", top_h, !self.do_sample || is_share(top_h), share),
        ] {
            if !is_fit {
                return unfit(param, value.to_string(), expected);
            }
        }
        if self.num_beams > 1 && self.do_sample {
            let found = format!("{} with `do_sample`", self.num_beams);
            let expected = "1 with it, or more without: beams are not drawn here";
            return unfit("num_beams", found, expected);
        }
        let most = if self.do_sample { usize::MAX } else { self.num_beams.max(1) };
        if self.num_return_sequences > most {
            let found = self.num_return_sequences.to_string();
            return unfit("num_return_sequences", found, "at most num_beams without do_sample");
        }
        Ok(())
    }

    /// The tokens that end a sequence, if the model's own end is `eos_id`.
    pub fn ends(&self, eos_id: i64) -> Vec<i64> {
        match &self.eos_token_id[..] {
            [] => vec![eos_id],
            ends => ends.to_vec(),
        }
    }

    /// Returns the parameters that are not transformers' defaults, as the fields of a `generation_config.json`.
    pub fn fields(&self) -> Vec<(String, Json)> {
        let fields = |spec: &Self| match serde_json::to_value(spec) {
            Ok(Json::Object(fields)) => fields,
            other => unreachable!("numbers, lists and texts become an object, not {other:?}"),
        };
        let default = fields(&Self::default());
        fields(self).into_iter().filter(|(name, value)| default[name] != *value).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_that_transformers_refuse_are_refused() {
        let check = |spec: Generate, part: &str| {
            let said = spec.check().expect_err("it is refused").to_string();
            assert!(said.contains(part), "{said}");
        };
        let sampled = Generate { do_sample: true, ..Generate::default() };
        check(
            Generate { temperature: 0.0, ..sampled.clone() },
            "temperature` is 0, expected a number above 0",
        );
        check(
            Generate { num_beams: 2, ..sampled.clone() },
            "num_beams` is 2 with `do_sample`, expected 1",
        );
        check(
            Generate { num_return_sequences: 2, ..Generate::default() },
            "num_return_sequences` is 2",
        );
        check(
            Generate { repetition_penalty: 0.0, ..Generate::default() },
            "repetition_penalty` is 0",
        );
        assert_eq!(Generate { temperature: 0.0, ..Generate::default() }.check(), Ok(()));
        assert_eq!(Generate { num_return_sequences: 2, ..sampled }.check(), Ok(()));
    }

    #[test]
    fn an_export_names_what_is_not_the_default() {
        assert_eq!(Generate::default().fields(), []);
        let spec =
            Generate { num_beams: 4, early_stopping: EarlyStopping::Never, ..Generate::default() };
        let fields: serde_json::Map<String, Json> = spec.fields().into_iter().collect();
        assert_eq!(
            Json::Object(fields),
            serde_json::json!({"num_beams": 4, "early_stopping": "never"})
        );
    }
}
