//! Writes the adapter of a checkpoint alone, as PEFT reads it.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::config::{Adapter, PeftConfig};
use super::merged::other_rank;
use super::{FACTORS, PREFIX, PROMPT, WEIGHTS};
use crate::array::{Array, DType};
use crate::error::CheckpointError;
use crate::export::{pretty, safetensors_header};
use crate::layers::Unstacked;
use crate::names::hugging_face::{Families, Rows, fitting};
use crate::stored::Stored;
use crate::t5x_tree::TARGET;
use crate::transpose::transposed;
use gimlet_storage::Path;

/// The properties of an adapter that its arrays do not show.
#[derive(Clone, Debug)]
pub struct PeftOptions {
    /// The adapter.
    pub adapter: Adapter,
    /// The name or path of the base model for transformers; PEFT needs none where the model is given.
    pub base: Option<String>,
    /// The kind of the base model, by PEFT's names; `None` for one that PEFT has no kind for.
    pub task_type: Option<&'static str>,
    /// Its `model_type` in transformers, if its arrays do not show it.
    pub model_type: Option<String>,
    /// The type of the written arrays; `None` keeps their types.
    pub dtype: Option<DType>,
}

/// Writes the folder of an adapter. Its arrays become visible last.
///
/// # Errors
/// The checkpoint has no such adapter, or one at a place that transformers have no name for; the folder holds an adapter
/// already; reading or writing fails.
pub fn export_peft(
    from: &dyn Stored,
    to: &Path,
    options: &PeftOptions,
    families: Families,
) -> Result<(), CheckpointError> {
    let file = to.join(WEIGHTS[0]);
    if file.exists()? {
        let reason =
            format!("it holds a `{}` already; name another folder or remove it", WEIGHTS[0]);
        return Err(CheckpointError::Export { path: to.to_string(), reason });
    }
    let from = &Unstacked::new(from);
    let mut arrays = match options.adapter {
        Adapter::Lora { rank, .. } => {
            factors(from, (families, options.model_type.as_deref()), rank)?
        }
        Adapter::Prompt { length } => prompt(from, length)?,
    };
    if let Some(dtype) = options.dtype {
        arrays = arrays.into_iter().map(|(name, array)| (name, array.cast(dtype))).collect();
    }
    let infos = arrays.iter().map(|(name, it)| (name.clone(), it.dtype, it.shape.clone()));
    let mut bytes = safetensors_header(infos, &[("format", "pt")]);
    arrays.values().for_each(|array| bytes.extend_from_slice(&array.data));
    to.create_dir_all()?;
    to.join(PeftConfig::FILE).write_atomic(&pretty(&config(options, arrays.keys())))?;
    file.write_atomic(&bytes)?;
    Ok(())
}

fn refused(from: &dyn Stored, reason: String) -> CheckpointError {
    CheckpointError::Export { path: from.path().to_string(), reason }
}

/// Reads the factors of LoRA under PEFT's names, each a matrix `[out, in]`.
fn factors(
    from: &dyn Stored,
    (families, model_type): (Families, Option<&str>),
    expected: usize,
) -> Result<BTreeMap<String, Array>, CheckpointError> {
    let leaves = from.leaves();
    let own = |name: &str| {
        let name = name.strip_prefix(TARGET)?;
        FACTORS.iter().find_map(|(own, torch)| Some((name.strip_suffix(own)?.to_string(), *torch)))
    };
    let found: Vec<_> =
        leaves.iter().filter_map(|leaf| Some((leaf.name, own(leaf.name)?))).collect();
    if found.is_empty() {
        return Err(refused(from, "it has no additions of LoRA (`lora_a`, `lora_b`)".to_string()));
    }
    // The table of the whole model: the layers of families have the same names.
    let tables = families.iter().flat_map(|family| family.spellings(model_type));
    let kernel = |path: &str| format!("{path}kernel");
    let own_names: Vec<&str> =
        leaves.iter().filter_map(|leaf| leaf.name.strip_prefix(TARGET)).collect();
    let known = |rows: &Rows| own_names.iter().filter(|name| rows.to_torch(name).is_some()).count();
    let rows = fitting(tables, known).map(|(_, rows)| rows);
    let mut arrays = BTreeMap::new();
    for (name, (path, end)) in &found {
        let torch = rows.as_ref().and_then(|rows| Some(rows.to_torch(&kernel(path))?.0));
        let module = torch.as_deref().and_then(|torch| torch.strip_suffix("weight"));
        let Some(module) = module else {
            let reason = format!("transformers have no name for the projection of `{name}`");
            return Err(refused(from, reason));
        };
        let array = from.read(name)?;
        let rank = if *end == FACTORS[0].1 { array.shape.last() } else { array.shape.first() };
        let rank = rank.copied().unwrap_or(0);
        if rank != expected {
            return Err(refused(from, other_rank(name, rank, expected)));
        }
        let others = array.shape.iter().product::<usize>() / rank;
        let shape = if *end == FACTORS[0].1 { vec![others, rank] } else { vec![rank, others] };
        arrays.insert(format!("{PREFIX}{module}{end}"), transposed(Array { shape, ..array }));
    }
    Ok(arrays)
}

/// Reads a soft prompt under PEFT's name: `[tokens, width]`.
fn prompt(from: &dyn Stored, length: usize) -> Result<BTreeMap<String, Array>, CheckpointError> {
    let (torch, own) = PROMPT;
    let name = format!("{TARGET}{own}");
    if !from.shapes().contains_key(&name) {
        return Err(refused(from, format!("it has no soft prompt (`{own}`)")));
    }
    let rows = from.read(&name)?;
    match rows.shape.first() {
        Some(found) if *found == length => Ok(BTreeMap::from([(torch.to_string(), rows)])),
        _ => Err(refused(
            from,
            format!("`{own}` has shape {:?}, and prompts.Prompt.length is {length}", rows.shape),
        )),
    }
}

/// `adapter_config.json`. PEFT gives additions to the modules whose whole names it lists.
fn config<'a>(options: &PeftOptions, names: impl Iterator<Item = &'a String>) -> Value {
    let mut config = json!({
        "base_model_name_or_path": options.base,
        "inference_mode": true,
        "task_type": options.task_type,
    });
    let own = match options.adapter {
        Adapter::Lora { rank, alpha, dropout_rate } => {
            let end = format!(".{}", FACTORS[0].1);
            let module = |name: &'a String| {
                name.strip_prefix(PREFIX)?.strip_suffix(&end).map(str::to_string)
            };
            // PEFT writes whole numbers.
            let alpha = if alpha.fract() == 0.0 { json!(alpha as i64) } else { json!(alpha) };
            json!({
                "peft_type": "LORA",
                "r": rank,
                "lora_alpha": alpha,
                "lora_dropout": dropout_rate,
                "bias": "none",
                "fan_in_fan_out": false,
                "init_lora_weights": true,
                "target_modules": names.filter_map(module).collect::<Vec<_>>(),
            })
        }
        Adapter::Prompt { length } => json!({
            "peft_type": "PROMPT_TUNING",
            "num_virtual_tokens": length,
            // The decoder's rows, which PEFT never reads, are left out.
            "num_transformer_submodules": 1,
        }),
    };
    let (Value::Object(all), Value::Object(own)) = (&mut config, own) else {
        unreachable!("both are objects");
    };
    all.extend(own);
    config
}
