//! Tasks made of files of `tf.Example`s by a call in a run's gin file, for inference. In Python the call registers
//! the task; here its block declares the task, and its value is the task's name.

use std::collections::BTreeMap;

use md5::{Digest, Md5};

use super::feature::Feature;
use super::preprocess::{Preprocessor, Rekey, TokenizeAndAppendEos};
use super::source::{
    DataSource, FeatureDescription, FilePattern, FileReading, ShortLength, TfDtype,
    TfExampleDataSource,
};
use super::task::Task;
use gimlet_gin::{Configurable, Evaluator, FromGin, Function, Reported, Value, ValueKind};

/// The split of such a task.
const SPLIT: &str = "infer";

/// Declares a task with the split 'infer', whose examples are texts in files of `tf.Example`s, and returns its name,
/// `infer_` and `task_id`. Source: T5X `infer.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "t5x.infer.create_task_from_tfexample_file")]
pub struct CreateTaskFromTfexampleFile {
    /// The files: a glob or a list of globs, in any storage.
    pub paths: Paths,
    /// Format of the files.
    pub file_type: TfExampleFileType,
    /// The feature of the files that becomes 'inputs', a text.
    pub inputs_key: String,
    /// The feature that becomes 'targets', a text, for scoring; with None all targets are empty.
    pub targets_key: Option<String>,
    /// The features 'inputs' and 'targets', which have the vocabularies.
    pub features: BTreeMap<String, Feature>,
    /// The end of the task's name; with None a checksum of paths and keys, the same as T5X's.
    #[gin(default = None)]
    pub task_id: Option<String>,
}

/// A format of files with `tf.Example`s.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Configurable)]
pub enum TfExampleFileType {
    /// TFRecord, however it is compressed.
    Tfrecord,
}

/// A path or several; the name of the task distinguishes them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Paths {
    /// `'a'`
    One(String),
    /// `['a']`
    List(Vec<String>),
}

impl Paths {
    fn pattern(&self) -> FilePattern {
        match self {
            Self::One(path) => FilePattern(vec![path.clone()]),
            Self::List(paths) => FilePattern(paths.clone()),
        }
    }

    /// Returns the items over which Python iterates: the letters of a text.
    fn items(&self) -> Vec<String> {
        match self {
            Self::One(path) => path.chars().map(String::from).collect(),
            Self::List(paths) => paths.clone(),
        }
    }
}

impl FromGin for Paths {
    fn expected() -> String {
        FilePattern::expected()
    }

    fn from_gin(value: &Value, cx: &mut Evaluator<'_>) -> Result<Self, Reported> {
        let FilePattern(mut paths) = FilePattern::from_gin(value, cx)?;
        Ok(match &value.kind {
            ValueKind::Str(_) => Self::One(paths.remove(0)),
            _ => Self::List(paths),
        })
    }
}

impl CreateTaskFromTfexampleFile {
    /// Returns the name of the task.
    pub fn task_name(&self) -> String {
        if let Some(id) = &self.task_id {
            return format!("infer_{id}");
        }
        let targets = self.targets_key.clone().unwrap_or_default();
        let parts = [self.paths.items(), vec![self.inputs_key.clone(), targets]].concat();
        let digest = Md5::digest(parts.join(":"));
        let hex: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("infer_{}", &hex[..10])
    }
}

impl Function for CreateTaskFromTfexampleFile {
    fn call(self) -> Result<ValueKind, String> {
        Ok(ValueKind::Str(self.task_name()))
    }
}

impl From<CreateTaskFromTfexampleFile> for Task {
    fn from(created: CreateTaskFromTfexampleFile) -> Self {
        let name = created.task_name();
        let CreateTaskFromTfexampleFile { paths, inputs_key, targets_key, features, .. } = created;
        let text = FeatureDescription::Short { dtype: TfDtype::String, length: ShortLength::One };
        let keys = [Some(inputs_key.clone()), targets_key.clone()].into_iter().flatten();
        let source = TfExampleDataSource {
            split_to_filepattern: [(SPLIT.to_string(), paths.pattern())].into(),
            feature_description: keys.map(|key| (key, text.clone())).collect(),
            sequence_feature_description: None,
            reading: FileReading::default(),
        };
        let renamed = [("inputs", Some(inputs_key)), ("targets", targets_key)];
        let key_map = renamed.into_iter().map(|(new, old)| (new.to_string(), old)).collect();
        Self {
            scope: name.clone(),
            name: Some(name),
            source: DataSource::TfExampleDataSource(source),
            preprocessors: vec![
                Preprocessor::Rekey(Rekey { key_map }),
                Preprocessor::TokenizeAndAppendEos(TokenizeAndAppendEos {
                    copy_pretokenized: true,
                }),
            ],
            output_features: features,
            postprocess_fn: None,
            metric_fns: Vec::new(),
            shuffle_buffer_size: Some(1000),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Python's hashlib computed the checksums.
    #[test]
    fn names_are_those_of_t5x() {
        let check = |paths: Paths, targets_key: Option<&str>, expected: &str| {
            let created = CreateTaskFromTfexampleFile {
                paths,
                file_type: TfExampleFileType::Tfrecord,
                inputs_key: "inputs".to_string(),
                targets_key: targets_key.map(str::to_string),
                features: BTreeMap::new(),
                task_id: None,
            };
            assert_eq!(created.task_name(), expected);
        };
        let path = || "/data/x.tfrecord".to_string();
        check(Paths::List(vec![path()]), None, "infer_fa5dea22ba");
        check(Paths::List(vec![path(), "y".to_string()]), Some("targets"), "infer_633c69cb09");
        check(Paths::One(path()), None, "infer_63d1a54233");
    }
}
