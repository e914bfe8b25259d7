//! Evaluation by prediction: a task's targets, the model's outputs, metrics, and logs of both.
//!
//! It knows no models and reads no data: the caller passes examples with the model's outputs, a batch
//! at a time. Source: SeqIO `evaluation.py` and `loggers.py`.

mod evaluator;
mod example_lines;
mod example_texts;
mod line_file;
mod loggers;
mod results;
mod spec;
mod t0_results;
mod task;

pub use evaluator::{TaskEvaluation, TaskEvaluator};
pub use spec::{
    Evaluator, JsonLogger, Logger, MeshLogger, MlflowLogger, PyLoggingLogger, T0ResultsLogger,
    TensorBoardLogger, TensorBoardLoggerV1,
};
pub use task::{EvalError, EvalTask, Example, Outputs, Side};
