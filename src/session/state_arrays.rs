//! The training state as arrays under T5X's names, copied to and from checkpoints.

use std::collections::{BTreeMap, BTreeSet};

use tch::{Device, Kind, Tensor};

use crate::checkpoint::{
    self, Array, ArrayView, DType, NumpyFiles, PARAM_STATES, Plan, STEP, SaveFormat, Shapes,
    Snapshot, Stored, TARGET, lies_in_tree,
};
use crate::nn::{Params, Shard};
use crate::partition::Mesh;

use super::error::SessionError;
use super::state::TrainState;

/// Returns the shape of every array of a state.
pub fn shapes(state: &TrainState) -> Shapes {
    let counts = counts(state).into_iter().map(|(name, _)| (name, Vec::new()));
    arrays(state).map(|(name, _, shard)| (name, shard.whole)).chain(counts).collect()
}

/// Gathers on the host the arrays of which a checkpoint cannot hold parts: in T5X's format Adafactor's factored statistics,
/// which are short, the parameters of `numpy` files, and all arrays of a Trainer's file, which the first process keeps. All
/// processes call it.
pub fn gather(
    state: &TrainState,
    (format, numpy): (SaveFormat, &NumpyFiles),
    mesh: &Mesh,
) -> BTreeMap<String, Tensor> {
    let is_file = format == SaveFormat::Trainer;
    let is_kept = !is_file || mesh.process().rank == 0;
    let division = state.params.division();
    let gathered = arrays(state).filter_map(|(name, tensor, part)| {
        let is_divided = part.axes.iter().any(Option::is_some);
        let is_numpy = || name.strip_prefix(TARGET).is_some_and(|param| numpy.holds(param));
        let is_gathered = is_divided && (is_file || lies_in_tree(&name, &part.whole) || is_numpy());
        let whole = is_gathered.then(|| division.whole(tensor, &part))?;
        is_kept.then(|| (name, whole.to_device(Device::Cpu)))
    });
    gathered.collect()
}

/// Copies to the host the parameters that become files of numpy's, with what was gathered.
pub fn copy_numpy(
    state: &TrainState,
    numpy: &NumpyFiles,
    gathered: &BTreeMap<String, Tensor>,
    snapshot: &mut Snapshot,
) {
    for (name, tensor) in state.params.iter().filter(|(name, _)| numpy.holds(name)) {
        let tensor = gathered.get(&format!("{TARGET}{name}")).unwrap_or(tensor);
        with_view(tensor, |array| snapshot.numpy_file(name, array));
    }
}

/// Copies to the host the parts of the state that this process writes, and what was gathered.
pub fn copy(
    state: &TrainState,
    (mesh, format): (&Mesh, SaveFormat),
    gathered: &BTreeMap<String, Tensor>,
    snapshot: &mut Snapshot,
) {
    let parts: Vec<(String, &Tensor, Shard)> = arrays(state)
        .map(|(name, tensor, part)| match gathered.get(&name) {
            Some(whole) => (name, whole, Shard::whole(&part.whole)),
            None => (name, tensor, part),
        })
        .collect();
    let count = |count| i32::try_from(count).expect("T5X counts steps in 32 bits");
    let counts = counts(state).into_iter();
    let counts: Vec<(String, Array)> =
        counts.map(|(name, value)| (name, Array::scalar_i32(count(value)))).collect();
    let extents: Vec<Vec<usize>> = parts.iter().map(|(_, _, part)| part.shape()).collect();
    let without_elements = parts.iter().zip(&extents).map(|((name, tensor, part), extents)| {
        let array = ArrayView { dtype: saved_dtype(tensor), shape: extents, data: &[] };
        (&name[..], shard(part, mesh.holders(part), array))
    });
    let ranks: Vec<usize> = (0..mesh.process().count).collect();
    let counted = counts
        .iter()
        .map(|(name, array)| (&name[..], checkpoint::Shard::whole(array.view(), ranks.clone())));
    let shards: Vec<(&str, checkpoint::Shard<'_>)> = without_elements.chain(counted).collect();
    let rank = mesh.process().rank;
    let writes = match format {
        SaveFormat::T5x => checkpoint::writes(rank, &shards),
        SaveFormat::Trainer => vec![rank == 0; shards.len()],
    };
    let tensors = parts.iter().map(|(_, tensor, _)| Some(tensor)).chain(std::iter::repeat(None));
    for (((name, shard), tensor), writes) in shards.into_iter().zip(tensors).zip(writes) {
        match tensor.filter(|_| writes) {
            Some(tensor) => with_view(tensor, |array| {
                snapshot.shard(name, checkpoint::Shard { array, ..shard });
            }),
            None => snapshot.shard(name, shard),
        }
    }
    for path in state.optimizer.nones() {
        snapshot.none(&format!("{PARAM_STATES}{path}"));
    }
}

fn shard<'a>(part: &Shard, holders: Vec<usize>, array: ArrayView<'a>) -> checkpoint::Shard<'a> {
    let start = part.ranges.iter().map(|range| range.start).collect();
    checkpoint::Shard { shape: part.whole.clone(), part: part.largest(), start, holders, array }
}

/// Copies this process's parts of the arrays in the plan into the state, each while the next ones are read; no more is
/// read of an array than necessary. Parameters are rounded to `dtype` in the process.
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
    read_floats(stored, plan, arrays(state), dtype)?;
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
    read_floats(stored, plan, parameters(params), dtype)
}

/// Reads the arrays in the plan among these arrays of floats, of each the part that is here. They are cast and moved to
/// the device; parameters are rounded.
fn read_floats<'a>(
    stored: &dyn Stored,
    plan: &Plan,
    arrays: impl Iterator<Item = (String, &'a Tensor, Shard)>,
    dtype: Option<DType>,
) -> Result<(), SessionError> {
    let rounded = dtype.and_then(kind);
    let (mut places, mut parts) = (Vec::new(), Vec::new());
    for (name, tensor, shard) in arrays {
        if let Some(source) = plan.sources.get(&name).filter(|_| tensor.numel() > 0) {
            places.push((tensor.shallow_clone(), rounded.filter(|_| name.starts_with(TARGET))));
            parts.push((&source[..], shard.ranges));
        }
    }
    check_floats(stored, &parts.iter().map(|(source, _)| *source).collect())?;
    let mut places = places.into_iter();
    stored.read_parts(&parts, &mut |_, array| {
        let (mut place, rounded) = places.next().expect("arrays come in the order asked for");
        with_tensor(&array, |tensor| match rounded {
            Some(kind) => tch::no_grad(|| place.copy_(&tensor.to_kind(kind))),
            None => tch::no_grad(|| place.copy_(tensor)),
        });
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

fn check_floats(stored: &dyn Stored, wanted: &BTreeSet<&str>) -> Result<(), SessionError> {
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

/// Returns every count of updates in T5X's tree: the step, and optax's own counts.
fn counts(state: &TrainState) -> Vec<(String, i64)> {
    let (count, paths) = state.optimizer.counts();
    let step = (STEP.to_string(), i64::try_from(state.step).expect("steps fit"));
    let paths = paths.into_iter().map(|path| (format!("{PARAM_STATES}{path}"), count));
    std::iter::once(step).chain(paths).collect()
}

/// Returns every float array of the state under T5X's name, and the part of it that is here.
fn arrays(state: &TrainState) -> impl Iterator<Item = (String, &Tensor, Shard)> {
    let slots = state.optimizer.parts();
    parameters(&state.params)
        .chain(slots.map(|(name, tensor, shard)| (format!("{PARAM_STATES}{name}"), tensor, shard)))
}

fn parameters(params: &Params) -> impl Iterator<Item = (String, &Tensor, Shard)> {
    let params = params.iter().map(|(name, tensor)| (name, tensor, params.shard(name)));
    params.map(|(name, tensor, shard)| (format!("{TARGET}{name}"), tensor, shard))
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

/// Returns the type in which a tensor is saved: bfloat16 unchanged and others as float32.
fn saved_dtype(tensor: &Tensor) -> DType {
    if tensor.kind() == Kind::BFloat16 { DType::Bf16 } else { DType::F32 }
}

/// Passes a tensor to `read` as bytes on the host; one on the CPU is not copied.
fn with_view<R>(tensor: &Tensor, read: impl FnOnce(ArrayView<'_>) -> R) -> R {
    let dtype = saved_dtype(tensor);
    let kind = kind(dtype).expect("both are floats");
    let tensor = tensor.detach().to_device(Device::Cpu).to_kind(kind).contiguous();
    let shape: Vec<usize> = tensor.size().iter().map(|&extent| extent as usize).collect();
    let length = tensor.numel() * dtype.size();
    // SAFETY: a contiguous CPU tensor holds `numel` elements from `data_ptr` on, and lives until
    // `read` returns.
    let data = unsafe { std::slice::from_raw_parts(tensor.data_ptr().cast::<u8>(), length) };
    read(ArrayView { dtype, shape: &shape, data })
}
