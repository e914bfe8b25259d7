//! The training state as arrays under T5X's names: copied out for a checkpoint, filled from one.

use tch::{Device, Kind, Tensor};

use crate::checkpoint::{Array, ArrayView, DType, Plan, Shapes, Snapshot, Stored, read_arrays};

use super::error::TrainError;
use super::state::TrainState;

/// The count of updates in T5X's tree.
const STEP: &str = "state/step";

/// The shape of every array that a state consists of.
pub fn shapes(state: &TrainState) -> Shapes {
    let shape = |tensor: &Tensor| tensor.size().iter().map(|&extent| extent as usize).collect();
    let step = std::iter::once((STEP.to_string(), Vec::new()));
    arrays(state).map(|(name, tensor)| (name, shape(tensor))).chain(step).collect()
}

/// Copies the state to the host.
pub fn copy(state: &TrainState, snapshot: &mut Snapshot) {
    for (name, tensor) in arrays(state) {
        with_view(tensor, |view| snapshot.array(&name, view));
    }
    let step = i32::try_from(state.step).expect("T5X counts steps in 32 bits");
    snapshot.array(STEP, Array::scalar_i32(step).view());
}

/// Copies what the plan names into the state, each array as it arrives. Parameters are rounded to
/// `dtype` on the way.
///
/// # Errors
/// The checkpoint is damaged, or holds something else than floats.
pub fn fill(
    state: &mut TrainState,
    stored: &dyn Stored,
    plan: &Plan,
    dtype: Option<DType>,
) -> Result<(), TrainError> {
    let (names, sources): (Vec<&str>, Vec<&str>) = plan
        .sources
        .iter()
        .filter(|(name, _)| *name != STEP)
        .map(|(name, source)| (&name[..], &source[..]))
        .unzip();
    let rounded = dtype.and_then(kind);
    read_arrays(stored, &sources, |at, array| {
        let name = names[at];
        with_tensor(name, &array, |tensor| put(state, name, tensor, rounded))?
    })?;
    if plan.sources.contains_key(STEP) {
        state.step = stored.step()?;
    }
    Ok(())
}

/// Copies one array to its place, cast and moved to the device there.
fn put(
    state: &mut TrainState,
    name: &str,
    tensor: &Tensor,
    rounded: Option<Kind>,
) -> Result<(), TrainError> {
    if let Some(parameter) = name.strip_prefix("target/") {
        let mut parameter = state.params.get(parameter).shallow_clone();
        match rounded {
            Some(kind) => tch::no_grad(|| parameter.copy_(&tensor.to_kind(kind))),
            None => tch::no_grad(|| parameter.copy_(tensor)),
        }
    } else if let Some(slot) = name.strip_prefix("state/param_states/") {
        let restored = state.optimizer.restore(slot, tensor);
        restored.map_err(|error| TrainError::Unfit(error.to_string()))?;
    }
    Ok(())
}

/// Every float array of the state under T5X's name.
fn arrays(state: &TrainState) -> impl Iterator<Item = (String, &Tensor)> {
    let params = state.params.iter().map(|(name, tensor)| (format!("target/{name}"), tensor));
    let slots = state.optimizer.arrays();
    params.chain(slots.map(|(name, tensor)| (format!("state/param_states/{name}"), tensor)))
}

/// Shows an array as a tensor; its bytes are not copied.
fn with_tensor<R>(
    name: &str,
    array: &Array,
    read: impl FnOnce(&Tensor) -> R,
) -> Result<R, TrainError> {
    let Some(kind) = kind(array.dtype) else {
        let message = format!("`{name}` is {}, expected floats", array.dtype);
        return Err(TrainError::Unfit(message));
    };
    let shape: Vec<i64> = array.shape.iter().map(|&extent| extent as i64).collect();
    if array.data.as_ptr().align_offset(array.dtype.size()) != 0 {
        return Ok(read(&Tensor::from_data_size(&array.data, &shape, kind)));
    }
    let mut strides = vec![1; shape.len()];
    for axis in (1..shape.len()).rev() {
        strides[axis - 1] = strides[axis] * shape[axis];
    }
    // SAFETY: an array holds the elements of its shape in C order, aligned as just seen, and outlives
    // the tensor, which `read` sees by reference only and which is not written to.
    let tensor =
        unsafe { Tensor::from_blob(array.data.as_ptr(), &shape, &strides, kind, Device::Cpu) };
    Ok(read(&tensor))
}

/// libtorch's name of a float type.
fn kind(dtype: DType) -> Option<Kind> {
    Some(match dtype {
        DType::F64 => Kind::Double,
        DType::F32 => Kind::Float,
        DType::F16 => Kind::Half,
        DType::Bf16 => Kind::BFloat16,
        _ => return None,
    })
}

/// Shows a float32 tensor as bytes on the host; one on the CPU is not copied.
fn with_view<R>(tensor: &Tensor, read: impl FnOnce(ArrayView<'_>) -> R) -> R {
    let tensor = tensor.detach().to_device(Device::Cpu).to_kind(Kind::Float).contiguous();
    let shape: Vec<usize> = tensor.size().iter().map(|&extent| extent as usize).collect();
    let length = tensor.numel() * DType::F32.size();
    // SAFETY: a contiguous float32 CPU tensor holds `numel` floats from `data_ptr` on, and lives
    // until `read` returns.
    let data = unsafe { std::slice::from_raw_parts(tensor.data_ptr().cast::<u8>(), length) };
    read(ArrayView { dtype: DType::F32, shape: &shape, data })
}
