//! The formats of checkpoints, and the arrays that each format cannot store.

use std::fmt;

use super::array::Shapes;
use super::t5x_tree::PARAM_STATES;

/// The formats of checkpoints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// T5X's own format: msgpack and zarr.
    T5x,
    /// Orbax's format, which T5X writes by default: OCDBT or one folder per array.
    Orbax,
    /// A folder of Hugging Face's transformers: `config.json` and weights.
    HuggingFace,
    /// A state dictionary that `torch.save` wrote.
    Torch,
    /// A file that the Trainer of t5-experiments saved: a state dictionary beside the state of a training.
    Trainer,
    /// A folder of PEFT: an adapter of a model that it names.
    Peft,
    /// TensorFlow's format as Mesh TensorFlow T5 writes it: `model.ckpt-N.index` and its data.
    MeshTensorFlow,
}

/// The arrays that a checkpoint lacks because its format cannot store them, or because writers of
/// that kind always omit them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Without {
    /// Nothing: a missing array is an error.
    #[default]
    Nothing,
    /// The optimizer's state.
    Slots,
    /// The optimizer's state, which the checkpoint holds for layers in other arrays than the model's.
    OtherSlots,
    /// The optimizer's state and the step.
    State,
}

impl Without {
    /// Whether an array is one of these.
    pub fn concerns(self, name: &str) -> bool {
        match self {
            Self::Nothing => false,
            Self::Slots | Self::OtherSlots => name.starts_with(PARAM_STATES),
            Self::State => name.starts_with("state/"),
        }
    }
}

impl Format {
    /// Its name in flags and listings.
    pub fn name(self) -> &'static str {
        match self {
            Format::T5x => "t5x",
            Format::Orbax => "orbax",
            Format::HuggingFace => "hugging_face",
            Format::Torch => "torch",
            Format::Trainer => "trainer",
            Format::Peft => "peft",
            Format::MeshTensorFlow => "mesh_tensorflow",
        }
    }

    /// The arrays that a checkpoint of this format with these arrays lacks.
    pub(super) fn without_state(self, found: &Shapes) -> Without {
        match self {
            Self::T5x | Self::Orbax => Without::Nothing,
            Self::HuggingFace | Self::Torch | Self::Peft => Without::State,
            // Published checkpoints often have no slots, but always have a step.
            Self::MeshTensorFlow | Self::Trainer
                if found.keys().any(|name| Without::Slots.concerns(name)) =>
            {
                Without::Nothing
            }
            Self::MeshTensorFlow | Self::Trainer => Without::Slots,
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Format::T5x => "a T5X checkpoint",
            Format::Orbax => "an Orbax checkpoint",
            Format::HuggingFace => "a Hugging Face model",
            Format::Torch => "a PyTorch file",
            Format::Trainer => "a Trainer's checkpoint",
            Format::Peft => "a PEFT adapter",
            Format::MeshTensorFlow => "a TensorFlow checkpoint",
        })
    }
}
