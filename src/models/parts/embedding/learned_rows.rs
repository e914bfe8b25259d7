//! The description of learned rows among the embedded tokens of an encoder: memory tokens (Burtsev et al. 2020,
//! arXiv:2006.11527; t5-experiments `modeling_t5.py`) and soft prompts (Lester et al. 2021, arXiv:2104.08691; prompt-tuning
//! `train/prompts.py`).

use std::ops::Range;

use super::task_rows::TaskRows;
use crate::models::given_rows::GivenRows;
use crate::models::parts::{StreamDims, param};
use crate::nn::{Initializer, ParamSpec};

/// Learned rows among the embedded tokens of an encoder, which are the same for every example, or for every example of a task.
/// Layers that read tokens or their encoding read them too.
#[derive(Clone, Debug, PartialEq)]
pub struct LearnedRows {
    /// Their name, axes and parameter.
    pub kind: RowsKind,
    /// Number of rows.
    pub count: usize,
    /// The stream that they enter.
    pub stream: StreamDims,
    /// Their place in the row of an example.
    pub place: RowsPlace,
    /// Whether a row sees of the others only those before it. Tokens see all of them, and all of them see tokens.
    pub is_causal: bool,
    /// Their initial values, as far as they are drawn.
    pub initializer: Initializer,
    /// The initial values that then replace the first rows, in order.
    pub given: Vec<GivenRows>,
    /// The parts of the rows that belong to tasks, if there are several.
    pub tasks: Option<TaskRows>,
}

/// A parameter that arrays may give initial values.
#[derive(Clone, Debug, PartialEq)]
pub struct GivenParam {
    /// The parameter.
    pub param: ParamSpec,
    /// The values that replace its first rows, in order.
    pub given: Vec<GivenRows>,
}

/// The use of learned rows, which says how they are named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowsKind {
    /// Memory tokens, a part of the model.
    Memory,
    /// A soft prompt, which adapts a model that was trained without it.
    Prompt,
}

/// The place of learned rows in the row of an example.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowsPlace {
    /// Before the tokens.
    Before,
    /// After the first token.
    AfterFirst,
    /// Before the last token that is not padding, which ends the text.
    BeforeLast,
    /// After the last token that is not padding.
    AfterLast,
}

impl LearnedRows {
    /// Memory tokens.
    pub fn memory(count: usize, stream: StreamDims, initializer: Initializer) -> Self {
        let (kind, place) = (RowsKind::Memory, RowsPlace::Before);
        let (given, is_causal) = (Vec::new(), false);
        Self { kind, count, stream, place, is_causal, initializer, given, tasks: None }
    }

    /// Name of the rows that all examples have.
    pub fn name(&self) -> &'static str {
        match (self.kind, &self.tasks) {
            (RowsKind::Memory, _) => "encoder/memory_tokens/embedding",
            (RowsKind::Prompt, None) => "encoder/prompt/prompt/prompt",
            (RowsKind::Prompt, Some(_)) => "encoder/prompt/prompt/shared_prompt",
        }
    }

    /// The axes of the rows and of their numbers.
    fn axes(&self) -> [&'static str; 2] {
        match (self.kind, &self.tasks) {
            (RowsKind::Memory, _) => ["memory", "embed"],
            // The rows of a prompt are whole on every device, so that files hold them.
            (RowsKind::Prompt, None) => ["prompt", "prompt_embed"],
            (RowsKind::Prompt, Some(_)) => ["prompt", "embed"],
        }
    }

    /// The dimension that is their number.
    pub fn dimension(&self) -> &'static str {
        match (self.kind, &self.tasks) {
            (RowsKind::Memory, _) => "num_memory_tokens",
            (RowsKind::Prompt, None) => "prompt_length",
            (RowsKind::Prompt, Some(_)) => "multitask_prompt_length",
        }
    }

    /// The rows as a parameter.
    pub fn param(&self) -> ParamSpec {
        let width = self.tasks.as_ref().map_or(self.stream.emb_dim, |tasks| tasks.shared_width);
        let shape = vec![self.count, width];
        param(self.name().to_string(), shape, self.axes().to_vec(), self.initializer)
    }

    /// The parameters: the rows, and those of tasks.
    pub fn params(&self) -> Vec<ParamSpec> {
        let of_tasks = self.tasks.as_ref().map(|tasks| tasks.param(self));
        [self.param()].into_iter().chain(of_tasks).collect()
    }

    /// Number of rows of an example.
    pub fn total(&self) -> usize {
        self.tasks.as_ref().map_or(self.count, |tasks| tasks.total(self))
    }

    /// Number of rows by which the row of an example grows: a token that names the task is taken out.
    pub fn growth(&self) -> usize {
        self.total() - usize::from(self.tasks.is_some())
    }

    /// The ids of which the first token of an example must be one, if it names the task.
    pub fn task_tokens(&self) -> Option<Range<i32>> {
        self.tasks.as_ref().map(TaskRows::tokens)
    }
}
