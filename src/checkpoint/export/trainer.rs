//! Writes a training state as the Trainer of t5-experiments saves it: a file from which its programs continue, and Gimlet
//! too. Its key `gimlet`, which they ignore, holds every array under T5X's name, as views of the same elements, and
//! Gimlet's files.

use std::collections::BTreeMap;
use std::io::{self, Write};

use super::model::Named;
use super::options::HuggingFaceOptions;
use super::pickle::{PickleValue, StorageView, storage_class};
use super::tensor::Tensor;
use super::tensor_file::TensorFile;
use super::torch::{Storage, state_dict, write_archive};
use super::unwrapped;
use crate::array::{ArrayInfo, Shapes};
use crate::error::CheckpointError;
use crate::layers::Unstacked;
use crate::names::Axes;
use crate::names::hugging_face::Families;
use crate::names::trainer::{
    APEX, APEX_SCALE, APEX_SCALER, APEX_UPDATES, ARRAYS, COUNT, FILES, GRAD_SCALER, GROUPS,
    GROWTH_TRACKER, ITERATION, OPTIMIZER, OWN, SCALE, STATE, registered_place, slot_and_parameter,
    slots_of_adafactor,
};
use crate::stored::Stored;
use crate::t5x_tree::STEP;
use gimlet_storage::Path;

/// Keys of a file that nothing here reads: the model's is one of those of all training scripts.
const MODEL: &str = "model_state_dict";
const SCHEDULER: &str = "lr_scheduler_state_dict";

/// The properties of a training that its arrays do not show.
#[derive(Clone, Debug, Default)]
pub struct TrainerForm {
    /// Those of the model of which names depend.
    pub model: HuggingFaceOptions,
    /// The families of models, of which one has the names.
    pub families: Families,
    /// The settings of the optimizer under torch's names; `None` if torch has no such optimizer, whose state the file then
    /// holds for Gimlet only.
    pub optimizer: Option<Vec<(&'static str, PickleValue)>>,
    /// The learning rates, unless they are constant.
    pub rates: Option<Rates>,
    /// The scale of the loss, if there is one.
    pub grad_scaler: Option<GradScaler>,
    /// The last metrics of training and of validations by the names of Trainers.
    pub metrics: BTreeMap<String, BTreeMap<String, f64>>,
}

/// Learning rates that follow a schedule.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rates {
    /// The rate of which the schedule takes fractions.
    pub base: f64,
    /// The rate of the next update.
    pub next: f64,
    /// The updates so far.
    pub updates: i64,
}

/// The scale of a loss, as torch's GradScaler has it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GradScaler {
    /// The scale of the next step.
    pub scale: f64,
    /// The number of updates in a row after which the scale grows.
    pub growth_interval: u64,
    /// The updates so far in a row.
    pub updates: u64,
}

/// Writes the file of a training after `step` updates, of which there was at least one.
///
/// # Errors
/// Transformers do not have its model; reading or writing fails. Errors of reading are wrapped.
pub(crate) fn write_trainer<W: Write>(
    from: &dyn Stored,
    (form, step): (&TrainerForm, u64),
    out: W,
) -> io::Result<W> {
    let (object, storages) = described(from, form, step).map_err(io::Error::other)?;
    let (parts, stacked) = (&Unstacked::new(from), from.shapes());
    let names = parts.shapes();
    let mut sources: Vec<Storage<'_>> = Vec::with_capacity(storages.len());
    for tensor in &storages {
        let is_as_it_is = stacked.get(&tensor.source) == Some(&tensor.shape);
        let is_layer = !is_as_it_is && names.contains_key(&tensor.source);
        sources.push((if is_layer { parts } else { from }, tensor));
    }
    write_archive(&object, &sources, out)
}

/// Writes a checkpoint as a Trainer's file of that step, in which the optimizer's state is for Gimlet only; the file becomes
/// visible only when it is complete.
///
/// # Errors
/// Transformers do not have its model; the file is there already; reading or writing fails.
pub fn export_trainer(
    from: &dyn Stored,
    (file, step): (&Path, u64),
    model: &HuggingFaceOptions,
    families: Families,
) -> Result<(), CheckpointError> {
    let form = TrainerForm { model: model.clone(), families, ..TrainerForm::default() };
    file.folder().create_dir_all()?;
    let out = TensorFile::begin(file, file)?;
    write_trainer(from, (&form, step), out).map_err(|error| unwrapped(file, error))?.finish()
}

/// Returns the object, and the tensors of its storages.
fn described(
    from: &dyn Stored,
    form: &TrainerForm,
    step: u64,
) -> Result<(PickleValue, Vec<Tensor>), CheckpointError> {
    let parts = &Unstacked::new(from);
    let named = Named::of(parts, form.families, &form.model)?;
    let mut tensors: Vec<Tensor> =
        named.tensors.values().map(|(tensor, _)| tensor.clone()).collect();
    tensors.sort_by_cached_key(|tensor| registered_place(&tensor.name));
    let num_parameters = tensors.len();
    let named = state_dict(&named, &tensors.iter().collect::<Vec<_>>());
    let named = named.into_iter().map(|(name, view)| (name, PickleValue::Tensor(view)));
    let model = PickleValue::StateDict(named.collect());
    let states = form.optimizer.as_ref().map(|_| states(from, &mut tensors)).transpose()?;
    let step = i64::try_from(step).expect("steps fit");
    let mut object = vec![(MODEL, model)];
    if let (Some(states), Some(settings)) = (states, &form.optimizer) {
        object.push((OPTIMIZER, optimizer(states, settings, form.rates, num_parameters)));
    }
    object.extend([
        (ITERATION, PickleValue::Int(step - 1)),
        ("epoch", PickleValue::Int(0)),
        ("metrics", metrics(&form.metrics)),
    ]);
    object.extend(form.rates.map(|rates| (SCHEDULER, scheduler(rates))));
    // A Trainer reads the one that it computes with.
    object.extend(form.grad_scaler.map(|scaler| (GRAD_SCALER, grad_scaler(scaler))));
    object.extend(form.grad_scaler.map(|scaler| (APEX, scaler_of_apex(scaler))));
    object.push((OWN, own(from, &parts.shapes(), &mut tensors)?));
    if let Some(tensor) = tensors.iter().find(|tensor| storage_class(tensor.dtype).is_none()) {
        let reason =
            format!("`{}` is of type {}, which PyTorch does not save", tensor.source, tensor.dtype);
        return Err(CheckpointError::Unsupported { path: from.path().to_string(), reason });
    }
    Ok((PickleValue::dict(object), tensors))
}

/// Adds the optimizer's arrays, and returns the state of each parameter by its number.
fn states(
    from: &dyn Stored,
    tensors: &mut Vec<Tensor>,
) -> Result<Vec<(PickleValue, PickleValue)>, CheckpointError> {
    let leaves = from.leaves();
    let mut slots: BTreeMap<&str, Vec<(&str, ArrayInfo<'_>)>> = BTreeMap::new();
    let mut count = STEP;
    for leaf in leaves {
        match slot_and_parameter(leaf.name) {
            Some((_, "")) => count = leaf.name,
            Some((slot, parameter)) => slots.entry(parameter).or_default().push((slot, leaf)),
            None => {}
        }
    }
    let count = from.read(count)?.to_int().unwrap_or_default();
    let mut states = Vec::new();
    for number in 0..tensors.len() {
        let parameter = &tensors[number];
        let name = parameter.source.trim_start_matches("target/");
        let axes = parameter.axes;
        let of_adafactor = slots_of_adafactor(&parameter.shape, axes);
        let shape = parameter.shape.clone();
        let mut state = vec![(COUNT, PickleValue::Int(count))];
        for (slot, leaf) in slots.get(name).into_iter().flatten() {
            let found = of_adafactor.iter().find(|(own, ..)| own == slot);
            if found.is_some() && state.len() == 1 {
                // The root mean square of the parameter, which each update measures first.
                state.push(("RMS", PickleValue::Float(0.0)));
            }
            // An array that T5X does not use has one element.
            let is_unused = leaf.shape == [1] && shape != [1];
            if found.is_some() && is_unused {
                continue;
            }
            let of_torch = found.map_or(*slot, |(_, torch, _)| *torch);
            let axes = if leaf.shape.len() == shape.len() { axes } else { Axes::Same };
            let array = tensor(*leaf, axes);
            let view = StorageView::of(tensors.len(), &array);
            tensors.push(array);
            state.push((of_torch, PickleValue::Tensor(view)));
        }
        states.push((PickleValue::Int(number as i64), PickleValue::dict(state)));
    }
    Ok(states)
}

/// The optimizer's state dictionary, with one group of all parameters.
fn optimizer(
    states: Vec<(PickleValue, PickleValue)>,
    settings: &[(&'static str, PickleValue)],
    rates: Option<Rates>,
    num_parameters: usize,
) -> PickleValue {
    let numbers = (0..num_parameters).map(|number| PickleValue::Int(number as i64)).collect();
    let mut group = settings.to_vec();
    if let Some(Rates { base, next, .. }) = rates {
        group.retain(|(name, _)| *name != "lr");
        group.extend(
            [("lr", next), ("initial_lr", base)].map(|(k, it)| (k, PickleValue::Float(it))),
        );
    }
    group.push(("params", PickleValue::List(numbers)));
    let groups = PickleValue::List(vec![PickleValue::dict(group)]);
    PickleValue::dict([(STATE, PickleValue::Dict(states)), (GROUPS, groups)])
}

/// The state of torch's LambdaLR after some updates.
fn scheduler(Rates { base, next, updates }: Rates) -> PickleValue {
    PickleValue::dict([
        ("base_lrs", PickleValue::List(vec![PickleValue::Float(base)])),
        ("last_epoch", PickleValue::Int(updates)),
        ("_step_count", PickleValue::Int(updates + 1)),
        ("verbose", PickleValue::Bool(false)),
        ("_get_lr_called_within_step", PickleValue::Bool(false)),
        ("_last_lr", PickleValue::List(vec![PickleValue::Float(next)])),
        ("lr_lambdas", PickleValue::List(vec![PickleValue::None])),
    ])
}

fn metrics(by_split: &BTreeMap<String, BTreeMap<String, f64>>) -> PickleValue {
    let numbers = |metrics: &BTreeMap<String, f64>| {
        PickleValue::dict(metrics.iter().map(|(name, value)| (name, PickleValue::Float(*value))))
    };
    PickleValue::dict(by_split.iter().map(|(split, metrics)| (split, numbers(metrics))))
}

/// The state of torch's GradScaler.
fn grad_scaler(scaler: GradScaler) -> PickleValue {
    PickleValue::dict([
        (SCALE, PickleValue::Float(scaler.scale)),
        ("growth_factor", PickleValue::Float(2.0)),
        ("backoff_factor", PickleValue::Float(0.5)),
        ("growth_interval", count(scaler.growth_interval)),
        (GROWTH_TRACKER, count(scaler.updates)),
    ])
}

/// The state of apex's scale of one loss.
fn scaler_of_apex(scaler: GradScaler) -> PickleValue {
    let state =
        [(APEX_SCALE, PickleValue::Float(scaler.scale)), (APEX_UPDATES, count(scaler.updates))];
    PickleValue::dict([(APEX_SCALER, PickleValue::dict(state))])
}

fn count(count: u64) -> PickleValue {
    PickleValue::Int(i64::try_from(count).unwrap_or(i64::MAX))
}

/// Gimlet's record: every array under T5X's name, of which those that the file does not hold yet are added, and the files.
fn own(
    from: &dyn Stored,
    parts: &Shapes,
    tensors: &mut Vec<Tensor>,
) -> Result<PickleValue, CheckpointError> {
    let numbers: BTreeMap<String, usize> =
        tensors.iter().enumerate().map(|(number, it)| (it.source.clone(), number)).collect();
    let mut arrays = Vec::new();
    for leaf in from.leaves() {
        // A layer of a stack is no array of its own.
        let is_whole = parts.get(leaf.name).is_some_and(|shape| shape == leaf.shape);
        let number = numbers.get(leaf.name).copied().filter(|_| is_whole);
        let number = number.unwrap_or_else(|| {
            tensors.push(tensor(leaf, Axes::Same));
            tensors.len() - 1
        });
        let (view, axes) = (StorageView::of(number, &tensors[number]), tensors[number].axes);
        let view = if axes == Axes::Swapped { view.swapped() } else { view };
        arrays.push((leaf.name, PickleValue::Tensor(view)));
    }
    let mut files = Vec::new();
    for name in from.extras()? {
        let text = from.extra(&name)?.and_then(|bytes| String::from_utf8(bytes).ok());
        files.extend(text.map(|text| (name, PickleValue::Text(text))));
    }
    let arrays = PickleValue::dict(arrays);
    Ok(PickleValue::dict([(ARRAYS, arrays), (FILES, PickleValue::dict(files))]))
}

/// An array that is written in its type.
fn tensor(leaf: ArrayInfo<'_>, axes: Axes) -> Tensor {
    let ArrayInfo { name, dtype, shape } = leaf;
    Tensor {
        name: name.to_string(),
        source: name.to_string(),
        shape: shape.to_vec(),
        out_shape: axes.of(shape),
        axes,
        dtype,
        source_dtype: dtype,
    }
}
