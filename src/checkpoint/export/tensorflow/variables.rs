//! Chooses the variables for a checkpoint.

use std::collections::BTreeMap;
use std::io::{self, Write};

use crate::array::{ArrayInfo, DType};
use crate::error::CheckpointError;
use crate::export::MeshOptions;
use crate::export::tensor::Tensor;
use crate::format::Without;
use crate::names::Axes;
use crate::names::mesh::{Architecture, GLOBAL_STEP, Spelling, entries, from_t5x};
use crate::raw::{RawInfo, RawInfos};
use crate::stored::Stored;
use crate::t5x_tree::{PARAM_STATES, STEP};
use gimlet_telemetry::{notice, quoted_names};

/// Maximum number of names in a message.
const MAX_NAMES: usize = 3;

/// A variable that is to be written.
pub(super) enum Variable {
    /// A variable from an array of the checkpoint.
    Array(Tensor),
    /// The number of updates.
    Step(i64),
}

impl Variable {
    /// Its type and its dimensions.
    pub(super) fn info(&self) -> RawInfo {
        match self {
            Self::Array(Tensor { dtype, out_shape, .. }) => {
                RawInfo { dtype: *dtype, shape: out_shape.clone() }
            }
            Self::Step(_) => RawInfo { dtype: DType::I64, shape: Vec::new() },
        }
    }

    /// Writes its elements, block by block.
    pub(super) fn write(&self, from: &dyn Stored, out: &mut dyn Write) -> io::Result<()> {
        match self {
            Self::Array(tensor) => tensor.write(from, tensor.axes, out),
            Self::Step(step) => out.write_all(&step.to_le_bytes()),
        }
    }
}

/// Variables by name.
pub(super) type Variables = BTreeMap<String, Variable>;

/// Returns the variables for the arrays of a checkpoint, and the step. The state of an optimizer
/// other than Mesh TensorFlow's Adafactor is omitted as a whole, with a notice to the user.
///
/// # Errors
/// A parameter has no matching variable; the step does not fit into 64 bits.
pub(super) fn of(
    from: &dyn Stored,
    step: u64,
    MeshOptions { dtype, norms }: MeshOptions,
) -> Result<Variables, CheckpointError> {
    let leaves = from.leaves();
    let architecture = Architecture::of(leaves.iter().map(|leaf| leaf.name));
    let spelling = Spelling { architecture, norms };
    let shapes = leaves.iter().map(|leaf| (leaf.name, leaf.shape)).collect();
    let is_written = |leaf: &&ArrayInfo<'_>| leaf.name != STEP && !is_placeholder(leaf, &shapes);
    let mut variables = Variables::new();
    for leaf in leaves.iter().filter(is_written) {
        if let Some(name) = from_t5x(leaf.name, spelling, &shapes) {
            variables.insert(name.clone(), Variable::Array(tensor(name, *leaf, dtype)));
        }
    }
    let (params, others) = homeless(&leaves, &variables);
    if !params.is_empty() {
        let names = quoted_names(&params, MAX_NAMES);
        let reason =
            format!("Mesh TensorFlow has no variable for {names}; expected the parameters of a T5");
        return Err(CheckpointError::Export { path: from.path().to_string(), reason });
    }
    if !others.is_empty() {
        let is_param = |_: &String, variable: &mut Variable| match variable {
            Variable::Array(tensor) => !Without::Slots.concerns(&tensor.source),
            Variable::Step(_) => true,
        };
        variables.retain(is_param);
        notice(&format!(
            "{}: its optimizer's state is left out, since Mesh TensorFlow's Adafactor has no variable for {}",
            from.path(),
            quoted_names(&others, MAX_NAMES)
        ));
    }
    let step = i64::try_from(step).map_err(|_| CheckpointError::Unsupported {
        path: from.path().to_string(),
        reason: format!("step {step} is more than TensorFlow's 64 bits can hold"),
    })?;
    variables.insert(GLOBAL_STEP.to_string(), Variable::Step(step));
    Ok(variables)
}

fn tensor(name: String, leaf: ArrayInfo<'_>, dtype: Option<DType>) -> Tensor {
    let is_rounded = leaf.name.starts_with("target/") && leaf.dtype.is_float();
    Tensor {
        name,
        source: leaf.name.to_string(),
        shape: leaf.shape.to_vec(),
        out_shape: leaf.shape.to_vec(),
        axes: Axes::Same,
        dtype: dtype.filter(|_| is_rounded).unwrap_or(leaf.dtype),
        source_dtype: leaf.dtype,
    }
}

/// Whether the leaf is the zero that T5X's Adafactor keeps for an unused slot: readers of the
/// variables create it again.
fn is_placeholder(leaf: &ArrayInfo<'_>, shapes: &BTreeMap<&str, &[usize]>) -> bool {
    let Some((param, slot)) =
        leaf.name.strip_prefix(PARAM_STATES).and_then(|name| name.rsplit_once('/'))
    else {
        return false;
    };
    let of_param = shapes.get(&format!("target/{param}")[..]);
    let is_whole =
        |slot: &str| shapes.get(&format!("{PARAM_STATES}{param}/{slot}")[..]) == of_param;
    leaf.shape == [1]
        && match slot {
            "v" | "m" => !is_whole(slot),
            "v_row" | "v_col" => is_whole("v"),
            _ => false,
        }
}

/// Returns the parameters, and the other arrays, that cannot be recovered from the variables
/// unchanged.
fn homeless<'a>(leaves: &[ArrayInfo<'a>], variables: &Variables) -> (Vec<&'a str>, Vec<&'a str>) {
    let infos: RawInfos =
        variables.iter().map(|(name, variable)| (name.clone(), variable.info())).collect();
    let back = entries(&infos);
    let is_there = |leaf: &ArrayInfo<'_>| {
        back.get(leaf.name).is_some_and(|entry| entry.shape == leaf.shape) || leaf.name == STEP
    };
    let without = leaves.iter().filter(|leaf| !is_there(leaf)).map(|leaf| leaf.name);
    without.partition(|name| name.starts_with("target/"))
}
