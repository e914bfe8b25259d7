//! An adapter's folder as a checkpoint: the arrays of the base, and beside them those of the adapter.

use std::collections::BTreeMap;
use std::ops::Range;

use super::config::{Adapter, PeftConfig};
use super::{FACTORS, PREFIX, PROMPT, WEIGHTS};
use crate::array::{Array, ArrayInfo};
use crate::error::CheckpointError;
use crate::foreign::{Foreign, open_weights};
use crate::format::Format;
use crate::names::hugging_face::{Families, Rows, fitting};
use crate::names::{Axes, Origin, T5xArray};
use crate::open::open;
use crate::raw::RawInfos;
use crate::stored::Stored;
use crate::t5x_tree::TARGET;
use gimlet_storage::Path;

/// A base model with an adapter.
#[derive(Debug)]
struct Adapted {
    base: Box<dyn Stored>,
    adapter: Foreign,
}

/// Opens the folder of an adapter.
///
/// # Errors
/// Damaged files; an adapter that is not supported, or of another model than the base that it names.
pub(crate) fn open_peft(
    dir: &Path,
    families: Families,
) -> Result<Box<dyn Stored>, CheckpointError> {
    let config = PeftConfig::of_folder(dir)?;
    let base = config.base()?;
    let base = open(&base, families).map_err(|error| CheckpointError::Unsupported {
        path: dir.to_string(),
        reason: format!(
            "the base model of its adapter_config.json: {error}; expected a folder of transformers: change \
             `base_model_name_or_path`, or name its folder by --path_map"
        ),
    })?;
    let file = WEIGHTS.iter().map(|name| dir.join(name)).find(|file| file.exists().unwrap_or(true));
    let file = file.ok_or_else(|| CheckpointError::NotACheckpoint {
        path: dir.to_string(),
        reason: format!("it holds no arrays of an adapter, expected `{}`", WEIGHTS[0]),
    })?;
    let raw = open_weights(&file)?;
    let unsupported = |reason| CheckpointError::Unsupported { path: file.to_string(), reason };
    let entries = match config.adapter {
        Adapter::Lora { rank, .. } => factors(raw.tensors(), families, &*base, rank),
        Adapter::Prompt { length } => prompt(raw.tensors(), &*base, length),
    };
    let adapter = Foreign::new(dir, Format::Peft, raw, entries.map_err(unsupported)?);
    Ok(Box::new(Adapted { base, adapter }))
}

/// Returns the factors beside the kernels of the base.
fn factors(
    tensors: &RawInfos,
    families: Families,
    base: &dyn Stored,
    rank: usize,
) -> Result<BTreeMap<String, T5xArray>, String> {
    let shapes = base.shapes();
    let kernels: Vec<String> = tensors.keys().filter_map(|raw| Some(split(raw)?.0)).collect();
    let tables = families.iter().flat_map(|family| family.tables);
    let known = |rows: &Rows| kernels.iter().filter(|name| rows.to_t5x(name).is_some()).count();
    let rows = fitting(tables, known).map(|(_, rows)| rows);
    let mut entries = BTreeMap::new();
    for (raw, info) in tensors {
        let found = split(raw).and_then(|(kernel, end)| {
            let (own, _) = rows.as_ref()?.to_t5x(&kernel)?;
            let path = own.strip_suffix("/kernel").filter(|path| path.contains("/layers_"))?;
            Some((path.to_string(), end))
        });
        let [outer, inner] = info.shape[..] else {
            return Err(format!("`{raw}` has shape {:?}, expected two dimensions", info.shape));
        };
        let Some((path, end)) = found else {
            return Err(format!(
                "`{raw}` belongs to no projection of a layer, expected `{PREFIX}NAME.lora_A.weight` or lora_B.weight of one: \
                 heads and embeddings have no additions"
            ));
        };
        // PEFT's matrices are `[out, in]`.
        let shape = vec![inner, outer];
        let kernel = shapes.get(&format!("{TARGET}{path}/kernel"));
        let own = FACTORS.iter().position(|(name, _)| *name == end).expect("it was found there");
        let expected = kernel.map(|kernel| match own {
            0 => vec![kernel[0], rank],
            _ => vec![rank, kernel[1]],
        });
        if expected.as_ref() != Some(&shape) {
            let reason = match (kernel, expected) {
                (Some(kernel), Some(expected)) => format!(
                    "expected [{}, {}] beside the base's kernel `{path}` {kernel:?} at a rank of {rank}",
                    expected[1], expected[0]
                ),
                _ => format!("and the base `{}` has no `{path}`", base.path()),
            };
            return Err(format!(
                "`{raw}` has shape {:?}, {reason}: the adapter is of another model than `base_model_name_or_path` names",
                info.shape
            ));
        }
        let origin = Origin::Tensor(raw.clone(), Axes::Swapped);
        entries
            .insert(format!("{TARGET}{path}/{end}"), T5xArray { origin, dtype: info.dtype, shape });
    }
    Ok(entries)
}

/// Splits a name into that of the kernel in transformers and the end of the factor's name in T5X's tree.
fn split(raw: &str) -> Option<(String, &'static str)> {
    let name = raw.strip_prefix(PREFIX)?;
    FACTORS.iter().find_map(|(own, torch)| {
        let module = name.strip_suffix(torch)?.strip_suffix('.')?;
        Some((format!("{module}.weight"), *own))
    })
}

/// Returns the rows of a soft prompt. PEFT trains as many for the decoder, which it never reads.
fn prompt(
    tensors: &RawInfos,
    base: &dyn Stored,
    length: usize,
) -> Result<BTreeMap<String, T5xArray>, String> {
    let (name, own) = PROMPT;
    let names: Vec<&str> = tensors.keys().map(String::as_str).collect();
    let Some(info) = tensors.get(name).filter(|_| names.len() == 1) else {
        return Err(format!("it holds {names:?}, expected `{name}` alone"));
    };
    let width = base.shapes().get(&format!("{TARGET}token_embedder/embedding")).map(|it| it[1]);
    let fits =
        matches!(info.shape[..], [rows, columns] if rows >= length && Some(columns) == width);
    if !fits {
        return Err(format!(
            "`{name}` has shape {:?}, expected [{length}, {}]: the adapter is of another model than \
             `base_model_name_or_path` names",
            info.shape,
            width.unwrap_or(0)
        ));
    }
    let shape = vec![length, info.shape[1]];
    let origin = Origin::Tensor(name.to_string(), Axes::Same);
    let entry = T5xArray { origin, dtype: info.dtype, shape };
    Ok(BTreeMap::from([(format!("{TARGET}{own}"), entry)]))
}

impl Adapted {
    fn holder(&self, name: &str) -> &dyn Stored {
        if self.adapter.has(name) { &self.adapter } else { &*self.base }
    }
}

impl Stored for Adapted {
    fn path(&self) -> &Path {
        self.adapter.path()
    }

    fn format(&self) -> Format {
        Format::Peft
    }

    fn step(&self) -> Result<u64, CheckpointError> {
        Ok(0)
    }

    fn leaves(&self) -> Vec<ArrayInfo<'_>> {
        let mut leaves = self.base.leaves();
        leaves.retain(|leaf| leaf.name.starts_with(TARGET));
        leaves.extend(self.adapter.leaves());
        leaves.sort_by_key(|leaf| leaf.name);
        leaves
    }

    fn read(&self, name: &str) -> Result<Array, CheckpointError> {
        self.holder(name).read(name)
    }

    fn read_part(&self, name: &str, part: &[Range<usize>]) -> Result<Array, CheckpointError> {
        self.holder(name).read_part(name, part)
    }

    fn has_checksums(&self) -> bool {
        self.base.has_checksums() || self.adapter.has_checksums()
    }

    fn verify(&self) -> Result<(), CheckpointError> {
        self.base.verify()?;
        self.adapter.verify()
    }

    fn damages(&self, tell: &mut dyn FnMut(u64)) -> Result<Vec<CheckpointError>, CheckpointError> {
        let mut damages = self.base.damages(tell)?;
        damages.extend(self.adapter.damages(tell)?);
        Ok(damages)
    }
}
