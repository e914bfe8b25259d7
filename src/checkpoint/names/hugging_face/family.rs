//! A family of models as transformers have it: the names of its tensors, and the meaning of its `config.json`.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::read::HeadFacts;
use super::table::{NameTable, Rows, fitting};
use crate::array::{ArrayInfo, DType};
use crate::export::{Carried, HuggingFaceOptions};
use crate::foreign::{HuggingFaceConfig, check_config_keys};
use crate::hugging_face_keys::KeyTable;

/// The families whose checkpoints are read and written; the first has the files that do not say their `model_type`.
pub type Families = &'static [&'static HuggingFaceFamily];

/// A family of models, which hands this value to those who read and write checkpoints.
#[derive(Debug)]
pub struct HuggingFaceFamily {
    /// One of its models, for messages: `a T5`.
    pub name: &'static str,
    /// The configurables of its models that [`HuggingFaceFamily::gin`] may bind.
    pub models: &'static [&'static str],
    /// The names of its tensors, one table for each spelling. The table that knows the most names of a model is its own; of
    /// equal ones the first.
    pub tables: &'static [NameTable],
    /// The keys of `config.json`, except those that change no model's results.
    pub keys: KeyTable,
    /// Other names of keys, which replace them.
    pub aliases: &'static [(&'static str, &'static str)],
    /// Keys of `config.json` and `generation_config.json` that a checkpoint of T5X does not hold, with the value that T5X has
    /// for all models, if it has one.
    pub unheld: &'static [(&'static str, Option<f64>)],
    /// The ids of special tokens in every model, for `generation_config.json`.
    pub special_ids: &'static [(&'static str, i64)],
    /// The rows of the embedding of models whose tokens are bytes.
    pub byte_rows: Option<usize>,
    /// Returns the properties of the map to logits, or the error of a key that has another type.
    pub head: fn(&HuggingFaceConfig) -> Result<HeadFacts, serde_json::Error>,
    /// Returns the facts that no tensor shows, or the reason why no model here has them.
    pub facts: fn(&HuggingFaceConfig) -> Result<ConfigFacts, String>,
    /// Returns gin's statements that bind the model of a folder, or the reason why there are none.
    pub gin: fn(&HuggingFaceConfig) -> Result<String, String>,
    /// Describes a model for transformers, or returns the reason why they do not have it.
    pub describe: fn(&Arrays<'_>, &HuggingFaceOptions, &Carried) -> Result<Description, String>,
    /// Returns two parts of names that change places in a model, or the reason why its options are not those of its arrays.
    pub exchanged: fn(&Arrays<'_>, &HuggingFaceOptions, &Carried) -> Exchanged,
}

/// Parts of the names of a model's tensors that change places.
pub type Exchanged = Result<Option<[&'static str; 2]>, String>;

/// The facts of a `config.json` that change results, and that no tensor shows.
#[derive(Clone, Debug, PartialEq)]
pub struct ConfigFacts {
    /// The activations of feed-forward blocks, by T5X's names.
    pub mlp_activations: Vec<&'static str>,
    /// The addend of the mean square in norms.
    pub layer_norm_epsilon: f64,
    /// The id that the decoder reads before a sequence.
    pub bos_id: i32,
}

/// The parameters of a model that is written for transformers.
#[derive(Debug)]
pub struct Arrays<'a> {
    /// The parameters by their names in T5X without `target/`, with layers in separate arrays.
    pub params: BTreeMap<&'a str, ArrayInfo<'a>>,
    /// The table of their names in transformers.
    pub table: &'static NameTable,
    /// The type of the first tensor that is written.
    pub dtype: DType,
}

impl Arrays<'_> {
    /// Returns the dimensions of a parameter that is a matrix.
    ///
    /// # Errors
    /// There is no such parameter, or it is no matrix.
    pub fn matrix(&self, name: &str) -> Result<[usize; 2], String> {
        match self.params.get(name).map(|info| info.shape) {
            Some(&[rows, columns]) => Ok([rows, columns]),
            Some(shape) => Err(format!("`{name}` has shape {shape:?}")),
            None => Err(format!("it has no `{name}`")),
        }
    }

    /// Returns the number of layers of a stack, such as `encoder`: one more than the largest layer number.
    pub fn num_layers(&self, stack: &str) -> usize {
        let number = |name: &&str| {
            let rest = name.strip_prefix(stack)?.strip_prefix("/layers_")?;
            rest.split('/').next()?.parse::<usize>().ok()
        };
        self.params.keys().filter_map(number).max().map_or(0, |last| last + 1)
    }
}

/// A model as transformers have it.
#[derive(Clone, Debug)]
pub struct Description {
    /// The entries of `config.json`.
    pub config: Map<String, Value>,
    /// The number of rows of the embedding.
    pub vocab_size: usize,
}

impl HuggingFaceFamily {
    /// Returns the family with models of a `model_type`, or the first if there is none.
    pub(crate) fn with(families: Families, model_type: Option<&str>) -> Option<&'static Self> {
        families.iter().copied().find(|family| family.spellings(model_type).next().is_some())
    }

    /// Returns the family of a `config.json`.
    ///
    /// # Errors
    /// No family has its `model_type`: the found one, and the expected ones.
    pub fn of(config: &HuggingFaceConfig, families: Families) -> Result<&'static Self, String> {
        let found = config.model_type();
        Self::with(families, found.as_deref()).ok_or_else(|| {
            let expected = model_types(families).join(", ");
            let (most, last) = expected.rsplit_once(", ").unwrap_or_default();
            format!("`{}`, expected {most} or {last}", found.unwrap_or_default())
        })
    }

    /// The tables of a `model_type`, or all of them.
    pub(crate) fn spellings(
        &self,
        model_type: Option<&str>,
    ) -> impl Iterator<Item = &'static NameTable> {
        let is_its = move |table: &&NameTable| model_type.is_none_or(|it| it == table.model_type);
        self.tables.iter().filter(is_its)
    }

    /// Checks every key of a `config.json`, and returns a warning about those that are not known.
    ///
    /// # Errors
    /// A value would change results and cannot be used: the file, the key, the value, and the reason.
    pub fn check_keys(&self, config: &HuggingFaceConfig) -> Result<Option<String>, String> {
        check_config_keys(config, self.keys, self.aliases)
    }
}

/// Returns a parameter, without `target/`, that has no name in transformers, if a model with these parameters has one.
pub fn nameless<'a>(families: Families, params: &[&'a str]) -> Option<&'a str> {
    let tables = families.iter().flat_map(|family| family.tables);
    let is_named = |rows: &Rows, name: &str| rows.to_torch(name).is_some();
    let (_, rows) =
        fitting(tables, |rows| params.iter().filter(|name| is_named(rows, name)).count())?;
    params.iter().copied().find(|name| !is_named(&rows, name))
}

/// Returns every `model_type` of the families.
pub fn model_types(families: Families) -> Vec<&'static str> {
    let tables = families.iter().flat_map(|family| family.tables);
    let mut found: Vec<_> = tables.map(|table| table.model_type).collect();
    found.dedup();
    found
}
