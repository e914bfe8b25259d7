//! The description of prompts of several tasks. The first token of an example names its task. Source: prompt-tuning
//! `extended/multitask_prompts.py`.

use std::ops::Range;

use super::learned_rows::LearnedRows;
use crate::models::parts::param;
use crate::nn::{Initializer, ParamSpec};

/// The numbers of each task, a row of one table, which with the rows that all tasks share make the prompt of the task.
#[derive(Clone, Debug, PartialEq)]
pub struct TaskRows {
    /// Number of tasks.
    pub count: usize,
    /// Width of the rows that all tasks share.
    pub shared_width: usize,
    /// The way in which shared rows and the numbers of a task become its prompt.
    pub union: TaskUnion,
    /// The tokens that name tasks.
    pub naming: TaskNaming,
    /// Initial values.
    pub initializer: Initializer,
}

/// The way in which shared rows and the numbers of a task become the prompt of the task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskUnion {
    /// Their sum.
    Sum,
    /// The shared rows, and so many rows of the task after them.
    Rows(usize),
    /// Rows that begin with numbers of the shared rows, and end with those of the task.
    Columns,
    /// The task's linear map of the shared rows: a kernel `[embed, width]` and an addend.
    Map,
}

/// The tokens that name tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskNaming {
    /// The number of the task, from 0.
    Numbers,
    /// Sentinels: the last id of a vocabulary of that size for task 0, the one before it for task 1, and so on.
    Sentinels(usize),
}

impl TaskRows {
    /// The table `[tasks, numbers]` as a parameter, whole on every device.
    pub(super) fn param(&self, rows: &LearnedRows) -> ParamSpec {
        let shape = vec![self.count, self.numbers(rows)];
        let axes = vec!["tasks", "prompt+embed"];
        param(Self::NAME.to_string(), shape, axes, self.initializer)
    }

    /// Its name.
    pub(super) const NAME: &str = "encoder/prompt/prompt/task_prompts/embedding";

    /// Numbers of a task.
    fn numbers(&self, rows: &LearnedRows) -> usize {
        let (count, width) = (rows.count, rows.stream.emb_dim);
        match self.union {
            TaskUnion::Sum => count * width,
            TaskUnion::Rows(own) => own * width,
            TaskUnion::Columns => count * width.saturating_sub(self.shared_width),
            TaskUnion::Map => (self.shared_width + 1) * width,
        }
    }

    /// Number of rows of the prompt of a task.
    pub(super) fn total(&self, rows: &LearnedRows) -> usize {
        match self.union {
            TaskUnion::Rows(own) => rows.count + own,
            _ => rows.count,
        }
    }

    /// The ids of the tokens that name tasks.
    pub(super) fn tokens(&self) -> Range<i32> {
        let (first, end) = match self.naming {
            TaskNaming::Numbers => (0, self.count),
            TaskNaming::Sentinels(size) => (size.saturating_sub(self.count), size),
        };
        let id = |id: usize| i32::try_from(id).unwrap_or(i32::MAX);
        id(first)..id(end)
    }
}
