//! Learning rate schedules.

use gimlet_gin::Configurable;

use crate::mesh_tf::values::{Factor, WholeSteps};

/// Any learning rate schedule.
#[derive(Clone, Debug, PartialEq, Configurable)]
pub enum Schedule {
    /// A constant.
    ConstantLearningRate(ConstantLearningRate),
    /// A constant.
    Constant(Constant),
    /// Inverse square root, then a linear decay.
    Noam(LearningRateScheduleNoam),
    /// Inverse square root.
    TruncatedRsqrt(TruncatedRsqrt),
    /// Decay at the end.
    LinearDecay(LinearDecay),
    /// Rise at the start.
    LinearWarmup(LinearWarmup),
    /// Decay over the whole run.
    LinearDecayLearningRate(LinearDecayLearningRate),
    /// Rise and decay.
    SlantedTriangular(SlantedTriangular),
    /// Several.
    Product(ProductLearningRate),
    /// Several, under another name.
    OptimizeProduct(OptimizeProductLearningRate),
}

/// The same learning rate at each step. Source: mesh `transformer/learning_rate_schedules.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(
    name = "mesh_tensorflow.transformer.learning_rate_schedules.constant_learning_rate",
    ignored(step = "the run gives it", total_train_steps = "the run gives it")
)]
pub struct ConstantLearningRate {
    /// The learning rate.
    pub learning_rate: f64,
}

/// The same factor at each step. Source: mesh `transformer/learning_rate_schedules.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(
    name = "mesh_tensorflow.transformer.learning_rate_schedules.constant",
    ignored(step = "the run gives it", total_train_steps = "the run gives it")
)]
pub struct Constant {
    /// The factor.
    #[gin(default = 1.0)]
    pub value: f64,
}

/// One over the square root of the step, then a linear decay. Source: mesh
/// `transformer/learning_rate_schedules.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(
    name = "mesh_tensorflow.transformer.learning_rate_schedules.learning_rate_schedule_noam",
    ignored(step = "the run gives it", total_train_steps = "the run gives it")
)]
pub struct LearningRateScheduleNoam {
    /// Steps with the learning rate of the last of them.
    #[gin(default = 10_000)]
    pub warmup_steps: u64,
    /// The part of the run that decays, at its end.
    #[gin(default = 0.1)]
    pub linear_decay_fraction: f64,
    /// Factor.
    #[gin(default = 1.0)]
    pub multiplier: f64,
    /// Steps before the first of the schedule.
    #[gin(default = 0)]
    pub offset: i64,
}

/// One over the square root of the step. Source: mesh `transformer/learning_rate_schedules.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(
    name = "mesh_tensorflow.transformer.learning_rate_schedules.truncated_rsqrt",
    ignored(step = "the run gives it", total_train_steps = "the run gives it")
)]
pub struct TruncatedRsqrt {
    /// Steps with the learning rate of the last of them.
    #[gin(default = WholeSteps(10_000))]
    pub warmup_steps: WholeSteps,
}

/// A decay to 0 at the end. Source: mesh `transformer/learning_rate_schedules.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(
    name = "mesh_tensorflow.transformer.learning_rate_schedules.linear_decay",
    ignored(step = "the run gives it", total_train_steps = "the run gives it")
)]
pub struct LinearDecay {
    /// Length of the decay: steps if more than 1, else a part of the run.
    #[gin(default = 0.1)]
    pub steps_or_fraction: f64,
}

/// A rise from 0 at the start. Source: mesh `transformer/learning_rate_schedules.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(
    name = "mesh_tensorflow.transformer.learning_rate_schedules.linear_warmup",
    ignored(step = "the run gives it", total_train_steps = "the run gives it")
)]
pub struct LinearWarmup {
    /// Length of the rise: steps if more than 1, else a part of the run.
    #[gin(default = 10_000.0)]
    pub steps_or_fraction: f64,
}

/// A decay to 0 over the whole run. Source: mesh `transformer/learning_rate_schedules.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(
    name = "mesh_tensorflow.transformer.learning_rate_schedules.linear_decay_learning_rate",
    ignored(step = "the run gives it", total_train_steps = "the run gives it")
)]
pub struct LinearDecayLearningRate {
    /// The first learning rate.
    #[gin(default = 0.1)]
    pub initial_lr: f64,
    /// Steps before the first of the schedule.
    #[gin(default = 0)]
    pub offset: i64,
}

/// A short rise and a long decay (Howard & Ruder 2018, arXiv:1801.06146). Source: mesh
/// `transformer/learning_rate_schedules.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(
    name = "mesh_tensorflow.transformer.learning_rate_schedules.slanted_triangular",
    ignored(step = "the run gives it", total_train_steps = "the run gives it")
)]
pub struct SlantedTriangular {
    /// The part of the run that rises.
    #[gin(default = 0.1)]
    pub cut_fraction: f64,
    /// The highest learning rate over the lowest.
    #[gin(default = 32.0)]
    pub ratio: f64,
    /// The highest learning rate.
    #[gin(default = 0.01)]
    pub max_learning_rate: f64,
    /// Steps before the first of the schedule.
    #[gin(default = 0)]
    pub start_step: i64,
}

/// The product of schedules and numbers. Source: mesh `transformer/learning_rate_schedules.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(
    name = "mesh_tensorflow.transformer.learning_rate_schedules.product_learning_rate",
    ignored(step = "the run gives it", total_train_steps = "the run gives it")
)]
pub struct ProductLearningRate {
    /// The factors.
    pub factors: Vec<Factor>,
    /// Steps before the first of the factors.
    #[gin(default = 0)]
    pub offset: i64,
}

/// The same as `learning_rate_schedules.product_learning_rate`. Source: mesh `optimize.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(
    name = "mesh_tensorflow.optimize.product_learning_rate",
    ignored(step = "the run gives it", total_train_steps = "the run gives it")
)]
pub struct OptimizeProductLearningRate {
    /// The factors.
    pub factors: Vec<Factor>,
    /// Steps before the first of the factors.
    #[gin(default = 0)]
    pub offset: i64,
}
