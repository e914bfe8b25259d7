//! A step that runs a function of the user's Python.

use std::collections::BTreeMap;

use rmpv::Value as Wire;

use super::{BatchStep, BuiltFeature, Context, Preprocess, Step};
use crate::error::DataError;
use crate::example::Example;
use crate::python::{of_python, to_python};
use crate::random::StageSeed;
use gimlet_gin::{Configurable, Slot, Value};
use gimlet_python::{PythonError, PythonFunction, PythonWorkers, map};
use gimlet_vocab::VocabularySpec;

/// Input and output type of a Python preprocessor's function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Configurable)]
pub enum PythonOver {
    /// A dict of built-in Python types for each record; the function returns a dict, several dicts,
    /// or None to drop the record.
    Records,
    /// A `tf.data.Dataset`, as for SeqIO's preprocessors; the function returns another one.
    Dataset,
}

/// A function of the user's Python, run in separate processes (`docs/python_tasks.md`). Functions
/// get `sequence_length`, `output_features` and `seed` if they have such parameters. Gimlet's own.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "gimlet.preprocessors.python")]
pub struct PythonPreprocessor {
    /// The module that Python imports; the working directory is searched first.
    pub module: String,
    /// The function's name within the module; dots lead into classes.
    #[gin(default = None)]
    pub function: Option<String>,
    /// A task, instead of `function`, that the module registers with SeqIO; one of its steps is
    /// used.
    #[gin(default = None)]
    pub task: Option<String>,
    /// The index of the step among the preprocessors of `task`, from 0.
    #[gin(default = 0)]
    pub step: usize,
    /// Further arguments of the function, by name.
    #[gin(default = BTreeMap::new())]
    pub kwargs: BTreeMap<String, Value>,
    /// The input of the function: 'records', one by one, or a 'dataset' of a batch of them.
    #[gin(default = PythonOver::Records)]
    pub over: PythonOver,
    /// The feature that a function of datasets takes alone, without a dict: 'text' for lines of
    /// text, as SeqIO's `TextLineDataSource` yields them. The bare values of a Python source are
    /// always taken alone.
    #[gin(default = None)]
    pub element: Option<String>,
    /// Records that are sent to Python at once. A function of datasets sees each batch as a
    /// separate data set, so it cannot join records of different batches.
    #[gin(default = 256)]
    pub batch_size: usize,
    /// The Python that runs it.
    #[gin(method)]
    pub workers: PythonWorkers,
}

impl PythonPreprocessor {
    /// The function, or the part of a task.
    pub(crate) fn function(&self) -> PythonFunction {
        PythonFunction {
            module: self.module.clone(),
            function: self.function.clone(),
            task: self.task.clone(),
            part: "preprocessors",
            index: self.step,
            kwargs: self.kwargs.clone(),
        }
    }
}

impl Preprocess for PythonPreprocessor {
    fn steps(&self, cx: &Context<'_>) -> Result<Vec<Step>, DataError> {
        let function = self.function();
        let lengths = cx.lengths.map_or(Wire::Nil, |lengths| {
            map(lengths.iter().map(|(name, length)| (&name[..], Wire::from(*length))))
        });
        let features = map(cx.features.iter().map(|(name, feature)| (&name[..], sent(feature))));
        let kind = match self.over {
            PythonOver::Records => "records",
            PythonOver::Dataset => "dataset",
        };
        let request = function
            .request(
                kind,
                [
                    ("sequence_length", lengths),
                    ("output_features", features),
                    ("element", Wire::from(self.element.as_deref().unwrap_or_default())),
                ],
            )
            .map_err(|error| DataError::Config(error.to_string()))?;
        let step = Box::new(PythonStep { function, request, workers: self.workers.clone() });
        Ok(vec![Step::Batch { num_examples: self.batch_size.max(1), step }])
    }
}

/// The description of an output feature for Python.
fn sent(feature: &BuiltFeature) -> Wire {
    let (name, args) = match &feature.vocabulary_spec {
        VocabularySpec::SentencePiece(spec)
            if spec.normalizer_spec_overrides.is_none() && !spec.is_hugging_face() =>
        {
            let args = [
                ("sentencepiece_model_file", Wire::from(&spec.sentencepiece_model_file[..])),
                ("extra_ids", Wire::from(spec.extra_ids)),
                ("reverse_extra_ids", Wire::from(spec.reverse_extra_ids)),
            ];
            ("SentencePieceVocabulary", map(args))
        }
        VocabularySpec::Byte(spec) if spec.tokenizer_config.is_none() => {
            ("ByteVocabulary", map([("extra_ids", Wire::from(spec.extra_ids))]))
        }
        VocabularySpec::PassThrough(spec) => {
            let eos_id = spec.eos_id.map_or(Wire::Nil, Wire::from);
            ("PassThroughVocabulary", map([("size", Wire::from(spec.size)), ("eos_id", eos_id)]))
        }
        VocabularySpec::SentencePiece(spec) if spec.is_hugging_face() => ("T5Tokenizer", map([])),
        VocabularySpec::Byte(_) => ("ByT5Tokenizer", map([])),
        other => (other.schema_of().short_name(), map([])),
    };
    map([
        ("vocabulary", map([("name", Wire::from(name)), ("args", args)])),
        ("add_eos", Wire::from(feature.add_eos)),
        ("required", Wire::from(feature.required)),
        ("dtype", Wire::from(feature.dtype.as_str())),
        ("rank", Wire::from(feature.rank)),
    ])
}

struct PythonStep {
    function: PythonFunction,
    /// The request without the records and their seeds.
    request: Wire,
    workers: PythonWorkers,
}

impl BatchStep for PythonStep {
    fn apply(
        &self,
        examples: Vec<Example>,
        seed: &StageSeed,
        first: u64,
    ) -> Result<Vec<Example>, (Option<usize>, String)> {
        let Wire::Map(mut request) = self.request.clone() else { unreachable!("made as a map") };
        let records: Vec<Wire> = examples.iter().map(to_python).collect();
        // TensorFlow's seeds have 31 bits.
        let seed_of = |number| Wire::from(seed.draw(number).below(1 << 31));
        let seeds = (first..first + examples.len() as u64).map(seed_of).collect();
        request.push((Wire::from("records"), Wire::Array(records)));
        request.push((Wire::from("seeds"), seeds));
        let made = self.workers.call(&self.function, Wire::Map(request));
        let made = made.map_err(|error| match error {
            PythonError::Raised { record, .. } => (record, error.to_string()),
            _ => (None, error.to_string()),
        })?;
        let unfit = |at, reason| (at, format!("{}: {reason}", self.function));
        let Wire::Array(made) = made else { return Err(unfit(None, "no records".to_string())) };
        let read = |pair: Wire| {
            let Wire::Array(pair) = pair else { return Err(unfit(None, "no records".to_string())) };
            let [index, record] = <[Wire; 2]>::try_from(pair).expect("an index and a record");
            let from = index.as_u64().map(|index| index as usize);
            // Records of a data set have the same types.
            let like = examples.get(from.unwrap_or(0));
            let example = of_python(record, like)
                .map_err(|reason| unfit(from, format!("it gave: {reason}")))?;
            Ok(example.read_at(from.and(like).and_then(|like| like.origin().cloned())))
        };
        made.into_iter().map(read).collect()
    }
}
