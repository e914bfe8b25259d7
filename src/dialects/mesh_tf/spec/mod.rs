//! The configurables of Mesh TensorFlow and t5 that runs bind, a file for each part of a run.
//!
//! Parameters have the names and defaults of tensorflow/mesh `da90793` and t5 `e081111`. A parameter of no
//! effect says why; a type of `values` says which value alone has a meaning.

mod data;
mod device;
mod inference;
mod layers;
mod model;
mod optimizer;
mod run;
mod schedule;

pub use data::{
    DatasetFn, GetSentencepieceModelPath, GetVocabulary, MeshEvalDatasetFn, MeshInferenceDatasetFn,
    MeshTrainDatasetFn, PackDataset, PackOrPad, TsvDatasetFn,
};
pub use device::{
    AutoTrainSteps, GetVariableDtype, RewriteStackVariables, SerializeNumMicrobatches,
    SimdMeshImpl, TpuEstimatorModelFn, TpuMeshShape, UnitScalingConvention, VariableDtype,
    VarianceScalingInitializer,
};
pub use inference::{
    DecodeFn, DecodeFromDataset, DecodeFromFile, GetCheckpointIterator, InferModel, SaveScores,
    Score, ScoreFromDataset, ScoreFromStrings,
};
pub use layers::{
    DenseReluDense, EncDecAttention, Layer, LayerStack, MakeLayerStack, RelativeAttentionType,
    SelfAttention, Sublayer, SublayerDropout, VocabEmbedding,
};
pub use model::{
    Bitransformer, Decode, LanguageModel, MakeBitransformer, SampleAutoregressive, Unitransformer,
};
pub use optimizer::{AdafactorDecayRatePow, AdafactorOptimizer, DecayRate, Optimizer};
pub use run::{MODES, ModelType, Run};
pub use schedule::Schedule;
