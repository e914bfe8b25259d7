//! The `config.json` of a BERT.

use serde::Deserialize;
use serde_json::{Map, Value};

use super::describe::label;
use crate::checkpoint::{ConfigFacts, HuggingFaceConfig};
use crate::models::hugging_face::mlp_activations;

/// The entries that describe the network, with the values that transformers take for those that are missing.
#[derive(Debug, Deserialize)]
pub(super) struct Config {
    #[serde(default = "vocab_size")]
    vocab_size: usize,
    #[serde(default = "hidden_size")]
    hidden_size: usize,
    #[serde(default = "layers")]
    num_hidden_layers: usize,
    #[serde(default = "layers")]
    num_attention_heads: usize,
    #[serde(default = "intermediate_size")]
    intermediate_size: usize,
    #[serde(default = "hidden_act")]
    hidden_act: String,
    #[serde(default = "dropout")]
    hidden_dropout_prob: f64,
    #[serde(default = "dropout")]
    attention_probs_dropout_prob: f64,
    #[serde(default = "positions")]
    max_position_embeddings: usize,
    #[serde(default = "types")]
    type_vocab_size: usize,
    #[serde(default = "range")]
    initializer_range: f64,
    #[serde(default = "epsilon")]
    layer_norm_eps: f64,
    position_embedding_type: Option<String>,
    rotary_base: Option<f64>,
    rotary_dim: Option<usize>,
    relative_attention_num_buckets: Option<usize>,
    relative_last_bucket_distance: Option<usize>,
    #[serde(default)]
    pre_layer_norm: bool,
    last_layer_norm: Option<bool>,
    sparse_config_cls: Option<String>,
    sparse_attention: Option<Map<String, Value>>,
    id2label: Option<Map<String, Value>>,
    classifier_dropout: Option<f64>,
    dtype: Option<String>,
    /// The older name of `dtype`.
    torch_dtype: Option<String>,
}

/// The beginning of the names of DeepSpeed's layouts, and these.
const SPARSE_CLASSES: &str = "deepspeed.ops.sparse_attention:";
const LAYOUTS: [&str; 6] = [
    "DenseSparsityConfig",
    "FixedSparsityConfig",
    "VariableSparsityConfig",
    "BigBirdSparsityConfig",
    "BSLongformerSparsityConfig",
    "LocalSlidingWindowSparsityConfig",
];

fn vocab_size() -> usize {
    30_522
}

fn hidden_size() -> usize {
    768
}

fn layers() -> usize {
    12
}

fn intermediate_size() -> usize {
    3072
}

fn hidden_act() -> String {
    "gelu".to_string()
}

fn dropout() -> f64 {
    0.1
}

fn positions() -> usize {
    512
}

fn types() -> usize {
    2
}

fn range() -> f64 {
    0.02
}

fn epsilon() -> f64 {
    1e-12
}

impl Config {
    /// Reads the entries.
    ///
    /// # Errors
    /// One has another type.
    pub(super) fn of(file: &HuggingFaceConfig) -> Result<Self, String> {
        let unfit = |error| format!("it is not the config.json of a BERT: {error}");
        file.fields().map_err(unfit)
    }

    /// Returns T5X's name of the activation.
    ///
    /// # Errors
    /// There is no such activation here.
    fn activation(&self) -> Result<&'static str, String> {
        let found = mlp_activations(&self.hidden_act);
        let found = found.map_err(|error| error.replace("feed_forward_proj", "hidden_act"))?;
        match found[..] {
            [activation] => Ok(activation),
            _ => Err(format!("its hidden_act is `{}`, expected one function", self.hidden_act)),
        }
    }

    /// Returns the statements of the positions, each with its key.
    ///
    /// # Errors
    /// There are no such positions here.
    fn positions(&self) -> Result<Vec<(&'static str, String)>, String> {
        const KEY: &str = "position_embedding_type";
        let chosen =
            |name: &str| (KEY, format!("bert.BertConfig.position_embedding = @bert.{name}()"));
        match self.position_embedding_type.as_deref().unwrap_or("absolute") {
            "absolute" => Ok(vec![chosen("absolute")]),
            "rotary" => {
                let base = self.rotary_base.ok_or(
                    "its position_embedding_type is `rotary`, which needs a rotary_base, such as 10000: t5-experiments \
                     cannot start without one either",
                )?;
                let base = ("rotary_base", format!("bert.rotary.base = {base:?}"));
                let dim =
                    self.rotary_dim.map(|dim| ("rotary_dim", format!("bert.rotary.dim = {dim}")));
                Ok([chosen("rotary"), base].into_iter().chain(dim).collect())
            }
            "relative_attention_bias" => {
                let numbers = [
                    (
                        "relative_attention_num_buckets",
                        "num_buckets",
                        self.relative_attention_num_buckets,
                    ),
                    (
                        "relative_last_bucket_distance",
                        "last_bucket_distance",
                        self.relative_last_bucket_distance,
                    ),
                ];
                let given = numbers.into_iter().filter_map(|(key, name, number)| {
                    let number = number?;
                    Some((key, format!("bert.relative_attention_bias.{name} = {number}")))
                });
                Ok([chosen("relative_attention_bias")].into_iter().chain(given).collect())
            }
            other => Err(format!(
                "its position_embedding_type is `{other}`, expected absolute, rotary or relative_attention_bias: \
                 `relative_key` and `relative_key_query` crash in t5-experiments, and transformers removed them"
            )),
        }
    }

    /// Returns the statements of the blocks that positions attend to, each with its key.
    ///
    /// # Errors
    /// There are no such blocks here.
    fn sparsity(&self) -> Result<Vec<(&'static str, String)>, String> {
        const KEYS: [&str; 2] = ["sparse_config_cls", "sparse_attention"];
        let Some(class) = &self.sparse_config_cls else { return Ok(Vec::new()) };
        let name = class.strip_prefix(SPARSE_CLASSES).filter(|name| LAYOUTS.contains(name));
        let name = name.ok_or_else(|| {
            format!(
                "its sparse_config_cls is `{class}`, expected `{SPARSE_CLASSES}` and one of {}",
                LAYOUTS.join(", ")
            )
        })?;
        let mut statements = vec![(KEYS[0], format!("bert.BertConfig.sparsity = @bert.{name}()"))];
        for (parameter, value) in self.sparse_attention.iter().flatten() {
            let value = match value {
                Value::Bool(true) => "True".to_string(),
                Value::Bool(false) => "False".to_string(),
                Value::Null => "None".to_string(),
                other => other.to_string(),
            };
            statements.push((KEYS[1], format!("bert.{name}.{parameter} = {value}")));
        }
        Ok(statements)
    }

    /// Returns the statements that bind the network, each with its key.
    ///
    /// # Errors
    /// No model here has it.
    pub(super) fn statements(&self) -> Result<Vec<(&'static str, String)>, String> {
        let python = |value: bool| if value { "True" } else { "False" };
        let rows = [
            ("vocab_size", self.vocab_size.to_string()),
            ("hidden_size", self.hidden_size.to_string()),
            ("num_hidden_layers", self.num_hidden_layers.to_string()),
            ("num_attention_heads", self.num_attention_heads.to_string()),
            ("intermediate_size", self.intermediate_size.to_string()),
            ("hidden_act", format!("'{}'", self.activation()?)),
            ("hidden_dropout_prob", format!("{:?}", self.hidden_dropout_prob)),
            ("attention_probs_dropout_prob", format!("{:?}", self.attention_probs_dropout_prob)),
            ("max_position_embeddings", self.max_position_embeddings.to_string()),
            ("type_vocab_size", self.type_vocab_size.to_string()),
            ("initializer_range", format!("{:?}", self.initializer_range)),
            ("layer_norm_eps", format!("{:e}", self.layer_norm_eps)),
            ("pre_layer_norm", python(self.pre_layer_norm).to_string()),
        ];
        let last = self.last_layer_norm.map(|last| ("last_layer_norm", python(last).to_string()));
        let rows = rows.into_iter().chain(last);
        let mut statements: Vec<(&'static str, String)> =
            rows.map(|(key, value)| (key, format!("bert.BertConfig.{key} = {value}"))).collect();
        statements.extend(self.positions()?);
        statements.extend(self.sparsity()?);
        Ok(statements)
    }

    /// Returns the statements of a head of so many classes, whose names are those of the file.
    ///
    /// # Errors
    /// The file has other classes.
    pub(super) fn classes(&self, count: usize) -> Result<Vec<String>, String> {
        let named = |number: usize| match &self.id2label {
            Some(names) => names.get(&number.to_string()).cloned(),
            None => Some(label(number)),
        };
        let names: Option<Vec<Value>> = (0..count).map(named).collect();
        let given = self.id2label.as_ref().map_or(count, Map::len);
        let names = names.filter(|names| given == count && names.iter().all(Value::is_string)).ok_or_else(|| {
            format!("its id2label names {given} classes, expected the {count} of the weights by their numbers from 0 on")
        })?;
        let dropout = self.classifier_dropout;
        let dropout = dropout.map(|rate| {
            format!("bert.BertForSequenceClassification.classifier_dropout = {rate:?}")
        });
        let labels = format!("LABELS = {}", Value::Array(names));
        Ok([labels].into_iter().chain(dropout).collect())
    }

    /// Returns the format of activations.
    ///
    /// # Errors
    /// There is no such format here.
    pub(super) fn dtype(&self) -> Result<&'static str, String> {
        match self.dtype.as_deref().or(self.torch_dtype.as_deref()).unwrap_or("float32") {
            "float32" => Ok("float32"),
            // Weights in half precision are widened. Activations in float16 would need a GPU, and a scale of the loss.
            "bfloat16" | "float16" => Ok("bfloat16"),
            other => Err(format!("its dtype is `{other}`, expected float32, bfloat16 or float16")),
        }
    }
}

/// Returns the facts of the network that no tensor shows.
///
/// # Errors
/// No model here has them.
pub(super) fn facts(file: &HuggingFaceConfig) -> Result<ConfigFacts, String> {
    let config = Config::of(file)?;
    Ok(ConfigFacts {
        mlp_activations: vec![config.activation()?],
        layer_norm_epsilon: config.layer_norm_eps,
        bos_id: 0,
    })
}
