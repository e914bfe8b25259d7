//! Gives the tensors of transformers' files T5X's names, by the tables of the families of models.

use super::config::{HuggingFaceConfig, unusable};
use super::{Foreign, RawTensors};
use crate::error::CheckpointError;
use crate::format::Format;
use crate::names::hugging_face::{Families, HeadFacts, HuggingFaceFamily, NameTable, entries};
use crate::names::{Axes, Origin, T5xArray};
use crate::raw::RawInfo;
use crate::t5x_tree::{STATE, STEP, TARGET};
use gimlet_storage::Path;

/// Number of bytes of two tensors that are compared at a time.
const COMPARED_BYTES: usize = 1 << 20;

/// Opens the tensors of one or several files in `folder` under their mapped names.
pub(super) fn named(
    (path, folder): (&Path, &Path),
    format: Format,
    raw: Box<dyn RawTensors>,
    families: Families,
) -> Result<Foreign, CheckpointError> {
    let is_of_tree = |name: &String| name.starts_with(TARGET) || name.starts_with(STATE);
    if !raw.tensors().is_empty() && raw.tensors().keys().all(is_of_tree) {
        return Ok(tree(path, raw));
    }
    let (tables, facts) = names((path, folder), families)?;
    if raw.tensors().is_empty() {
        let (path, reason) = (path.to_string(), "it holds no tensors".to_string());
        return Err(CheckpointError::NotACheckpoint { path, reason });
    }
    let is_same =
        |name: &str, other: &str| raw.is_same(name, other) || are_equal(&*raw, name, other);
    let entries = entries(raw.tensors(), raw.layout(), (&tables, facts), &is_same);
    Ok(Foreign::new(path, format, raw, entries))
}

/// Opens tensors that have T5X's names already, as `gimlet checkpoint arrays` writes them.
fn tree(path: &Path, raw: Box<dyn RawTensors>) -> Foreign {
    let format = match raw.tensors().contains_key(STEP) {
        true => Format::T5x,
        false => Format::HuggingFace,
    };
    let entry = |(name, info): (&String, &RawInfo)| {
        let origin = Origin::Tensor(name.clone(), Axes::Same);
        let (dtype, shape) = (info.dtype, info.shape.clone());
        (name.clone(), T5xArray { origin, dtype, shape })
    };
    let entries = raw.tensors().iter().map(entry).collect();
    Foreign::new(path, format, raw, entries)
}

/// Returns the tables of names that the `config.json` allows, and the properties of the head that it states; every table
/// without that file.
fn names(
    (path, folder): (&Path, &Path),
    families: Families,
) -> Result<(Vec<&'static NameTable>, HeadFacts), CheckpointError> {
    let config = match families {
        [] => None,
        _ => HuggingFaceConfig::of_folder(folder)?,
    };
    let Some(config) = config else {
        let tables = families.iter().flat_map(|family| family.tables).collect();
        return Ok((tables, HeadFacts::default()));
    };
    let family = HuggingFaceFamily::of(&config, families).map_err(|other| {
        let reason = format!("its config.json has model_type {other}");
        CheckpointError::Unsupported { path: path.to_string(), reason }
    })?;
    let facts = (family.head)(&config).map_err(|error| unusable(&config.file, &error))?;
    // Refused values are told by the commands that run the model.
    if let Ok(Some(notice)) = family.check_keys(&config) {
        gimlet_telemetry::warn_once(&notice);
    }
    config.warn_of_generation();
    Ok((family.spellings(config.model_type().as_deref()).collect(), facts))
}

/// Whether two tensors hold the same values; a tensor that cannot be read equals no other.
fn are_equal(raw: &dyn RawTensors, name: &str, other: &str) -> bool {
    let info = &raw.tensors()[name];
    if *info != raw.tensors()[other] {
        return false;
    }
    let num_rows = info.shape.first().copied().unwrap_or(1);
    let step = (COMPARED_BYTES / info.row_bytes().max(1)).max(1);
    (0..num_rows).step_by(step).all(|start| {
        let rows = start..(start + step).min(num_rows);
        let read = |name: &str| raw.read_rows(name, rows.clone()).ok();
        read(name).is_some_and(|bytes| read(other) == Some(bytes))
    })
}
