//! The state of a training that the Trainer of t5-experiments saves beside its model: the iteration, and the arrays of its
//! optimizer, those of transformers' Adafactor under T5X's names and others under torch's. Gimlet's own record in such a file,
//! under the key `gimlet`, says more: every array of the state under its own name.

use std::collections::BTreeMap;

use super::machine::{Machine, Value};
use super::state_dict::{Tensor, tensors};
use crate::array::DType;
use crate::error::CheckpointError;
use crate::foreign::Foreign;
use crate::format::Format;
use crate::loss_scaling::{LOSS_SCALING_FILE, LossScaling};
use crate::names::hugging_face::Families;
use crate::names::trainer::{
    APEX, APEX_SCALE, APEX_SCALER, APEX_UPDATES, ARRAYS, COUNT, FILES, GRAD_SCALER, GROUPS,
    GROWTH_TRACKER, ITERATION, OPTIMIZER, OWN, SCALE, SLOTS_OF_ADAM, STATE, registered_place,
    slots_of_adafactor,
};
use crate::names::{Axes, Origin, T5xArray};
use crate::raw::RawInfos;
use crate::t5x_tree::{PARAM_STATES, STEP};
use gimlet_storage::Path;

/// A setting of Adafactor that no other optimizer has, and one that Adam and its kin have.
const OF_ADAFACTOR: &str = "scale_parameter";
const OF_ADAM: &str = "betas";

/// The state of a training beside its model.
#[derive(Debug, Default)]
pub(super) struct Training {
    /// Number of updates: the iteration is the number of the last one, from 0.
    step: u64,
    is_adafactor: bool,
    /// Whether its slots are those of Adam.
    is_adam: bool,
    /// The number of the optimizer's groups of parameters.
    num_groups: usize,
    loss_scaling: Option<LossScaling>,
    /// The numbers of the optimizer's parameters in the order of its groups.
    parameters: Vec<i128>,
    /// The states of parameters by their number in the optimizer.
    states: BTreeMap<usize, State>,
    own: Option<Own>,
}

/// The state of one parameter.
#[derive(Debug, Default)]
struct State {
    /// Names of its tensors in the file by their names in the optimizer.
    tensors: BTreeMap<String, String>,
    /// The number of its updates, if it is no tensor.
    count: Option<i128>,
}

/// Gimlet's record.
#[derive(Debug, Default)]
struct Own {
    /// Names of arrays, and the relation of their axes to those in the file.
    arrays: Vec<(String, Axes)>,
    files: BTreeMap<String, String>,
}

impl Training {
    /// Describes the state beside a model, whose tensors are added to `beside`; `None` for a file that no Trainer has saved.
    pub fn of(
        path: &Path,
        machine: &Machine,
        root: usize,
        beside: &mut BTreeMap<String, Tensor>,
    ) -> Result<Option<Self>, CheckpointError> {
        let Some(mut training) = Self::at_iteration(path, machine, root)? else { return Ok(None) };
        if let Some(optimizer) = dict(machine, root, OPTIMIZER) {
            training.add_optimizer(machine, optimizer, beside);
        }
        training.loss_scaling = loss_scaling(machine, root);
        training.own = dict(machine, root, OWN).map(|own| Own::of(machine, own, beside));
        Ok(Some(training))
    }

    /// Reads the iteration; `None` without one.
    pub fn at_iteration(
        path: &Path,
        machine: &Machine,
        root: usize,
    ) -> Result<Option<Self>, CheckpointError> {
        let Some(Value::Int(iteration)) = get(machine, root, ITERATION) else { return Ok(None) };
        let step = iteration.checked_add(1).and_then(|step| i32::try_from(step).ok());
        let step = step.and_then(|step| u64::try_from(step).ok()).ok_or_else(|| {
            let found = format!("its `{ITERATION}` is {iteration}, expected a number of updates");
            CheckpointError::damaged(path, found)
        })?;
        Ok(Some(Self { step, ..Self::default() }))
    }

    /// Adds an optimizer's state dictionary.
    pub fn add_optimizer(
        &mut self,
        machine: &Machine,
        optimizer: usize,
        beside: &mut BTreeMap<String, Tensor>,
    ) {
        let groups = match get(machine, optimizer, GROUPS) {
            Some(Value::List(groups)) => &machine.lists[*groups][..],
            _ => &[],
        };
        for group in groups.iter().filter_map(Value::as_dict) {
            self.is_adafactor = get(machine, group, OF_ADAFACTOR).is_some();
            self.is_adam = get(machine, group, OF_ADAM).is_some();
            if let Some(Value::List(params)) = get(machine, group, "params") {
                let numbers = machine.lists[*params].iter().map(|number| match number {
                    Value::Int(number) => *number,
                    _ => -1,
                });
                self.parameters.extend(numbers);
                self.num_groups += 1;
            }
        }
        let Some(states) = dict(machine, optimizer, STATE) else { return };
        for (number, state) in &machine.dicts[states] {
            let (Value::Int(number), Value::Dict(state)) = (number, state) else { continue };
            let Ok(number) = usize::try_from(*number) else { continue };
            let mut found = State::default();
            for (name, tensor) in tensors(machine, *state) {
                let raw = format!("{OPTIMIZER}/{number}/{name}");
                beside.insert(raw.clone(), tensor);
                found.tensors.insert(name, raw);
            }
            if let Some(Value::Int(count)) = get(machine, *state, COUNT) {
                found.count = Some(*count);
            }
            self.states.insert(number, found);
        }
    }

    /// Takes the state of an optimizer of another file.
    pub fn take_optimizer(&mut self, other: Self) {
        *self = Self { step: self.step, own: None, ..other };
    }

    /// Adds the state of torch's GradScaler.
    pub fn add_scaler(&mut self, machine: &Machine, state: usize) {
        self.loss_scaling = scale_in(machine, (state, SCALE, GROWTH_TRACKER));
    }

    /// Takes the scale of the loss of another file.
    pub fn take_scaler(&mut self, other: Self) {
        self.loss_scaling = other.loss_scaling;
    }

    /// Adds the state to a model, whose parameters have these numbers in the optimizer.
    ///
    /// # Errors
    /// The optimizer has other parameters than the model.
    pub fn join(
        self,
        mut model: Foreign,
        numbers: &BTreeMap<String, usize>,
    ) -> Result<Foreign, CheckpointError> {
        model.format = Format::Trainer;
        if let Some(own) = &self.own {
            model.entries = own.entries(&model);
            model.files = own.files.clone();
        } else if !self.states.is_empty() {
            let count = 1 + numbers.values().max().copied().unwrap_or(0);
            // Of one group, the numbers are those of the model's parameters in its own order.
            if self.num_groups != 1 || !self.parameters.iter().copied().eq(0..count as i128) {
                let reason = format!(
                    "its optimizer has {} parameters in {} groups, expected the {count} of its model in one group: take \
                     its weights alone, with utils.RestoreCheckpointConfig.assignment_map = [(r'state.*', None)]",
                    self.parameters.len(),
                    self.num_groups
                );
                return Err(CheckpointError::Unsupported { path: model.path.to_string(), reason });
            }
            let slots = self.slots(&model, numbers)?;
            model.entries.extend(slots);
        }
        if let (None, Some(scaling)) = (&self.own, &self.loss_scaling) {
            let text = serde_json::to_string(scaling).expect("numbers have a JSON form");
            model.files.insert(LOSS_SCALING_FILE.to_string(), text);
        }
        model.entries.entry(STEP.to_string()).or_insert_with(|| number(self.step as i32));
        Ok(model)
    }

    /// Returns the optimizer's arrays.
    fn slots(
        &self,
        model: &Foreign,
        numbers: &BTreeMap<String, usize>,
    ) -> Result<Vec<(String, T5xArray)>, CheckpointError> {
        let mut slots = Vec::new();
        for (name, param) in &model.entries {
            let Origin::Tensor(raw, axes) = &param.origin else { continue };
            let number = numbers.get(raw);
            let Some(state) = number.and_then(|number| self.states.get(number)) else { continue };
            let name = name.trim_start_matches("target/");
            if !self.is_adafactor {
                // Numbers of an update, such as `step`, have no shape, and optimizers without a name here have others.
                let is_array = |raw: &str| axes.of(&model.raw.info(raw).shape) == param.shape;
                for (slot, raw) in state.tensors.iter().filter(|(_, raw)| is_array(raw)) {
                    let array = tensor(model, raw, *axes, &param.shape)?;
                    slots.push((format!("{PARAM_STATES}{}/{name}", self.own_slot(slot)), array));
                }
                continue;
            }
            for (slot, of, dims) in slots_of_adafactor(&param.shape, *axes) {
                let array = match state.tensors.get(of) {
                    // Only a damaged file has a slot for a dimension that the parameter lacks.
                    Some(raw) if dims.iter().all(|dim| *dim < param.shape.len()) => {
                        let shape: Vec<usize> = dims.iter().map(|dim| param.shape[*dim]).collect();
                        let is_whole = shape.len() == param.shape.len();
                        tensor(model, raw, if is_whole { *axes } else { Axes::Same }, &shape)?
                    }
                    // A placeholder of T5X's.
                    _ => T5xArray { origin: Origin::Zeros, dtype: DType::F32, shape: vec![1] },
                };
                slots.push((format!("{PARAM_STATES}{name}/{slot}"), array));
            }
        }
        slots.extend(self.count());
        Ok(slots)
    }

    /// Returns the optimizer's own number of updates, which is that of any parameter.
    fn count(&self) -> Option<(String, T5xArray)> {
        let state = self.states.values().next()?;
        let count = match (state.count, state.tensors.get(COUNT)) {
            (Some(count), _) => number(i32::try_from(count).ok()?),
            (None, Some(raw)) => {
                let origin = Origin::Step(raw.clone());
                T5xArray { origin, dtype: DType::I32, shape: Vec::new() }
            }
            // SGD has no number of its own.
            (None, None) => number(self.step as i32),
        };
        let chain = if self.is_adam { "0/" } else { "" };
        Some((format!("{PARAM_STATES}{chain}count"), count))
    }

    /// Returns optax's name of a slot, which Adam's have.
    fn own_slot(&self, slot: &str) -> String {
        let of_optax = SLOTS_OF_ADAM.iter().find(|(_, torch)| self.is_adam && *torch == slot);
        of_optax.map_or_else(|| slot.to_string(), |(optax, _)| format!("0/{optax}"))
    }
}

impl Own {
    fn of(machine: &Machine, own: usize, beside: &mut BTreeMap<String, Tensor>) -> Self {
        let mut record = Self::default();
        for (name, mut tensor) in
            dict(machine, own, ARRAYS).map(|at| tensors(machine, at)).into_iter().flatten()
        {
            // A view that exchanges the axes is read in the order of the file.
            let axes = match tensor.strides[..] {
                [1, stride] if stride != 1 => Axes::Swapped,
                _ => Axes::Same,
            };
            if axes == Axes::Swapped {
                tensor.shape.reverse();
                tensor.strides.reverse();
            }
            beside.insert(format!("{OWN}/{name}"), tensor);
            record.arrays.push((name, axes));
        }
        let files = dict(machine, own, FILES).map_or(&[][..], |files| &machine.dicts[files][..]);
        let text = |(name, text): &(Value, Value)| {
            Some((name.text()?.to_string(), text.text()?.to_string()))
        };
        record.files = files.iter().filter_map(text).collect();
        record
    }

    fn entries(&self, model: &Foreign) -> BTreeMap<String, T5xArray> {
        let entry = |(name, axes): &(String, Axes)| {
            let raw = format!("{OWN}/{name}");
            let info = model.raw.info(&raw);
            let mut shape = info.shape.clone();
            if *axes == Axes::Swapped {
                shape.reverse();
            }
            let dtype = info.dtype;
            (name.clone(), T5xArray { origin: Origin::Tensor(raw, *axes), dtype, shape })
        };
        self.arrays.iter().map(entry).collect()
    }
}

/// Reads the scale of the loss, of torch or of apex.
fn loss_scaling(machine: &Machine, root: usize) -> Option<LossScaling> {
    let torch = dict(machine, root, GRAD_SCALER).map(|state| (state, SCALE, GROWTH_TRACKER));
    let apex = || {
        let state = dict(machine, dict(machine, root, APEX)?, APEX_SCALER)?;
        Some((state, APEX_SCALE, APEX_UPDATES))
    };
    scale_in(machine, torch.or_else(apex)?)
}

/// Reads the scale of the loss in a dict with these keys of the scale and of the updates so far in a row.
fn scale_in(
    machine: &Machine,
    (state, scale, updates): (usize, &str, &str),
) -> Option<LossScaling> {
    let scale = match get(machine, state, scale)? {
        Value::Float(scale) => *scale,
        Value::Int(scale) => *scale as f64,
        _ => return None,
    };
    let Some(Value::Int(updates)) = get(machine, state, updates) else { return None };
    let updates = u64::try_from(*updates).ok()?;
    (scale > 0.0).then_some(LossScaling { scale: Some(scale), updates, skipped: 0 })
}

/// Numbers the parameters of a model as its optimizer does: in the order of their names in the file, without tensors that
/// share their elements with an earlier one, and without buffers, which hold no floats or which families drop.
pub(super) fn numbers(
    order: &[String],
    tensors: &BTreeMap<String, Tensor>,
    families: Families,
) -> BTreeMap<String, usize> {
    let is_dropped =
        |name: &str| families.iter().flat_map(|family| family.tables).any(|it| it.drops(name));
    let mut places: BTreeMap<(&str, usize), usize> = BTreeMap::new();
    let mut numbers = BTreeMap::new();
    for name in order {
        let tensor = &tensors[name];
        if tensor.dtype.is_float() && !is_dropped(name) {
            let next = places.len();
            let number = *places.entry((&tensor.storage, tensor.offset)).or_insert(next);
            numbers.insert(name.clone(), number);
        }
    }
    numbers
}

/// Numbers the parameters of a file that holds each once and in no order.
pub(super) fn numbers_of_registered(tensors: &RawInfos) -> BTreeMap<String, usize> {
    let mut names: Vec<&String> = tensors.keys().collect();
    names.sort_by_cached_key(|name| registered_place(name));
    names.into_iter().enumerate().map(|(number, name)| (name.clone(), number)).collect()
}

/// An array of the optimizer's, which must have this shape.
fn tensor(
    model: &Foreign,
    raw: &str,
    axes: Axes,
    expected: &[usize],
) -> Result<T5xArray, CheckpointError> {
    let info = model.raw.info(raw);
    let mut shape = info.shape.clone();
    if axes == Axes::Swapped {
        shape.reverse();
    }
    if shape != expected {
        let reason = format!("`{raw}` has shape {shape:?}, expected {expected:?}");
        return Err(CheckpointError::Unsupported { path: model.path.to_string(), reason });
    }
    Ok(T5xArray { origin: Origin::Tensor(raw.to_string(), axes), dtype: info.dtype, shape })
}

fn number(value: i32) -> T5xArray {
    T5xArray { origin: Origin::Number(value), dtype: DType::I32, shape: Vec::new() }
}

/// The value of a key of a dict.
fn get<'a>(machine: &'a Machine, dict: usize, key: &str) -> Option<&'a Value> {
    machine.dicts[dict].iter().rev().find(|(name, _)| name.text() == Some(key)).map(|(_, it)| it)
}

/// The dict under a key of a dict.
fn dict(machine: &Machine, dict: usize, key: &str) -> Option<usize> {
    get(machine, dict, key).and_then(Value::as_dict)
}

#[cfg(test)]
mod tests {
    use super::super::pickle::read_pickle;
    use super::*;

    /// Python's pickles of `{"torch_amp": GradScaler().state_dict()}` after 41 updates, and of `{"amp": amp.state_dict()}` of apex.
    const TORCH: &[u8] = b"\x80\x02}X\x09\0\0\0torch_amp}(X\x05\0\0\0scaleG@\xf0\0\0\0\0\0\0\
        X\x0d\0\0\0growth_factorG@\0\0\0\0\0\0\0X\x0e\0\0\0backoff_factorG?\xe0\0\0\0\0\0\0\
        X\x0f\0\0\0growth_intervalM\xd0\x07X\x0f\0\0\0_growth_trackerK)us.";
    const OF_APEX: &[u8] = b"\x80\x02}X\x03\0\0\0ampccollections\nOrderedDict\n)R\
        X\x0c\0\0\0loss_scaler0}(X\x0a\0\0\0loss_scaleG@\x80\0\0\0\0\0\0X\x09\0\0\0unskippedK\x03uss.";

    #[test]
    fn a_scale_of_the_loss_is_that_of_torch_or_of_apex() {
        let check = |mut pickle: &[u8], expected: (f64, u64)| {
            let mut machine = Machine::default();
            let root = read_pickle(&mut pickle, &mut machine).expect("it is a pickle");
            let found = loss_scaling(&machine, root.as_dict().expect("it is a dict"));
            let (scale, updates) = expected;
            assert_eq!(found, Some(LossScaling { scale: Some(scale), updates, skipped: 0 }));
        };
        check(TORCH, (65536.0, 41));
        check(OF_APEX, (512.0, 3));
    }
}
