//! L2: checkpoints: T5X's own layout, in which runs save, and others.
//!
//! A checkpoint is a folder `checkpoint_N` with a msgpack file `checkpoint` (tree, small arrays) and
//! a zarr folder for every other array. Real T5X reads what [`Writer`] writes, and [`Reader`] reads
//! what T5X wrote. Gimlet's own files lie in `checkpoint_N/gimlet/`, which T5X ignores. A
//! checkpoint is either complete or invisible: it is written under a temporary name, made durable
//! and renamed; in a store, which cannot rename folders, its file `checkpoint` is written last.
//! [`open()`] returns a [`Stored`] with arrays under T5X's names, whatever the format; the names of Hugging Face's models come
//! from the families of models that are handed in ([`HuggingFaceFamily`]).
//! ```
//! # use gimlet_checkpoint::{Array, Stored, Writer, open};
//! # use gimlet_storage::Path;
//! # let dir = std::env::temp_dir().join(format!("gimlet-doc-{}", std::process::id()));
//! # let model_dir = Path::try_from(&dir.as_path() as &std::path::Path).unwrap();
//! let writer = Writer::create(&model_dir, 6, None)?;
//! writer.array("target/scale", Array::from_f32(&[2], &[1.0, 2.0]).view())?;
//! writer.array("state/step", Array::scalar_i32(6).view())?;
//! let stored = open(&writer.commit()?, &[])?;
//! assert_eq!(stored.read("target/scale")?.to_f32().unwrap(), [1.0, 2.0]);
//! # std::fs::remove_dir_all(dir).unwrap();
//! # Ok::<(), gimlet_checkpoint::CheckpointError>(())
//! ```

mod array;
mod assignment;
mod best;
mod blocks;
mod checkpointers;
mod chosen;
mod error;
mod export;
mod find;
mod fit;
mod foreign;
mod format;
mod head;
mod hugging_face_keys;
mod layers;
mod listing;
mod loss_scaling;
mod marks;
mod mismatch;
mod more_tokens;
mod msgpack;
mod name_patterns;
mod names;
mod native;
mod npy;
mod numpy_files;
mod open;
mod orbax;
mod parallel;
mod peft;
mod ranking;
mod raw;
mod read_ahead;
mod retention;
mod saver;
mod snapshot;
mod spec;
mod statistics;
mod steps;
mod stored;
mod t5x_tree;
mod trainer_saver;
mod transformations;
mod transpose;
mod unfinished;
mod upcycled;
mod zarr;

pub use array::{Array, ArrayInfo, ArrayView, DType, Shapes};
pub use assignment::{Assigned, Plan, Rule, assign, plan_resume};
pub use best::Best;
pub use blocks::Region;
pub use checkpointers::{
    CheckpointManagerClass, Checkpointer, CheckpointerClass, KeepBest, MetricMode,
    NumpyCheckpointer, OrbaxCheckpointManager, SaveBestCheckpointer, UpcycleCheckpointer,
};
pub use chosen::{BEST_DIR, best, chosen};
pub use error::CheckpointError;
pub use export::{
    Carried, GradScaler, HuggingFaceOptions, MeshOptions, NativeOptions, PickleValue, Rates,
    StorageView, TrainerForm, Weights, export_hugging_face, export_mesh_tensorflow, export_orbax,
    export_t5x, export_torch, export_trainer, name_newest, safetensors_header, unheld,
};
pub use find::{Skipped, every, latest, restore_newest, resumable_steps};
pub use fit::check_fit;
pub use foreign::{
    GENERATION_FILE, GENERATION_KEYS, HuggingFaceConfig, generation_fields, index_of,
};
pub use format::{Format, Without};
pub use hugging_face_keys::{KeyFate, KeyTable, check_keys};
pub use layers::arranged;
pub use listing::{Condition, Listed, file_sizes, list};
pub use loss_scaling::{LOSS_SCALING_FILE, LossScaling};
pub use marks::{
    DATASET_PREFIX, best_trainer_file, bundle_prefix, checkpoint_dir, step_of, step_of_bundle,
    step_of_trainer, trainer_file,
};
pub use mismatch::Mismatch;
pub use more_tokens::{MoreTokens, with_more_tokens};
pub use name_patterns::{NamePatterns, NotAPattern};
pub use names::Axes;
pub use names::hugging_face::{
    Arrays, ConfigFacts, Description, Exchanged, Families, HeadFacts, HuggingFaceFamily,
    ModuleNames, NameTable, ParameterKind, model_types, nameless,
};
pub use names::mesh::{MeshNorms, mesh_spellings};
pub use native::{Procedure, Reader, Shard, Share, Writer, lies_in_tree, writes};
pub use npy::{NpyFile, npy_bytes};
pub use numpy_files::{NUMPY_DIR, NumpyFiles};
pub use open::open;
pub use peft::{Adapter, PEFT_WEIGHTS, PeftConfig, PeftOptions, export_peft, merged};
pub use ranking::{RankedBy, Ranking};
pub use read_ahead::Visit;
pub use retention::{Retention, remove_stale};
pub use saver::{Saver, Saving, Snapshot, write_arrays};
pub use spec::{
    CheckpointConfig, CheckpointPaths, Commit, NoTransformations, RestoreCheckpointConfig,
    RestoreDtype, RestoreMode, SaveCheckpointConfig, SaveCompression, SaveDtype, SaveFormat, Steps,
};
pub use statistics::{Distance, Statistics, Tolerance};
pub use steps::{committed, list_steps};
pub use stored::{RUN_FILE, Stored, for_each_block};
pub use t5x_tree::{PARAM_STATES, STEP, TARGET};
pub use transformations::{ApplyAssignmentMap, StateTransformation};
pub use unfinished::is_unfinished;
pub use upcycled::upcycled;
pub use zarr::Compression;
