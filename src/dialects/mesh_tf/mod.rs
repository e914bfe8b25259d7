//! Mesh TensorFlow's dialect: the configurations of the T5 paper, of t5's published models and of T0.
//!
//! `spec` has the configurables, `read` evaluates what a run of them calls, and `translate` turns that into
//! statements for T5X's configurables. Facts: tensorflow/mesh `da90793`, t5 `e081111`, and the t5 of 2019
//! (`9fd7b14`) that wrote the paper's configurations.

mod dialect;
mod read;
mod translate;
mod unsupported;
mod values;

pub mod spec;

pub use dialect::MeshTf;
pub use read::{Meaning, ModelSpecs, Places, Sentinels, explain, read, running, without_effect};
pub use translate::{Given, Mode, Translation, Vocabularies, Vocabulary, translate};

use gimlet_gin::{Modules, Registry, SkipUnknown};

/// The folder of the library that is searched after the working directory, as t5's own gin folder is.
pub const GIN_FOLDER: &str = "<gimlet>/gin/t5/models/gin";

/// The file that is read before all others.
pub const DEFAULTS: &str = "mesh_tensorflow/transformer/gin/defaults.gin";

/// The module that is imported if the command line names none.
pub const MODULE: &str = "t5.data.mixtures";

/// Selectors of older files that are skipped. Source: t5 `models/mesh_transformer.py`.
const DEPRECATED: [&str; 10] = [
    "configurable_vocabulary",
    "get_sentencepiece_model_path",
    "maybe_print_dataset",
    "num_parallel_calls",
    "SentencePieceVocabulary",
    "seqio.sentencepiece_vocabulary.SentencePieceVocabulary",
    "t5.models.mesh_transformer.get_sentencepiece_model_path",
    "train_model",
    "vocabularies.Vocabulary",
    "Vocabulary",
];

/// Adds these selectors to those that are skipped.
pub fn with_deprecated(skipped: &SkipUnknown) -> SkipUnknown {
    let own = DEPRECATED.map(str::to_string);
    match skipped {
        SkipUnknown::All => SkipUnknown::All,
        SkipUnknown::No => SkipUnknown::Named(own.to_vec()),
        SkipUnknown::Named(names) => SkipUnknown::Named([&own[..], names].concat()),
    }
}

/// Packages that files import although no configurable here is in them.
const MODULES: Modules = Modules {
    entry_points: &[],
    packages: &[
        "t5",
        "t5.data",
        "t5.models",
        "seqio",
        "mesh_tensorflow",
        "mesh_tensorflow.transformer",
    ],
    yielding: &[],
    absent: &[],
    older: &[],
};

/// Adds the dialect's configurables to those of data.
fn with_configurables(registry: Registry) -> Registry {
    let registry = registry
        .with::<spec::Run>()
        .with::<spec::MakeBitransformer>()
        .with::<spec::LanguageModel>()
        .with::<spec::GetVariableDtype>()
        .with::<spec::SerializeNumMicrobatches>()
        .with::<spec::TpuEstimatorModelFn>()
        .with::<spec::RewriteStackVariables>()
        .with::<spec::SimdMeshImpl>()
        .with::<spec::UnitScalingConvention>()
        .with::<spec::VarianceScalingInitializer>()
        .with::<spec::Decode>()
        .with::<spec::SampleAutoregressive>()
        .with::<spec::GetVocabulary>()
        .with::<spec::GetSentencepieceModelPath>()
        .with::<spec::PackDataset>()
        .with::<spec::PackOrPad>()
        .with::<spec::InferModel>()
        .with::<spec::ScoreFromDataset>()
        .with::<spec::ScoreFromStrings>()
        .with::<spec::GetCheckpointIterator>();
    unsupported::add(registry)
}
