//! When and how to save.

use crate::checkpoint::array::DType;
use crate::checkpoint::checkpointers::{CheckpointManagerClass, CheckpointerClass, KeepBest};
use crate::checkpoint::zarr::Compression;
use crate::gin::{
    Configurable, Diagnostic, Evaluator, FromGin, Ref, Registry, Reported, Value, ValueKind,
};

/// When and how checkpoints are saved. Source: T5X `utils.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "t5x.utils.SaveCheckpointConfig")]
pub struct SaveCheckpointConfig {
    /// The type that parameters are saved in; None keeps theirs. Optimizer states keep theirs.
    #[gin(default = Some(SaveDtype::Float32))]
    pub dtype: Option<SaveDtype>,
    /// Steps between checkpoints; None or 0 saves only at the end.
    #[gin(default = None)]
    pub period: Option<u64>,
    /// Steps at which to save, besides the period.
    #[gin(default = None)]
    pub checkpoint_steps: Option<Vec<u64>>,
    /// Number of most recent checkpoints to keep, or of the best beside the newest (see
    /// `checkpointer_cls`); None keeps all. One with a file `PINNED` stays.
    #[gin(default = None)]
    pub keep: Option<usize>,
    /// Number of most recent data positions to keep; None keeps that of every checkpoint.
    #[gin(default = None)]
    pub keep_dataset_checkpoints: Option<usize>,
    /// Whether to save the data position in T5X's way. Gimlet always saves its own.
    #[gin(default = false)]
    pub save_dataset: bool,
    /// Which checkpoints `keep` keeps: the newest, or the best by a metric (`SaveBestCheckpointer`).
    #[gin(default = Ref(CheckpointerClass::default()))]
    pub checkpointer_cls: Ref<CheckpointerClass>,
    /// Which checkpoints `keep` keeps where it names a metric. What is written is T5X's native layout
    /// either way.
    #[gin(default = Ref(CheckpointManagerClass::default()))]
    pub checkpoint_manager_cls: Ref<CheckpointManagerClass>,
    /// Python functions over the state; only the empty list can be used.
    #[gin(default = NoTransformations)]
    pub state_transformation_fns: NoTransformations,
    /// How arrays are compressed, 'gzip' (as T5X does) or 'zstd'; None leaves them as they are. T5X
    /// restores each. Gimlet's own.
    // The bytes of trained floats hardly repeat: gzip at T5X's level saves 8% of them at a tenth of a
    // disk's speed, on cores that a run on the CPU needs itself (`benches/peers/compare_checkpoint.py`).
    #[gin(default = None)]
    pub compression: Option<SaveCompression>,
    /// From 0 to 9 for 'gzip' and from 1 to 22 for 'zstd': the higher, the smaller and slower. Gimlet's
    /// own.
    #[gin(default = 1)]
    pub compression_level: u32,
    /// How a checkpoint in a bucket becomes visible: 'last_file' writes it in place, and its file
    /// `checkpoint` last; 'rename' writes it under another name and has the store copy it, for T5X reading
    /// there meanwhile. On disk it is always renamed. Gimlet's own.
    #[gin(default = Commit::LastFile)]
    pub commit: Commit,
}

impl SaveCheckpointConfig {
    /// How the chunks of arrays are compressed.
    ///
    /// # Errors
    /// The codec has no such level.
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

    /// By which metric checkpoints are kept; `None` keeps the newest.
    pub fn keep_best(&self) -> Option<KeepBest> {
        self.checkpointer_cls.keep_best().or_else(|| self.checkpoint_manager_cls.keep_best())
    }
}

/// How a checkpoint in a store becomes visible.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Configurable)]
pub enum Commit {
    /// By its file `checkpoint`, without which Gimlet sees none.
    #[default]
    LastFile,
    /// By its name, which today's T5X goes by.
    Rename,
}

/// What arrays can be compressed with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Configurable)]
pub enum SaveCompression {
    /// What T5X writes.
    Gzip,
    /// Smaller than gzip at the same speed.
    Zstd,
}

/// The types that parameters can be saved in.
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

/// The empty list: T5X takes Python functions here.
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
