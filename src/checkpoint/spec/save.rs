//! Configuration of saving.

use crate::array::DType;
use crate::checkpointers::{CheckpointManagerClass, CheckpointerClass, KeepBest};
use crate::numpy_files::NumpyFiles;
use crate::zarr::Compression;
use gimlet_gin::{
    Configurable, Diagnostic, Evaluator, FromGin, Ref, Registry, Reported, Value, ValueKind,
};

/// When and how checkpoints are saved. Source: T5X `utils.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "t5x.utils.SaveCheckpointConfig")]
pub struct SaveCheckpointConfig {
    /// The type of the saved parameters; None keeps their types. Optimizer states keep their types.
    #[gin(default = Some(SaveDtype::Float32))]
    pub dtype: Option<SaveDtype>,
    /// Steps between checkpoints; None or 0 saves only at the end.
    #[gin(default = None)]
    pub period: Option<u64>,
    /// Steps at which to save, besides the period.
    #[gin(default = None)]
    pub checkpoint_steps: Option<Vec<u64>>,
    /// Number of most recent checkpoints to keep, or of the best checkpoints besides the newest
    /// (see `checkpointer_cls`); None keeps all. A checkpoint with a file `PINNED` is always kept.
    #[gin(default = None)]
    pub keep: Option<usize>,
    /// Number of most recent data positions to keep; None keeps the data positions of every
    /// checkpoint.
    #[gin(default = None)]
    pub keep_dataset_checkpoints: Option<usize>,
    /// Whether to save the data position in T5X's way. Gimlet always saves its own.
    #[gin(default = false)]
    pub save_dataset: bool,
    /// The rule for `keep`: keeps the newest checkpoints, or the best by a metric
    /// (`SaveBestCheckpointer`). That of prompt-tuning also writes files of numpy's.
    #[gin(default = Ref(CheckpointerClass::default()))]
    pub checkpointer_cls: Ref<CheckpointerClass>,
    /// The rule for `keep` if the class names a metric. Checkpoints are written in T5X's native
    /// layout in any case.
    #[gin(default = Ref(CheckpointManagerClass::default()))]
    pub checkpoint_manager_cls: Ref<CheckpointManagerClass>,
    /// Python functions that transform the state; only the empty list is supported.
    #[gin(default = NoTransformations)]
    pub state_transformation_fns: NoTransformations,
    /// Compression of arrays, 'gzip' (as in T5X) or 'zstd'; None does not compress. T5X can restore
    /// all of them. Gimlet's own parameter.
    // The bytes of trained floats hardly repeat: gzip at T5X's level saves 8% of them at a tenth of a
    // disk's speed, on cores that a run on the CPU needs itself (`benches/peers/compare_checkpoint.py`).
    #[gin(default = None)]
    pub compression: Option<SaveCompression>,
    /// From 0 to 9 for 'gzip' and from 1 to 22 for 'zstd': higher levels are smaller and slower.
    /// Gimlet's own parameter.
    #[gin(default = 1)]
    pub compression_level: u32,
    /// The form of checkpoints: 't5x' writes folders `checkpoint_N`; 'trainer' writes files `model_N.pth`, which the programs
    /// of t5-experiments read, for a T5, with the optimizer's state if torch has the optimizer. N is the number of the last
    /// update, from 0, and nothing is saved before the first update. Several processes gather the state on the first one. A run
    /// continues from either form. Gimlet's own parameter.
    #[gin(default = SaveFormat::T5x)]
    pub format: SaveFormat,
    /// How a checkpoint in a bucket becomes visible: 'last_file' writes the checkpoint in place,
    /// and its file `checkpoint` last; 'rename' writes the checkpoint under another name, which the
    /// store copies, for T5X processes that read there at the same time. On disk the checkpoint is
    /// always renamed. Gimlet's own parameter.
    #[gin(default = Commit::LastFile)]
    pub commit: Commit,
}

impl SaveCheckpointConfig {
    /// The compression of the arrays' chunks.
    ///
    /// # Errors
    /// The codec does not have this level.
    pub fn compression(&self) -> Result<Compression, String> {
        let level = self.compression_level;
        let (found, levels) = match self.compression {
            None => return Ok(Compression::None),
            Some(SaveCompression::Gzip) => (Compression::Gzip(level), 0..=9),
            Some(SaveCompression::Zstd) => (Compression::Zstd(level.cast_signed()), 1..=22),
        };
        match levels.contains(&level) {
            true => Ok(found),
            false => Err(format!(
                "utils.SaveCheckpointConfig.compression_level is {level}, expected {} to {} for '{}'",
                levels.start(),
                levels.end(),
                self.compression.as_ref().map_or("", SaveCompression::as_str)
            )),
        }
    }

    /// The parameters that are written as files of numpy's.
    ///
    /// # Errors
    /// A pattern is not a regular expression.
    pub fn numpy_files(&self) -> Result<NumpyFiles, String> {
        NumpyFiles::new(self.checkpointer_cls.save_paths())
    }

    /// The metric by which checkpoints are kept; `None` keeps the newest.
    pub fn keep_best(&self) -> Option<KeepBest> {
        self.checkpointer_cls.keep_best().or_else(|| self.checkpoint_manager_cls.keep_best())
    }
}

/// The form of checkpoints.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Configurable)]
pub enum SaveFormat {
    /// T5X's folders.
    #[default]
    T5x,
    /// Files of t5-experiments' Trainer.
    Trainer,
}

/// How a checkpoint in a store becomes visible.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Configurable)]
pub enum Commit {
    /// By its file `checkpoint`; Gimlet ignores the checkpoint until that file exists.
    #[default]
    LastFile,
    /// By its name, which current T5X uses.
    Rename,
}

/// The compression of arrays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Configurable)]
pub enum SaveCompression {
    /// T5X's compression.
    Gzip,
    /// Smaller than gzip at the same speed.
    Zstd,
}

/// The types to which parameters can be saved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Configurable)]
pub enum SaveDtype {
    /// float32
    Float32,
    /// bfloat16
    Bfloat16,
}

impl From<SaveDtype> for DType {
    fn from(dtype: SaveDtype) -> Self {
        match dtype {
            SaveDtype::Float32 => DType::F32,
            SaveDtype::Bfloat16 => DType::Bf16,
        }
    }
}

/// The empty list, for a parameter that takes Python functions in T5X.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NoTransformations;

impl FromGin for NoTransformations {
    fn expected() -> String {
        "an empty list".to_string()
    }

    fn from_gin(value: &Value, cx: &mut Evaluator<'_>) -> Result<Self, Reported> {
        match &value.kind {
            ValueKind::List(items) | ValueKind::Tuple(items) if items.is_empty() => Ok(Self),
            _ => {
                let message = "state transformation functions are Python, which is never run";
                let help = "use `assignment_map` to rename or drop parts of a checkpoint";
                Err(cx.report(Diagnostic::error(value.span, message).help(help)))
            }
        }
    }

    fn to_gin(&self) -> Option<ValueKind> {
        Some(ValueKind::List(Vec::new()))
    }

    fn register(_: &mut Registry) {}
}
