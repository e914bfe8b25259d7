//! Evaluation by prediction: a task's targets, the model's outputs, metrics, and logs of both.
//!
//! It knows no models and reads no data: the caller passes examples and two functions that predict
//! and score them. Source: SeqIO `evaluation.py` and `loggers.py`.

mod evaluator;
mod loggers;
mod spec;

pub use evaluator::{EvalError, EvalTask, Example, Side, TaskEvaluator};
pub use spec::{
    Evaluator, JsonLogger, Logger, PyLoggingLogger, TensorBoardLogger, TensorBoardLoggerV1,
};
