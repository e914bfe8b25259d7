//! Reads the folders in which the Trainer of t5-experiments saves with Hugging Face's Accelerate: the model's weights, the
//! optimizer's state, the scale of the loss, and the iteration, each in a file.

use std::ops::Range;

use super::machine::{Machine, Value};
use super::state_dict::StateDict;
use super::training::{Training, numbers_of_registered};
use super::{TorchFile, named};
use crate::error::CheckpointError;
use crate::export::Weights;
use crate::foreign::safetensors::SafeTensors;
use crate::foreign::sums::Piece;
use crate::foreign::{Foreign, RawTensors};
use crate::format::Format;
use crate::marks::TRAINER_FILE;
use crate::names::hugging_face::Families;
use crate::raw::{RawInfo, RawInfos};
use gimlet_storage::Path;

/// The files of the weights: one of them.
const SAFETENSORS: &str = Weights::Safetensors.file_name();
const TORCH: &str = Weights::Torch.file_name();

/// The file of the optimizer's state.
const OPTIMIZER: &str = "accelerate_state/optimizer.bin";

/// The file of the scale of the loss, which runs in float16 have.
const SCALER: &str = "accelerate_state/scaler.pt";

/// Opens a folder. Without the file of the optimizer it holds weights and a step.
///
/// # Errors
/// Damaged files; an optimizer of other parameters than the model's.
pub(crate) fn open_accelerate(dir: &Path, families: Families) -> Result<Foreign, CheckpointError> {
    let step = TorchFile::choose(&dir.join(TRAINER_FILE), &iteration)?.dict.training;
    let file = dir.join(TORCH);
    let (model, numbers): (Box<dyn RawTensors>, _) = match file.exists()? {
        true => {
            let model = TorchFile::open(&file)?;
            let numbers = model.numbers(families);
            (Box::new(model), numbers)
        }
        false => {
            let model = SafeTensors::open(&dir.join(SAFETENSORS))?;
            let numbers = numbers_of_registered(model.tensors());
            (Box::new(model), numbers)
        }
    };
    let file = dir.join(OPTIMIZER);
    let mut training = step.unwrap_or_default();
    let raw: Box<dyn RawTensors> = match file.exists()? {
        true => {
            let mut optimizer = TorchFile::choose(&file, &optimizer)?;
            training.take_optimizer(optimizer.dict.training.take().unwrap_or_default());
            Box::new(WithOptimizer { model, optimizer })
        }
        false => model,
    };
    let file = dir.join(SCALER);
    if file.exists()? {
        let scaler = TorchFile::choose(&file, &scaler)?.dict.training;
        training.take_scaler(scaler.unwrap_or_default());
    }
    training.join(named((dir, dir), Format::Trainer, raw, families)?, &numbers)
}

/// Chooses the iteration of `trainer.pckl`.
fn iteration(path: &Path, machine: &Machine, root: &Value) -> Result<StateDict, CheckpointError> {
    let training = Training::at_iteration(path, machine, dict(path, root)?)?;
    let missing = || CheckpointError::damaged(path, "it holds no `iteration`");
    let training = Some(training.ok_or_else(missing)?);
    Ok(StateDict { training, ..StateDict::default() })
}

/// Chooses the state of an optimizer that is the whole file.
fn optimizer(path: &Path, machine: &Machine, root: &Value) -> Result<StateDict, CheckpointError> {
    let mut found = StateDict::default();
    let mut training = Training::default();
    training.add_optimizer(machine, dict(path, root)?, &mut found.beside);
    found.training = Some(training);
    Ok(found)
}

/// Chooses the scale of the loss, which is the whole file.
fn scaler(path: &Path, machine: &Machine, root: &Value) -> Result<StateDict, CheckpointError> {
    let mut training = Training::default();
    training.add_scaler(machine, dict(path, root)?);
    Ok(StateDict { training: Some(training), ..StateDict::default() })
}

fn dict(path: &Path, root: &Value) -> Result<usize, CheckpointError> {
    root.as_dict().ok_or_else(|| {
        CheckpointError::damaged(path, format!("it holds {}, expected a dict", root.kind()))
    })
}

/// The tensors of a model, and beside them those of its optimizer.
#[derive(Debug)]
struct WithOptimizer {
    model: Box<dyn RawTensors>,
    optimizer: TorchFile,
}

impl WithOptimizer {
    fn holder(&self, name: &str) -> &dyn RawTensors {
        match self.model.tensors().contains_key(name) {
            true => &*self.model,
            false => &self.optimizer,
        }
    }
}

impl RawTensors for WithOptimizer {
    fn tensors(&self) -> &RawInfos {
        self.model.tensors()
    }

    fn info(&self, name: &str) -> &RawInfo {
        self.holder(name).info(name)
    }

    fn read_rows(&self, name: &str, rows: Range<usize>) -> Result<Vec<u8>, CheckpointError> {
        self.holder(name).read_rows(name, rows)
    }

    fn pieces(&self) -> Vec<Piece<'_>> {
        self.model.pieces().into_iter().chain(self.optimizer.pieces()).collect()
    }

    fn is_same(&self, name: &str, other: &str) -> bool {
        self.model.is_same(name, other)
    }
}
