//! Configuration of saving and restoring: T5X's checkpoint dataclasses (`t5x/utils.py`).

mod save;

use std::collections::BTreeSet;

use gimlet_gin::{Configurable, Evaluator, FromGin, Ref, Reported, Value, ValueKind};

use super::array::DType;
use super::assignment::Rule;
use super::checkpointers::{CheckpointManagerClass, CheckpointerClass};
use super::transformations::StateTransformation;

pub use save::{
    Commit, NoTransformations, SaveCheckpointConfig, SaveCompression, SaveDtype, SaveFormat,
};

/// Saving and restoring of the train state and of the data position. Source: T5X `utils.py`.
#[derive(Clone, Debug, Default, PartialEq, Configurable)]
#[gin(name = "t5x.utils.CheckpointConfig")]
pub struct CheckpointConfig {
    /// How to save; None saves nothing.
    #[gin(default = None)]
    pub save: Option<SaveCheckpointConfig>,
    /// The checkpoint to start from if MODEL_DIR holds no checkpoint; None starts from scratch.
    #[gin(default = None)]
    pub restore: Option<RestoreCheckpointConfig>,
}

/// The checkpoint that a run starts from. Source: T5X `utils.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "t5x.utils.RestoreCheckpointConfig")]
pub struct RestoreCheckpointConfig {
    /// A checkpoint, a folder of checkpoints (modes 'latest' and 'all'), a list of them, or [] for
    /// none.
    pub path: CheckpointPaths,
    /// 'specific' restores `path` itself, 'latest' the newest checkpoint in it, 'all' each in turn
    /// (evaluation only).
    #[gin(default = RestoreMode::Latest)]
    pub mode: RestoreMode,
    /// The steps to restore instead of the newest or all: of each, the nearest step in the folder (modes 'latest' and
    /// 'all'). One step or a list.
    #[gin(default = None)]
    pub nearest_steps: Option<Steps>,
    /// Pairs of a pattern for names in the model and the name in the checkpoint to read instead
    /// (with groups, as in Python's `re`), or None to leave the array initialized. Not applied on
    /// resuming.
    #[gin(default = None)]
    pub assignment_map: Option<Vec<Rule>>,
    /// Whether the model must have every array of a TensorFlow checkpoint when there is no
    /// `assignment_map`; if False, other arrays are ignored. In other formats, arrays that the
    /// model lacks are never read.
    #[gin(default = true)]
    pub strict: bool,
    /// Whether arrays that the checkpoint lacks are initialized. Needs `assignment_map`, or `strict = False`: with that,
    /// a model takes the parameters, optimizer state and step that it shares with the checkpoint by name, as Mesh
    /// TensorFlow's `init_checkpoint`.
    #[gin(default = false)]
    pub fallback_to_scratch: bool,
    /// The type of the restored parameters; None keeps the type in the checkpoint.
    #[gin(default = None)]
    pub dtype: Option<RestoreDtype>,
    /// Whether to restore the data position with the state: None when a run resumes in its MODEL_DIR, True also
    /// from `path` (fails if that checkpoint has no data position from Gimlet), False never.
    #[gin(default = None)]
    pub restore_dataset: Option<bool>,
    /// The class that reads the checkpoint; any class recognizes every format.
    #[gin(default = Ref(CheckpointerClass::default()))]
    pub checkpointer_cls: Ref<CheckpointerClass>,
    /// The class that reads the checkpoint; any class recognizes every format.
    #[gin(default = Ref(CheckpointManagerClass::default()))]
    pub checkpoint_manager_cls: Ref<CheckpointManagerClass>,
    /// Functions that transform the state of the checkpoint; only
    /// `state_utils.apply_assignment_map` is supported: its rules follow those of `assignment_map`.
    #[gin(default = Vec::new())]
    pub state_transformation_fns: Vec<Ref<StateTransformation>>,
}

impl RestoreCheckpointConfig {
    /// Restores the checkpoints of these paths and this mode; all other values are gin's defaults.
    pub fn new(paths: &[&str], mode: RestoreMode) -> Self {
        Self {
            path: CheckpointPaths(paths.iter().map(|path| path.to_string()).collect()),
            mode,
            nearest_steps: None,
            assignment_map: None,
            strict: true,
            fallback_to_scratch: false,
            dtype: None,
            restore_dataset: None,
            checkpointer_cls: Ref(CheckpointerClass::default()),
            checkpoint_manager_cls: Ref(CheckpointManagerClass::default()),
            state_transformation_fns: Vec::new(),
        }
    }

    /// The rules of `assignment_map` and of the functions after it; `None` if there are neither.
    /// T5X also converts the map to a function before the others.
    pub fn rules(&self) -> Option<Vec<Rule>> {
        let functions = &self.state_transformation_fns;
        if self.assignment_map.is_none() && functions.is_empty() {
            return None;
        }
        let map = self.assignment_map.iter().flatten();
        Some(map.chain(functions.iter().flat_map(|function| function.rules())).cloned().collect())
    }
}

/// Selection of the checkpoint at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Configurable)]
pub enum RestoreMode {
    /// The path itself.
    Specific,
    /// The newest checkpoint in the folder.
    Latest,
    /// Each checkpoint in the folder, in turn.
    All,
}

/// The types to which parameters can be restored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Configurable)]
pub enum RestoreDtype {
    /// float32
    Float32,
    /// bfloat16
    Bfloat16,
    /// float16
    Float16,
}

impl From<RestoreDtype> for DType {
    fn from(dtype: RestoreDtype) -> Self {
        match dtype {
            RestoreDtype::Float32 => DType::F32,
            RestoreDtype::Bfloat16 => DType::Bf16,
            RestoreDtype::Float16 => DType::F16,
        }
    }
}

/// One path or a list of paths; an empty list means from scratch. The paths are not parsed here,
/// because a spec does not access storage.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CheckpointPaths(
    /// The paths as written.
    pub Vec<String>,
);

impl FromGin for CheckpointPaths {
    fn expected() -> String {
        "a str or a list of str".to_string()
    }

    fn from_gin(value: &Value, cx: &mut Evaluator<'_>) -> Result<Self, Reported> {
        match &value.kind {
            ValueKind::Str(path) => Ok(Self(vec![path.clone()])),
            ValueKind::List(_) | ValueKind::Tuple(_) => Vec::from_gin(value, cx).map(Self),
            _ => Err(cx.mismatch(value, &Self::expected())),
        }
    }

    fn to_gin(&self) -> Option<ValueKind> {
        self.0.to_gin()
    }
}

/// One step or several, ascending.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Steps(
    /// The steps.
    pub Vec<u64>,
);

impl FromGin for Steps {
    fn expected() -> String {
        "a step or a list of steps".to_string()
    }

    fn from_gin(value: &Value, cx: &mut Evaluator<'_>) -> Result<Self, Reported> {
        match &value.kind {
            ValueKind::Int(_) => cx.read(value).map(|step| Self(vec![step])),
            ValueKind::List(_) | ValueKind::Tuple(_) => Vec::from_gin(value, cx).map(Self),
            _ => Err(cx.mismatch(value, &Self::expected())),
        }
    }

    fn to_gin(&self) -> Option<ValueKind> {
        self.0.to_gin()
    }
}

impl Steps {
    /// Returns the checkpoints, ascending, whose steps are nearest to these; of two equally near ones the earlier. Each
    /// is given with its step.
    pub fn nearest<T>(&self, mut found: Vec<(u64, T)>) -> Vec<T> {
        found.sort_by_key(|(step, _)| *step);
        let steps: Vec<u64> = found.iter().map(|(step, _)| *step).collect();
        let nearest =
            |wanted: &u64| steps.iter().copied().min_by_key(|step| step.abs_diff(*wanted));
        let chosen: BTreeSet<u64> = self.0.iter().filter_map(nearest).collect();
        found.into_iter().filter(|(step, _)| chosen.contains(step)).map(|(_, it)| it).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::zarr::Compression;
    use gimlet_gin::{Config, FileId, Registry, Request, Source, Span, load};

    fn value(kind: ValueKind) -> Value {
        Value { kind, span: Span { file: FileId(0), start: 0, end: 1 } }
    }

    fn text(text: &str) -> Value {
        value(ValueKind::Str(text.to_string()))
    }

    fn read<T: FromGin>(value: &Value) -> Result<T, String> {
        let (config, registry) = (Config::default(), Registry::default());
        let mut evaluator = Evaluator::new(&config, &registry);
        let read = evaluator.read(value);
        read.map_err(|_| evaluator.into_diagnostics()[0].message.clone())
    }

    #[test]
    fn a_path_is_one_several_or_none() {
        let paths = |value| read::<CheckpointPaths>(&value).unwrap().0;
        assert_eq!(paths(text("gs://a/checkpoint_1")), ["gs://a/checkpoint_1"]);
        assert_eq!(paths(value(ValueKind::List(vec![text("a"), text("b")]))), ["a", "b"]);
        assert!(paths(value(ValueKind::List(Vec::new()))).is_empty());
        assert!(read::<CheckpointPaths>(&value(ValueKind::from(1))).is_err());
    }

    #[test]
    fn steps_stand_for_the_nearest_checkpoints() {
        let nearest = |steps: &[u64], found: &[u64]| {
            Steps(steps.to_vec()).nearest(found.iter().map(|step| (*step, *step)).collect())
        };
        assert_eq!(nearest(&[1_112_200], &[1_100_000, 1_112_000, 1_113_000]), [1_112_000]);
        assert_eq!(nearest(&[90, 5, 6], &[100, 0, 10]), [0, 10, 100]);
        assert_eq!(nearest(&[5], &[0, 10]), [0]);
        assert_eq!(nearest(&[5], &[]), [0; 0]);
        assert_eq!(read::<Steps>(&value(ValueKind::from(7))), Ok(Steps(vec![7])));
        assert!(read::<Steps>(&text("all")).is_err());
    }

    #[test]
    fn python_transformations_are_refused() {
        assert!(read::<NoTransformations>(&value(ValueKind::Tuple(Vec::new()))).is_ok());
        let some = value(ValueKind::List(vec![text("f")]));
        assert!(read::<NoTransformations>(&some).unwrap_err().contains("are Python"));
    }

    #[test]
    fn defaults_are_those_of_t5x() {
        let (config, registry) = (Config::default(), Registry::default());
        let mut evaluator = Evaluator::new(&config, &registry);
        let save: SaveCheckpointConfig = evaluator.evaluate_in("").unwrap();
        assert_eq!((save.dtype, save.period, save.keep), (Some(SaveDtype::Float32), None, None));
        assert_eq!(save.compression(), Ok(Compression::None));
        assert!(evaluator.evaluate_in::<RestoreCheckpointConfig>("").is_err());
        assert!(evaluator.into_diagnostics()[0].message.contains("path"));
    }

    #[test]
    fn functions_of_maps_follow_the_map() {
        let registry = Registry::default().with::<RestoreCheckpointConfig>();
        let rules = |lines: &str| {
            let lines = format!("RestoreCheckpointConfig.path = 'a'\n{lines}");
            let bind = |line: &str| ("--gin".to_string(), line.to_string());
            let bindings = lines.lines().map(bind).collect();
            let request = Request { bindings, ..Request::default() };
            let Ok(loaded) = load(&request, &NoFiles, &registry) else { panic!("{lines}") };
            let mut evaluator = Evaluator::new(&loaded.config, &registry);
            let restore: RestoreCheckpointConfig = evaluator.evaluate_in("").unwrap();
            restore.rules()
        };
        assert_eq!(rules(""), None);
        let function = "\
            RestoreCheckpointConfig.state_transformation_fns = [@state_utils.apply_assignment_map]\n\
            state_utils.apply_assignment_map.assignment_map = [('b', 'c'), ('d', None)]";
        let rule = |new: &str, old: Option<&str>| (new.to_string(), old.map(str::to_string));
        let of_function = vec![rule("b", Some("c")), rule("d", None)];
        assert_eq!(rules(function), Some(of_function.clone()));
        let both = format!("RestoreCheckpointConfig.assignment_map = [('a', None)]\n{function}");
        assert_eq!(rules(&both), Some([vec![rule("a", None)], of_function].concat()));
    }

    struct NoFiles;

    impl Source for NoFiles {
        fn read(&self, _: &str) -> std::io::Result<Option<String>> {
            Ok(None)
        }

        fn similar(&self, _: &str) -> Vec<String> {
            Vec::new()
        }
    }

    #[test]
    fn what_the_program_makes_is_what_gin_has_by_default() {
        let registry = Registry::default().with::<RestoreCheckpointConfig>();
        let binding = "t5x.utils.RestoreCheckpointConfig.path = 'a'".to_string();
        let bindings = vec![("--gin".to_string(), binding)];
        let request = Request { bindings, ..Request::default() };
        let Ok(loaded) = load(&request, &NoFiles, &registry) else { panic!("it is a binding") };
        let restore: RestoreCheckpointConfig =
            Evaluator::new(&loaded.config, &registry).evaluate_in("").unwrap();
        assert_eq!(restore, RestoreCheckpointConfig::new(&["a"], RestoreMode::Latest));
    }

    #[test]
    fn a_codec_has_levels_of_its_own() {
        let (config, registry) = (Config::default(), Registry::default());
        let plain: SaveCheckpointConfig =
            Evaluator::new(&config, &registry).evaluate_in("").unwrap();
        let check = |compression, compression_level, expected: Result<Compression, &str>| {
            let save = SaveCheckpointConfig { compression, compression_level, ..plain.clone() };
            match (save.compression(), expected) {
                (Err(message), Err(part)) => assert!(message.contains(part), "{message}"),
                (found, expected) => assert_eq!(found, expected.map_err(str::to_string)),
            }
        };
        check(Some(SaveCompression::Gzip), 1, Ok(Compression::default()));
        check(Some(SaveCompression::Gzip), 10, Err("is 10, expected 0 to 9 for 'gzip'"));
        check(Some(SaveCompression::Zstd), 19, Ok(Compression::Zstd(19)));
        check(Some(SaveCompression::Zstd), 0, Err("is 0, expected 1 to 22 for 'zstd'"));
        check(None, 23, Ok(Compression::None));
    }

    #[test]
    fn dtypes_are_spelled_as_in_numpy() {
        assert_eq!(read::<RestoreDtype>(&text("bfloat16")).map(DType::from), Ok(DType::Bf16));
        assert_eq!(read::<RestoreDtype>(&text("float16")).map(DType::from), Ok(DType::F16));
        assert!(read::<SaveDtype>(&text("float16")).is_err());
    }
}
