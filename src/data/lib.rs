//! L2: SeqIO tasks, from files to batches.
//!
//! A [`Task`] (a spec, made by gin) names the source of examples, their preprocessors and their
//! final features; [`get_dataset`] builds its pipeline and returns batches:
//!
//! ```text
//! files -> records -> preprocessors -> validate, trim -> shuffle -> mix -> pack or pad -> batch
//! ```
//!
//! With `use_cached`, records are those of the task's cache, and the preprocessors those after
//! `CacheDatasetPlaceholder`.
//!
//! All randomness is a function of (seed, stage, counter), so a position in the data is a few
//! counters and the content of the buffers: [`BatchIterator::state`] returns the position, and a
//! later run resumes there.

mod batches;
mod cache;
mod convert;
mod dataset;
mod derived;
mod error;
mod example;
mod examples;
mod family;
mod feature;
mod functions;
mod identity;
mod megatron;
mod mixture;
mod passes;
mod pipeline;
pub mod postprocess;
mod preprocess;
mod prompts;
mod provider;
mod python;
mod random;
mod rates;
mod source;
mod streams;
mod task;
mod tfexample_task;
mod value;

pub use batches::{BatchIterator, DatasetState};
pub use cache::{
    CacheFolder, CacheOptions, CacheProcess, CacheStep, Caches, Estimate, SplitPlan, Written,
    cache_step, estimate, split_plans, write_cache,
};
pub use convert::*;
pub use dataset::{
    DatasetConfig, DatasetOptions, MixtureStage, PREFETCH, check_dataset, check_split,
    check_training_eval, get_dataset, mixture_stages, subtasks, training_eval_batches,
};
pub use derived::{
    Derivation, WithMissingTaskSplitsRemoved, WithNewVocab, WithTruncatedData, part_name,
};
pub use error::DataError;
pub use example::Example;
pub use examples::{
    ExampleIterator, ExampleOptions, examples_after, max_feature_lengths, split_files_found,
    task_examples, task_splits,
};
pub use family::{Steps, TaskFamily};
pub use feature::{ContinuousFeature, Feature, FeatureDtype, TokenFeature};
pub use functions::{Functions, import_functions};
pub use identity::DataIdentity;
pub use megatron::{
    Conversions, IndexFormat, Indexing, Punkt, PunktParameters, Spaces, write_indexes,
};
pub use mixture::{Mixture, MixtureEntries, MixtureEntry, SampleFromDatasets};
pub use pipeline::{KnownIds, StageState};
pub use postprocess::{ExampleFeatures, Postprocessor, printed};
pub use preprocess::*;
pub use prompts::{PromptMixture, PromptRows, PromptSource, PromptTaskName, T0Mixture};
pub use provider::{TaskOrMixture, TaskProvider};
pub use rates::{
    MixingRateNumCharacters, MixingRateNumExamples, Rate, RateFunction, RateNumExamples,
    RateUnsupervised, StepRates,
};
pub use source::{
    ArrowDataSource, BadPlaces, BadRecordPolicy, BadRecords, BertDataset, BlendableDataset,
    ColumnType, ConcatenatedDataSource, CsvDataSource, DataSource, FeatureDescription, FeatureSpec,
    FewshotDataSource, FileDataSource, FilePattern, FileReading, FixedLenFeature,
    FixedLenSequenceFeature, FunctionDataSource, GeneratedDataSource, GeneratedKind,
    HuggingFaceDataSource, JsonLinesDataSource, LengthDistribution, MegatronDataSource,
    MixtureDataset, OnBadRecord, OriginalSource, ParquetDataSource, ParseSingleExample,
    ProtoDataSource, ReadFileFn, ShortLength, TextLineDataSource, TextLineDataset, TfDtype,
    TfExampleDataSource, TfRecordDataset, TfdsDataSource, TfdsSplits, TruncatedDatasetProvider,
    VarLenFeature, set_tfds_data_dir,
};
pub use task::Task;
pub use tfexample_task::{CreateTaskFromTfexampleFile, Paths, TfExampleFileType};
pub use value::{Key, Value};
