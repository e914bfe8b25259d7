//! The tensors and the configuration of a checkpoint, as transformers see them.

use std::collections::BTreeMap;

use serde_json::Value;

use super::carried::Carried;
use super::options::HuggingFaceOptions;
use super::tensor::Tensor;
use crate::array::{ArrayInfo, DType};
use crate::error::CheckpointError;
use crate::names::Axes;
use crate::names::hugging_face::{
    Arrays, Description, Families, HuggingFaceFamily, NameTable, ParameterKind, Rows, fitting,
    model_types,
};
use crate::stored::Stored;

/// The tensors of a model under their names in transformers.
pub(super) struct Named {
    /// Its family.
    pub family: &'static HuggingFaceFamily,
    /// Every tensor and its kind under its name in transformers.
    pub tensors: BTreeMap<String, (Tensor, ParameterKind)>,
    table: &'static NameTable,
}

/// The model, as far as the arrays of a checkpoint describe it.
pub(super) struct Model {
    /// Its tensors.
    pub named: Named,
    /// `config.json`.
    pub config: Value,
    /// Number of rows of the embedding.
    pub vocab_size: usize,
}

type Params<'a> = BTreeMap<&'a str, ArrayInfo<'a>>;

impl Model {
    /// Reads the model from the names and shapes of the arrays, and from what is known beside them.
    pub(super) fn of(
        from: &dyn Stored,
        families: Families,
        options: &HuggingFaceOptions,
        carried: &Carried,
    ) -> Result<Self, CheckpointError> {
        let spelled = Spelled::of(from, families, (options, carried))?;
        let description = (spelled.family.describe)(&spelled.arrays, options, carried);
        let Description { mut config, vocab_size } =
            description.map_err(|reason| refused(from, reason))?;
        config.extend(options.config.clone());
        let named = spelled.named(from, (options, carried))?;
        Ok(Self { named, config: Value::Object(config), vocab_size })
    }
}

fn refused(from: &dyn Stored, reason: String) -> CheckpointError {
    CheckpointError::Export { path: from.path().to_string(), reason }
}

/// The arrays of a checkpoint, and the table with their names.
struct Spelled<'a> {
    family: &'static HuggingFaceFamily,
    arrays: Arrays<'a>,
    tensors: BTreeMap<String, (Tensor, ParameterKind)>,
    /// Descriptions of the arrays that have no name.
    nameless: Vec<String>,
}

impl<'a> Spelled<'a> {
    fn of(
        from: &'a dyn Stored,
        families: Families,
        (options, carried): (&HuggingFaceOptions, &Carried),
    ) -> Result<Self, CheckpointError> {
        let leaves = from.leaves();
        let params: Params<'_> = leaves
            .iter()
            .filter_map(|leaf| Some((leaf.name.strip_prefix("target/")?, *leaf)))
            .collect();
        let asked = options.model_type.as_deref().or(carried.text("model_type"));
        let is_stated = |key: &str| {
            options.config.get(key).or(carried.config.get(key)) == Some(&Value::Bool(true))
        };
        let (table, rows) = spelling(families, asked, &params, &is_stated)
            .map_err(|reason| refused(from, reason))?;
        let family = HuggingFaceFamily::with(families, Some(table.model_type));
        let family = family.expect("the table is one of a family");
        let (tensors, nameless) = tensors(&params, &rows, options);
        let dtype = tensors.values().next().map_or(DType::F32, |(tensor, _)| tensor.dtype);
        Ok(Self { family, arrays: Arrays { params, table, dtype }, tensors, nameless })
    }

    fn named(
        self,
        from: &dyn Stored,
        (options, carried): (&HuggingFaceOptions, &Carried),
    ) -> Result<Named, CheckpointError> {
        let Self { family, arrays, tensors, nameless } = self;
        if let Some(array) = nameless.first() {
            let remedy = match () {
                () if array.contains("/lora_") => {
                    "`gimlet checkpoint convert --merge` puts additions of LoRA into kernels"
                        .to_string()
                }
                () if array.contains("/prompt/") => {
                    "`gimlet checkpoint convert --to peft` writes a soft prompt alone".to_string()
                }
                () => format!("expected the parameters of {}", family.name),
            };
            return Err(refused(from, format!("transformers has no name for {array}; {remedy}")));
        }
        let exchanged = (family.exchanged)(&arrays, options, carried);
        let tensors = match exchanged.map_err(|reason| refused(from, reason))? {
            None => tensors,
            Some(parts) => tensors.into_values().map(|it| exchange(it, parts)).collect(),
        };
        Ok(Named { family, tensors, table: arrays.table })
    }
}

impl Named {
    /// Names the arrays of a checkpoint, of a model that transformers need not have.
    ///
    /// # Errors
    /// No family has names for all of them; the options are those of another model.
    pub(super) fn of(
        from: &dyn Stored,
        families: Families,
        options: &HuggingFaceOptions,
    ) -> Result<Self, CheckpointError> {
        let known = (options, &Carried::default());
        Spelled::of(from, families, known)?.named(from, known)
    }

    /// All names of a tensor in transformers, which name a tensor more than once where modules share it.
    pub(super) fn names_of<'a>(&self, tensor: &'a str) -> Vec<&'a str> {
        let mut names = vec![tensor];
        let copies = self.table.copies.iter().find(|names| names[0] == tensor);
        names.extend(copies.into_iter().flat_map(|names| &names[1..]));
        // A model without the matrix that maps to logits uses the embedding instead.
        let head = self.table.head.filter(|(_, embedding)| embedding[0] == tensor);
        names.extend(head.map(|(head, _)| head).filter(|head| !self.tensors.contains_key(*head)));
        names
    }
}

/// Returns the table that names the most parameters, of the asked type if there is one.
fn spelling(
    families: Families,
    asked: Option<&str>,
    params: &Params<'_>,
    is_stated: &dyn Fn(&str) -> bool,
) -> Result<(&'static NameTable, Rows), String> {
    let all = || families.iter().flat_map(|family| family.spellings(asked));
    let stated: Vec<_> = all().filter(|table| table.stated_by.is_some_and(is_stated)).collect();
    let tables = if stated.is_empty() { all().collect() } else { stated };
    let known = |rows: &Rows| params.keys().filter(|name| rows.to_torch(name).is_some()).count();
    fitting(tables, known).ok_or_else(|| {
        format!(
            "the model type `{}` is unknown, expected one of {}",
            asked.unwrap_or_default(),
            model_types(families).join(", ")
        )
    })
}

/// Returns every tensor under its name in transformers, and descriptions of the arrays that have none.
fn tensors(
    params: &Params<'_>,
    rows: &Rows,
    options: &HuggingFaceOptions,
) -> (BTreeMap<String, (Tensor, ParameterKind)>, Vec<String>) {
    let mut tensors = BTreeMap::new();
    let mut nameless = Vec::new();
    for (own, info) in params {
        let fits = |kind: &ParameterKind| kind.axes == Axes::Same || info.shape.len() == 2;
        let Some((name, kind)) = rows.to_torch(own).filter(|(_, kind)| fits(kind)) else {
            nameless.push(format!("`{own}` {:?}", info.shape));
            continue;
        };
        let tensor = Tensor {
            name: name.clone(),
            source: info.name.to_string(),
            shape: info.shape.to_vec(),
            out_shape: kind.axes.of(info.shape),
            axes: kind.axes,
            dtype: options.dtype.filter(|_| info.dtype.is_float()).unwrap_or(info.dtype),
            source_dtype: info.dtype,
        };
        tensors.insert(name, (tensor, kind));
    }
    (tensors, nameless)
}

/// Exchanges two parts of a tensor's name.
fn exchange(
    (tensor, kind): (Tensor, ParameterKind),
    [one, other]: [&str; 2],
) -> (String, (Tensor, ParameterKind)) {
    let name = match tensor.name.contains(one) {
        true => tensor.name.replace(one, other),
        false => tensor.name.replace(other, one),
    };
    (name.clone(), (Tensor { name, ..tensor }, kind))
}
