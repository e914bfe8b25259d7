//! `models_configs/*.json` as statements. Keys are strict: one that t5-experiments' T5 does not read is a mistake, as
//! otherwise a misspelled one would leave a default in place. Source: t5-experiments `modeling_t5.py`, transformers
//! 4.17 `configuration_t5.py`.

use gimlet_gin::{Diagnostic, ValueKind, did_you_mean};
use serde_json::{Map, Value};

use crate::Statement;

/// The class of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModelClass {
    /// The class of t5-experiments, with memory tokens and a choice of attentions.
    Own,
    /// The class of transformers, which ignores both.
    Transformers,
}

/// The classes by their names in `--model_cls`.
pub const CLASSES: [(&str, ModelClass); 2] = [
    ("modeling_t5:T5ForConditionalGeneration", ModelClass::Own),
    ("transformers:T5ForConditionalGeneration", ModelClass::Transformers),
];

/// The configurable of the dimensions.
const NETWORK: &str = "t5x.examples.t5.network.T5Config";

const ATTENTION: &str = "modeling_t5:T5Attention";
const CDQ_ATTENTION: &str = "modeling_t5:T5CDQAttention";

/// Numbers of things: key, parameter of `network.T5Config`, and default.
const COUNTS: [(&str, &str, u64); 6] = [
    ("vocab_size", "vocab_size", 32128),
    ("d_model", "emb_dim", 512),
    ("num_heads", "num_heads", 8),
    ("num_layers", "num_encoder_layers", 6),
    ("d_kv", "head_dim", 64),
    ("d_ff", "mlp_dim", 2048),
];

/// Keys that have one possible value, with the reason.
const FIXED: [(&str, &str, &str); 6] = [
    ("relative_attention_num_buckets", "32", "biases of relative position have 32 buckets"),
    ("model_type", "\"t5\"", "the model is a T5"),
    ("is_encoder_decoder", "true", "the model has an encoder and a decoder"),
    ("decoder_start_token_id", "0", "targets begin with padding"),
    ("pad_token_id", "0", "padding has id 0 in the vocabulary"),
    ("eos_token_id", "1", "EOS has id 1 in the vocabulary"),
];

/// Keys with a rule of their own.
const RULED: [&str; 8] = [
    "num_decoder_layers",
    "feed_forward_proj",
    "tie_word_embeddings",
    "layer_norm_epsilon",
    "dropout_rate",
    "initializer_factor",
    "num_memory_tokens",
    "num_cdq_heads",
];

/// The keys among [`RULED`] that only t5-experiments' own class reads, as it alone reads [`LAYERS`].
const OF_OWN_CLASS: [&str; 2] = ["num_memory_tokens", "num_cdq_heads"];

/// Keys that choose a class of attention.
const LAYERS: [&str; 3] = [
    "encoder_self_attention_layer",
    "decoder_self_attention_layer",
    "decoder_cross_attention_layer",
];

/// Keys without effect on training.
const WITHOUT_EFFECT: [&str; 6] = [
    "architectures",
    "n_positions",
    "output_past",
    "task_specific_params",
    "transformers_version",
    "use_cache",
];

/// The network of a file.
#[derive(Debug)]
pub struct Network {
    /// The statements, each with its key as the place.
    pub statements: Vec<Statement>,
    /// The keys that have no effect.
    pub without_effect: Vec<String>,
}

/// Translates the text of a file.
///
/// # Errors
/// Every key that is not known, and every value that the network cannot have.
pub fn network(file: &str, text: &str, class: ModelClass) -> Result<Network, Vec<Diagnostic>> {
    let keys = match serde_json::from_str(text) {
        Ok(Value::Object(keys)) => keys,
        Ok(_) => return Err(vec![mistake(file, "it is not an object of keys and values")]),
        Err(error) => return Err(vec![mistake(file, format!("it is not JSON: {error}"))]),
    };
    if keys.get("model_type").is_some_and(|found| found == "bert") {
        let bert = mistake(file, "`model_type` is \"bert\", expected \"t5\"");
        return Err(vec![bert.help("`gimlet t5_experiments bert` pretrains a BERT")]);
    }
    let mut reader = Reader { file, keys, class, statements: Vec::new(), mistakes: Vec::new() };
    reader.check_names();
    reader.dimensions();
    reader.attentions();
    let is_ignored = |key: &&String| {
        let is_of_own_class =
            LAYERS.contains(&key.as_str()) || OF_OWN_CLASS.contains(&key.as_str());
        WITHOUT_EFFECT.contains(&key.as_str())
            || class == ModelClass::Transformers && is_of_own_class
    };
    let without_effect = reader.keys.keys().filter(is_ignored).cloned().collect();
    match reader.mistakes.is_empty() {
        true => Ok(Network { statements: reader.statements, without_effect }),
        false => Err(reader.mistakes),
    }
}

struct Reader<'a> {
    file: &'a str,
    keys: Map<String, Value>,
    class: ModelClass,
    statements: Vec<Statement>,
    mistakes: Vec<Diagnostic>,
}

impl Reader<'_> {
    /// Refuses unknown keys, and values of known ones that the network cannot have.
    fn check_names(&mut self) {
        let counts = COUNTS.iter().map(|(key, ..)| *key);
        let fixed = FIXED.iter().map(|(key, ..)| *key);
        let known = counts.chain(fixed).chain(RULED).chain(LAYERS).chain(WITHOUT_EFFECT);
        let known: Vec<&str> = known.collect();
        let unknown = self.keys.keys().filter(|key| !known.contains(&key.as_str()));
        self.mistakes.extend(unknown.map(|key| {
            let message = format!("`{key}` is not a key of t5-experiments' T5");
            mistake(self.file, message).help(did_you_mean(key, known.iter().copied()))
        }));
        for (key, expected, reason) in FIXED {
            let found = self.keys.get(key).map(Value::to_string);
            if let Some(found) = found.filter(|found| found != expected) {
                let message = format!("`{key}` is {found}, expected {expected}: {reason}");
                self.mistakes.push(mistake(self.file, message));
            }
        }
    }

    fn dimensions(&mut self) {
        for (key, parameter, default) in COUNTS {
            let value = self.count(key, default, 1);
            self.bind(key, parameter, &value.to_string());
        }
        let encoder = self.count("num_layers", 6, 1);
        let decoder = self.count("num_decoder_layers", encoder, 1);
        self.bind("num_decoder_layers", "num_decoder_layers", &decoder.to_string());
        let activations = match self.keys.get("feed_forward_proj").map(|found| found.as_str()) {
            None | Some(Some("relu")) => "('relu',)",
            Some(Some("gated-gelu")) => "('gelu', 'linear')",
            Some(_) => self.unfit("feed_forward_proj", "\"relu\" or \"gated-gelu\"", ""),
        };
        self.bind("feed_forward_proj", "mlp_activations", activations);
        let tied = match self.keys.get("tie_word_embeddings") {
            None | Some(Value::Bool(true)) => "True",
            Some(Value::Bool(false)) => "False",
            Some(_) => self.unfit("tie_word_embeddings", "true or false", ""),
        };
        self.bind("tie_word_embeddings", "logits_via_embedding", tied);
        let epsilon = self.number("layer_norm_epsilon", 1e-6);
        self.bind("layer_norm_epsilon", "layer_norm_epsilon", &written(epsilon));
        let factor = self.number("initializer_factor", 1.0);
        if factor != 1.0 {
            self.bind("initializer_factor", "initializer_factor", &written(factor));
        }
        let dropout = self.number("dropout_rate", 0.1);
        self.write("dropout_rate", format!("DROPOUT_RATE = {}", written(dropout)));
    }

    /// Translates memory tokens and the classes of attention.
    fn attentions(&mut self) {
        if self.class == ModelClass::Transformers {
            return;
        }
        let memory = self.count("num_memory_tokens", 0, 0);
        if memory > 0 {
            self.bind("num_memory_tokens", "num_memory_tokens", &memory.to_string());
        }
        for key in LAYERS {
            match self.keys.get(key).map(|found| found.as_str()) {
                None | Some(Some(ATTENTION)) => {}
                Some(Some(CDQ_ATTENTION)) if key == LAYERS[0] => self.context_heads(),
                Some(Some(CDQ_ATTENTION)) => {
                    self.unfit(key, ATTENTION, ": T5CDQAttention cannot run in a decoder");
                }
                Some(_) => {
                    let expected = format!("\"{ATTENTION}\" or \"{CDQ_ATTENTION}\"");
                    self.unfit(key, &expected, ": no other class is known");
                }
            }
        }
    }

    /// Translates the number of heads whose queries depend on the context.
    fn context_heads(&mut self) {
        let heads = self.count("num_heads", 8, 1);
        let found = self.keys.get("num_cdq_heads").and_then(Value::as_u64);
        match found {
            Some(found) if found == heads || 2 * found == heads => {
                self.bind("num_cdq_heads", "num_cdq_heads", &found.to_string());
            }
            _ => {
                let expected = match heads.is_multiple_of(2) {
                    true => format!("{heads} or {}", heads / 2),
                    false => heads.to_string(),
                };
                let reason = ": both groups of heads share keys and values, so that other numbers are errors of shapes";
                self.unfit("num_cdq_heads", &expected, reason);
            }
        }
    }

    fn count(&mut self, key: &'static str, default: u64, least: u64) -> u64 {
        let Some(found) = self.keys.get(key).filter(|found| !found.is_null()) else {
            return default;
        };
        found.as_u64().filter(|count| *count >= least).unwrap_or_else(|| {
            self.unfit(key, &format!("a whole number of at least {least}"), "");
            default
        })
    }

    fn number(&mut self, key: &'static str, default: f64) -> f64 {
        let Some(found) = self.keys.get(key) else { return default };
        found.as_f64().filter(|number| *number >= 0.0).unwrap_or_else(|| {
            self.unfit(key, "a number of at least 0", "");
            default
        })
    }

    /// Records that a value cannot be used; returns a text that stands for it.
    fn unfit(&mut self, key: &'static str, expected: &str, reason: &str) -> &'static str {
        let found = self.keys.get(key).map_or("missing".to_string(), Value::to_string);
        let message = format!("`{key}` is {found}, expected {expected}{reason}");
        let mistake = mistake(self.file, message);
        if !self.mistakes.iter().any(|known| known.message == mistake.message) {
            self.mistakes.push(mistake);
        }
        "None"
    }

    fn bind(&mut self, key: &str, parameter: &str, value: &str) {
        self.write(key, format!("{NETWORK}.{parameter} = {value}"));
    }

    fn write(&mut self, key: &str, text: String) {
        self.statements.push(Statement { place: format!("{}: {key}", self.file), text });
    }
}

/// Writes a number as gin does.
fn written(number: f64) -> String {
    ValueKind::Float(number).to_string()
}

fn mistake(file: &str, message: impl Into<String>) -> Diagnostic {
    Diagnostic::nowhere(format!("{file}: {}", message.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the statements of keys, or the messages, of which a line has this part.
    fn check(keys: &str, class: ModelClass, part: &str) {
        let found = match network("t5.json", keys, class) {
            Ok(network) => network.statements.into_iter().map(|it| it.text).collect::<Vec<_>>(),
            Err(list) => list.into_iter().map(|it| it.message + " " + &it.help.concat()).collect(),
        };
        assert!(found.iter().any(|line| line.contains(part)), "{part:?} is not in {found:#?}");
    }

    #[test]
    fn keys_become_dimensions_and_left_out_ones_their_defaults() {
        let own = |keys: &str, part: &str| check(keys, ModelClass::Own, part);
        own("{}", "network.T5Config.emb_dim = 512");
        own(r#"{"d_model": 16}"#, "network.T5Config.emb_dim = 16");
        own(r#"{"num_layers": 3}"#, "network.T5Config.num_decoder_layers = 3");
        own(r#"{"num_decoder_layers": null}"#, "network.T5Config.num_decoder_layers = 6");
        own(r#"{"feed_forward_proj": "gated-gelu"}"#, "mlp_activations = ('gelu', 'linear')");
        own(r#"{"tie_word_embeddings": false}"#, "logits_via_embedding = False");
        own(r#"{"layer_norm_epsilon": 1e-06}"#, "layer_norm_epsilon = 1e-06");
        own(r#"{"initializer_factor": 2}"#, "initializer_factor = 2.0");
        own("{}", "DROPOUT_RATE = 0.1");
        own(r#"{"num_memory_tokens": 20}"#, "network.T5Config.num_memory_tokens = 20");
        let cdq = r#""encoder_self_attention_layer": "modeling_t5:T5CDQAttention""#;
        own(&format!(r#"{{{cdq}, "num_cdq_heads": 4}}"#), "network.T5Config.num_cdq_heads = 4");
        own(&format!(r#"{{{cdq}, "num_cdq_heads": 8}}"#), "network.T5Config.num_cdq_heads = 8");
    }

    #[test]
    fn mistakes_name_the_key_and_the_remedy() {
        let own = |keys: &str, part: &str| check(keys, ModelClass::Own, part);
        own("[]", "t5.json: it is not an object");
        own("{", "t5.json: it is not JSON: EOF");
        own(
            r#"{"dmodel": 16}"#,
            "t5.json: `dmodel` is not a key of t5-experiments' T5 did you mean `d_model`?",
        );
        own(
            r#"{"model_type": "bert", "a": 1}"#,
            "\"bert\", expected \"t5\" `gimlet t5_experiments bert`",
        );
        own(r#"{"d_ff": "x"}"#, r#"`d_ff` is "x", expected a whole number of at least 1"#);
        own(r#"{"eos_token_id": 2}"#, "`eos_token_id` is 2, expected 1: EOS has id 1");
        own(r#"{"feed_forward_proj": "silu"}"#, r#"expected "relu" or "gated-gelu""#);
        let layer = |key: &str, class: &str| format!(r#"{{"{key}": "modeling_t5:{class}"}}"#);
        own(&layer("decoder_self_attention_layer", "T5CDQAttention"), "cannot run in a decoder");
        own(&layer("encoder_self_attention_layer", "Other"), "no other class is known");
        let without = layer("encoder_self_attention_layer", "T5CDQAttention");
        own(&without, "`num_cdq_heads` is missing, expected 8 or 4: both groups of heads");
    }

    #[test]
    fn the_class_of_transformers_ignores_memory_and_attentions() {
        let keys = r#"{"num_memory_tokens": 20, "num_cdq_heads": 3, "n_positions": 512}"#;
        let found = network("t5.json", keys, ModelClass::Transformers).expect("it is a T5");
        assert_eq!(found.without_effect, ["num_memory_tokens", "num_cdq_heads", "n_positions"]);
        assert!(found.statements.iter().all(|it| !it.text.contains("memory")));
    }
}
