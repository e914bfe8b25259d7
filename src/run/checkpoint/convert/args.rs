//! The flags of `gimlet checkpoint convert`, and the requirements of each target format.

use clap::builder::PossibleValuesParser;
use clap::{Args, ValueEnum};

use crate::checkpoint::{
    DType, Format, HuggingFaceOptions, MeshNorms, MeshOptions, NativeOptions, PEFT_WEIGHTS,
    Weights, bundle_prefix, checkpoint_dir, index_of, model_types, name_newest, step_of,
    step_of_bundle, step_of_trainer, trainer_file,
};
use crate::models::HUGGING_FACE;
use crate::run::checkpoint::open::{failure, parse_path};
use crate::run::failure::Failure;
use crate::run::gin_flags::GinArgs;
use crate::storage::Path;

/// Names of files that `torch.save` writes.
const TORCH_ENDINGS: [&str; 3] = [".pth", ".pt", ".bin"];

/// Flags of `gimlet checkpoint convert`.
#[derive(Args, Debug)]
#[command(
    after_help = "Each checkpoint of a folder becomes TO/checkpoint_N, TO/model.ckpt-N or TO/model_N.pth; existing\nones \
    are not changed. A killed conversion starts over. Formats are recognized when they \
    are read.\nExample: gimlet checkpoint convert gs://my-bucket/ro_t5x_base ro_t5x_base_pt --to torch \
    --vocabulary ro.model"
)]
pub struct ConvertArgs {
    /// A checkpoint of any format, or a folder of checkpoints.
    #[arg(value_name = "FROM")]
    pub(super) from: String,
    /// The target. For t5x and orbax, a folder of checkpoints or its new `checkpoint_N`; for mesh_tensorflow, a
    /// folder of checkpoints or its new `model.ckpt-N`; for trainer, a folder or its new `model_N.pth`; for the others, a folder with `config.json` and
    /// weights, or for torch one file `.pth`, `.pt` or `.bin`.
    #[arg(value_name = "TO")]
    pub(super) to: String,
    /// The format to write; by default trainer or torch where TO is named like their files, else t5x.
    #[arg(long = "to", value_enum)]
    format: Option<TargetFormat>,
    /// Type that parameters are rounded to; by default each keeps its own.
    #[arg(long, value_enum)]
    dtype: Option<FloatType>,
    /// For mesh_tensorflow: name norms as its legacy mode does, which T5 1.0 has: `layer_norm` and `final_layer_norm`.
    #[arg(long = "legacy_norms")]
    legacy_norms: bool,
    /// Write in a bucket even if another process seems to write there; only if it is dead.
    #[arg(long = "take_over")]
    take_over: bool,
    /// Put the additions of LoRA into the kernels, and leave their factors and the optimizer's state out.
    #[arg(long = "merge")]
    pub(super) merge: bool,
    /// For peft: the folder or the name of the base model for transformers, which other programs load before the adapter.
    #[arg(long = "base", value_name = "MODEL")]
    pub(super) base: Option<String>,
    /// Compare the logits of both forms on the same tokens, each read with its own configuration, and end with status 1 if
    /// they differ by more than rounding.
    #[arg(long = "verify")]
    pub verify: bool,
    #[command(flatten)]
    pub(super) model: ModelArgs,
    /// The model's configuration. A run's own config.gin, or a config.json of Hugging Face's, precedes it.
    #[command(flatten)]
    pub(super) gin: GinArgs,
}

/// Parameters of a model of transformers that a checkpoint does not contain.
#[derive(Args, Debug)]
pub struct ModelArgs {
    /// SentencePiece model, or the `tokenizer.json` of a folder of transformers, written beside the weights with the
    /// tokenizer's files.
    #[arg(long, value_name = "SPM")]
    pub(super) vocabulary: Option<String>,
    /// Sentinel tokens after the vocabulary's own pieces; by default 100, none if the pieces
    /// include them, and 125 for ByT5.
    #[arg(long = "extra_ids", value_name = "N")]
    extra_ids: Option<usize>,
    /// Attention heads; by default as in the relative position bias.
    #[arg(long = "num_heads", value_name = "N")]
    num_heads: Option<usize>,
    /// Model of transformers; by default the one that fits the arrays.
    #[arg(long = "model_type", value_parser = PossibleValuesParser::new(model_types(HUGGING_FACE)))]
    model_type: Option<String>,
    /// LongT5's window on either side; by default 127.
    #[arg(long = "local_radius", value_name = "N")]
    local_radius: Option<usize>,
    /// Tokens that LongT5 sums up in a global one; by default 16.
    #[arg(long = "global_block_size", value_name = "N")]
    global_block_size: Option<usize>,
}

/// A format that can be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
pub enum TargetFormat {
    /// T5X's own, which `gimlet train` and T5X restore.
    T5x,
    /// Orbax's, each array in a separate folder, which T5X and other JAX programs restore.
    Orbax,
    /// Hugging Face's: config.json and model.safetensors.
    HuggingFace,
    /// TensorFlow's, as Mesh TensorFlow T5 writes it: model.ckpt-N.index and its data.
    #[value(name = "mesh_tensorflow")]
    MeshTensorFlow,
    /// PyTorch's, with Hugging Face's names: config.json and pytorch_model.bin, or one file.
    Torch,
    /// Flax's, with Hugging Face's names: config.json and flax_model.msgpack.
    Flax,
    /// PyTorch's, as the Trainer of t5-experiments saves it: model_N.pth, of the training whose last update has the number N,
    /// from 0. Its programs continue with a new optimizer, and Gimlet with the optimizer's state.
    Trainer,
    /// PEFT's, of the adapter alone: adapter_config.json and adapter_model.safetensors.
    Peft,
}

impl ConvertArgs {
    pub(super) fn format(&self) -> TargetFormat {
        let name = self.to.rsplit('/').next().unwrap_or_default();
        self.format.unwrap_or(match is_torch_file(&self.to) {
            true if step_of_trainer(name).is_some() => TargetFormat::Trainer,
            true => TargetFormat::Torch,
            false => TargetFormat::T5x,
        })
    }

    /// Whether TO is one file of weights and no folder.
    pub(super) fn is_file(&self) -> bool {
        self.format() == TargetFormat::Torch && is_torch_file(&self.to)
    }

    pub(super) fn dtype(&self) -> Option<DType> {
        self.dtype.map(FloatType::dtype)
    }

    /// Returns the options for Mesh TensorFlow's format.
    pub(super) fn mesh(&self) -> MeshOptions {
        let norms = if self.legacy_norms { MeshNorms::Legacy } else { MeshNorms::Sublayers };
        MeshOptions { dtype: self.dtype(), norms }
    }

    /// Returns the options for the formats of T5X.
    pub(super) fn native(&self) -> NativeOptions {
        NativeOptions { dtype: self.dtype(), takeover: self.take_over.into() }
    }

    /// Returns the options for the formats of weights, where flags win over what is known otherwise.
    pub(super) fn over(&self, known: HuggingFaceOptions) -> Result<HuggingFaceOptions, Failure> {
        let vocabulary = self.model.vocabulary.as_deref().map(parse_path).transpose()?;
        Ok(HuggingFaceOptions {
            weights: self.format().weights().unwrap_or_default(),
            dtype: self.dtype(),
            vocabulary: vocabulary.or(known.vocabulary),
            extra_ids: self.model.extra_ids.or(known.extra_ids),
            num_heads: self.model.num_heads.or(known.num_heads),
            model_type: self.model.model_type.clone().or(known.model_type),
            local_radius: self.model.local_radius.or(known.local_radius),
            global_block_size: self.model.global_block_size.or(known.global_block_size),
            ..known
        })
    }
}

impl TargetFormat {
    /// The file of weights of a folder; `None` for formats that hold more than weights.
    pub(super) fn weights(self) -> Option<Weights> {
        match self {
            Self::T5x | Self::Orbax | Self::MeshTensorFlow | Self::Trainer | Self::Peft => None,
            Self::HuggingFace => Some(Weights::Safetensors),
            Self::Torch => Some(Weights::Torch),
            Self::Flax => Some(Weights::Flax),
        }
    }

    /// Returns the format as which its checkpoints are recognized.
    pub(super) fn recognized(self) -> Format {
        match self {
            Self::T5x => Format::T5x,
            Self::Orbax => Format::Orbax,
            Self::MeshTensorFlow => Format::MeshTensorFlow,
            Self::HuggingFace | Self::Torch | Self::Flax => Format::HuggingFace,
            Self::Trainer => Format::Trainer,
            Self::Peft => Format::Peft,
        }
    }

    /// Whether it has transformers' names, for which more of a model must be known than its arrays.
    pub(super) fn has_names_of_transformers(self) -> bool {
        self == Self::Trainer || self.weights().is_some()
    }

    /// Whether its names contain the step.
    pub(super) fn is_of_a_step(self) -> bool {
        self.weights().is_none() && self != Self::Peft
    }

    /// Returns the place of a step's checkpoint in a folder.
    pub(super) fn place(self, folder: &Path, step: u64) -> Path {
        match self {
            Self::MeshTensorFlow => bundle_prefix(folder, step),
            Self::Trainer => trainer_file(folder, step),
            _ => checkpoint_dir(folder, step),
        }
    }

    /// Returns the step in the name of a place.
    pub(super) fn step_at(self, place: &Path) -> Option<u64> {
        match self {
            Self::MeshTensorFlow => step_of_bundle(place.file_name()),
            Self::Trainer => step_of_trainer(place.file_name()),
            _ => step_of(place),
        }
    }

    /// Completes the last action of a conversion that was killed at its very end.
    pub(super) fn settle(self, place: &Path) -> Result<(), Failure> {
        if self == Self::MeshTensorFlow {
            name_newest(&place.folder()).map_err(failure)?;
        }
        Ok(())
    }

    /// Returns the file of a checkpoint that is written last, and exists only if the checkpoint is
    /// whole.
    pub(super) fn last(self, place: &Path) -> Path {
        match (self, self.weights()) {
            (_, Some(weights)) => place.join(weights.file_name()),
            (Self::Peft, _) => place.join(PEFT_WEIGHTS),
            (Self::MeshTensorFlow, _) => index_of(place),
            _ => place.clone(),
        }
    }
}

/// A type of parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum FloatType {
    /// 4 bytes.
    Float32,
    /// 2 bytes, with the range of float32.
    Bfloat16,
    /// 2 bytes, up to 65504.
    Float16,
}

impl FloatType {
    fn dtype(self) -> DType {
        match self {
            Self::Float32 => DType::F32,
            Self::Bfloat16 => DType::Bf16,
            Self::Float16 => DType::F16,
        }
    }
}

/// Whether a path is named like a file that `torch.save` writes.
pub(super) fn is_torch_file(to: &str) -> bool {
    TORCH_ENDINGS.iter().any(|ending| to.ends_with(ending))
}
