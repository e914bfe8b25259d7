//! The training state as arrays under T5X's names, copied to and from checkpoints.

use std::collections::{BTreeMap, BTreeSet};

use tch::{Device, Kind, Tensor};

use crate::checkpoint::{self, Array, ArrayView, DType, Plan, Shapes, Snapshot, Stored};
use crate::nn::{Params, Shard};
use crate::partition::Mesh;

use super::error::SessionError;
use super::state::TrainState;
use super::state_layout::TARGET;

/// The count of updates in T5X's tree.
const STEP: &str = "state/step";

/// Returns the shape of every array of a state.
pub fn shapes(state: &TrainState) -> Shapes {
    let counts = counts(state).into_iter().map(|(name, _)| (name, Vec::new()));
    arrays(state).map(|(name, _, shard)| (name, shard.whole)).chain(counts).collect()
}

/// Gathers on the host the arrays of which a checkpoint cannot hold parts: short ones, which lie in one file, and those
/// whose parts are not of one size. All processes call it.
pub fn gather(state: &TrainState) -> BTreeMap<String, Tensor> {
    let division = state.params.division();
    let gathered = arrays(state).filter_map(|(name, tensor, part)| {
        let is_divided = part.axes.iter().any(Option::is_some);
        let is_gathered = is_divided && (part.whole.len() < 2 || !part.is_even());
        is_gathered.then(|| (name, division.whole(tensor, &part).to_device(Device::Cpu)))
    });
    gathered.collect()
}

/// Copies the parts of the state that are here to the host, and what was gathered.
pub fn copy(
    state: &TrainState,
    mesh: &Mesh,
    gathered: &BTreeMap<String, Tensor>,
    snapshot: &mut Snapshot,
) {
    for (name, tensor, part) in arrays(state) {
        let tensor = gathered.get(&name).unwrap_or(tensor);
        let holders = mesh.holders(&part);
        let start = part.ranges.iter().map(|range| range.start).collect();
        let shape = part.whole;
        with_view(tensor, |array| match array.shape == shape {
            true => snapshot.array(&name, array),
            false => snapshot.shard(&name, checkpoint::Shard { shape, start, holders, array }),
        });
    }
    for path in state.optimizer.nones() {
        snapshot.none(&format!("state/param_states/{path}"));
    }
    for (name, count) in counts(state) {
        let count = i32::try_from(count).expect("T5X counts steps in 32 bits");
        snapshot.array(&name, Array::scalar_i32(count).view());
    }
}

/// Copies the arrays in the plan into the state, each array while the next ones are read.
/// Parameters are rounded to `dtype` in the process.
///
/// # Errors
/// The checkpoint is damaged, or an array does not hold floats.
pub fn fill(
    state: &mut TrainState,
    stored: &dyn Stored,
    plan: &Plan,
    dtype: Option<DType>,
) -> Result<(), SessionError> {
    let counted: BTreeSet<String> = counts(state).into_iter().map(|(name, _)| name).collect();
    let sources = plan.sources.iter();
    let sources = sources.filter(|(name, _)| *name != STEP && !counted.contains(*name));
    let rounded = dtype.and_then(kind);
    read_floats(stored, sources, &mut |name, tensor| put(state, name, tensor, rounded))?;
    if plan.sources.contains_key(STEP) {
        state.step = stored.step()?;
    }
    let count = counted.iter().filter(|name| *name != STEP).find_map(|name| plan.sources.get(name));
    if let Some(source) = count {
        fill_count(state, stored, source)?;
    }
    Ok(())
}

/// Copies only the parameters in the plan, as [`fill`] does.
///
/// # Errors
/// See [`fill`].
pub fn fill_params(
    params: &Params,
    stored: &dyn Stored,
    plan: &Plan,
    dtype: Option<DType>,
) -> Result<(), SessionError> {
    let rounded = dtype.and_then(kind);
    read_floats(stored, &plan.sources, &mut |name, tensor| {
        if let Some(parameter) = name.strip_prefix(TARGET) {
            put_param(params, parameter, tensor, rounded);
        }
    })
}

/// Reads arrays of floats, given as name in the model and name in the checkpoint.
fn read_floats<'a>(
    stored: &dyn Stored,
    sources: impl IntoIterator<Item = (&'a String, &'a String)>,
    visit: &mut dyn FnMut(&str, &Tensor),
) -> Result<(), SessionError> {
    let sources = sources.into_iter().map(|(name, source)| (&name[..], &source[..]));
    let (names, sources): (Vec<&str>, Vec<&str>) = sources.unzip();
    check_floats(stored, &sources)?;
    let mut names = names.into_iter();
    stored.read_each(&sources, &mut |_, array| {
        let name = names.next().expect("arrays come in the order asked for");
        with_tensor(&array, |tensor| visit(name, tensor));
        Ok(())
    })?;
    Ok(())
}

/// Reads the number of updates of the optimizer; all its counts are the same.
fn fill_count(
    state: &mut TrainState,
    stored: &dyn Stored,
    source: &str,
) -> Result<(), SessionError> {
    let array = stored.read(source)?;
    let count = array.to_int().ok_or_else(|| {
        SessionError::Unfit(format!(
            "`{source}` of {} is {}, expected an integer",
            stored.path(),
            array.dtype
        ))
    })?;
    state.optimizer.restore_count(count);
    Ok(())
}

fn check_floats(stored: &dyn Stored, sources: &[&str]) -> Result<(), SessionError> {
    let wanted: BTreeSet<&str> = sources.iter().copied().collect();
    let leaves = stored.leaves();
    let mut leaves = leaves.iter().filter(|leaf| wanted.contains(leaf.name));
    match leaves.find(|leaf| !leaf.dtype.is_float()) {
        Some(leaf) => Err(SessionError::Unfit(format!(
            "`{}` of {} is {}, expected floats",
            leaf.name,
            stored.path(),
            leaf.dtype
        ))),
        None => Ok(()),
    }
}

/// Copies one array to its place, where it is cast and moved to the device.
fn put(state: &mut TrainState, name: &str, tensor: &Tensor, rounded: Option<Kind>) {
    if let Some(parameter) = name.strip_prefix(TARGET) {
        put_param(&state.params, parameter, tensor, rounded);
    } else if let Some(slot) = name.strip_prefix("state/param_states/") {
        let restored = state.optimizer.restore(slot, tensor);
        restored.expect("the plan names arrays of this state, in their shapes");
    }
}

fn put_param(params: &Params, name: &str, tensor: &Tensor, rounded: Option<Kind>) {
    let mut parameter = params.get(name).shallow_clone();
    let tensor = &params.shard(name).of(tensor);
    match rounded {
        Some(kind) => tch::no_grad(|| parameter.copy_(&tensor.to_kind(kind))),
        None => tch::no_grad(|| parameter.copy_(tensor)),
    }
}

/// Returns every count of updates in T5X's tree: the step, and optax's own counts.
fn counts(state: &TrainState) -> Vec<(String, i64)> {
    let (count, paths) = state.optimizer.counts();
    let step = (STEP.to_string(), i64::try_from(state.step).expect("steps fit"));
    let paths = paths.into_iter().map(|path| (format!("state/param_states/{path}"), count));
    std::iter::once(step).chain(paths).collect()
}

/// Returns every float array of the state under T5X's name, and the part of it that is here.
fn arrays(state: &TrainState) -> impl Iterator<Item = (String, &Tensor, Shard)> {
    let params = state.params.iter();
    let params =
        params.map(|(name, tensor)| (format!("{TARGET}{name}"), tensor, state.params.shard(name)));
    let slots = state.optimizer.parts();
    params.chain(
        slots.map(|(name, tensor, shard)| (format!("state/param_states/{name}"), tensor, shard)),
    )
}

/// Passes an array of floats to `read` as a tensor; its bytes are not copied.
fn with_tensor<R>(array: &Array, read: impl FnOnce(&Tensor) -> R) -> R {
    let kind = kind(array.dtype).expect("it was seen to be floats");
    let shape: Vec<i64> = array.shape.iter().map(|&extent| extent as i64).collect();
    if array.data.as_ptr().align_offset(array.dtype.size()) != 0 {
        return read(&Tensor::from_data_size(&array.data, &shape, kind));
    }
    let mut strides = vec![1; shape.len()];
    for axis in (1..shape.len()).rev() {
        strides[axis - 1] = strides[axis] * shape[axis];
    }
    let data = array.data.as_ptr();
    // SAFETY: an array holds the elements of its shape in C order, aligned as checked above, and
    // outlives the tensor, which `read` gets by reference only and does not write to.
    read(&unsafe { Tensor::from_blob(data, &shape, &strides, kind, Device::Cpu) })
}

/// Returns libtorch's name of a float type.
fn kind(dtype: DType) -> Option<Kind> {
    Some(match dtype {
        DType::F64 => Kind::Double,
        DType::F32 => Kind::Float,
        DType::F16 => Kind::Half,
        DType::Bf16 => Kind::BFloat16,
        _ => return None,
    })
}

/// Passes a tensor to `read` as bytes on the host, bfloat16 unchanged and others as float32; one on
/// the CPU is not copied.
fn with_view<R>(tensor: &Tensor, read: impl FnOnce(ArrayView<'_>) -> R) -> R {
    let dtype = if tensor.kind() == Kind::BFloat16 { DType::Bf16 } else { DType::F32 };
    let kind = kind(dtype).expect("both are floats");
    let tensor = tensor.detach().to_device(Device::Cpu).to_kind(kind).contiguous();
    let shape: Vec<usize> = tensor.size().iter().map(|&extent| extent as usize).collect();
    let length = tensor.numel() * dtype.size();
    // SAFETY: a contiguous CPU tensor holds `numel` elements from `data_ptr` on, and lives until
    // `read` returns.
    let data = unsafe { std::slice::from_raw_parts(tensor.data_ptr().cast::<u8>(), length) };
    read(ArrayView { dtype, shape: &shape, data })
}
