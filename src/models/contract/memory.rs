//! The bytes that a training step needs on one device, as each family estimates them.

use std::collections::BTreeMap;
use std::fmt;

use crate::nn::ParamSpec;

/// The part of a batch that one device computes at a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepShape {
    /// Rows of a microbatch.
    pub rows: usize,
    /// Lengths of the rows of each stack, in the order of a pass: an encoder's before a decoder's.
    pub lengths: Vec<usize>,
    /// Number of processes that compute such a part at the same time. Experts take groups of all their tokens.
    pub num_processes: usize,
}

impl StepShape {
    /// A whole batch.
    pub fn whole(rows: usize, lengths: impl Into<Vec<usize>>) -> Self {
        Self { rows, lengths: lengths.into(), num_processes: 1 }
    }

    /// Returns the part of this batch that one of `num_processes` computes at a time, of so many microbatches.
    pub fn divided(&self, num_microbatches: usize, num_processes: usize) -> Self {
        let rows = self.rows / (num_microbatches * num_processes);
        Self { rows, num_processes, ..self.clone() }
    }

    /// Length of the rows that the heads read.
    pub fn last_length(&self) -> usize {
        *self.lengths.last().expect("a network has a stack")
    }

    /// Length of an encoder's rows that another stack reads, 0 without one.
    pub fn inputs_length(&self) -> usize {
        self.lengths.iter().rev().nth(1).copied().unwrap_or(0)
    }

    /// Tokens of all rows, padding included.
    pub fn num_tokens(&self) -> usize {
        self.rows * self.lengths.iter().sum::<usize>()
    }
}

/// The lengths in words: `512 inputs and 114 targets`, or `512 tokens` of one stack.
impl fmt::Display for StepShape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.lengths[..] {
            [inputs, targets] => write!(f, "{inputs} inputs and {targets} targets"),
            _ => write!(f, "{} tokens", self.last_length()),
        }
    }
}

/// The parts of a model that lie on one device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// Numbers of all parameters.
    pub params: u64,
    /// Those of parameters that are trained, and so have gradients.
    pub trained: u64,
    /// Those of the largest trained array with the vocabulary.
    pub table: u64,
    /// Those of the largest trained block of experts, whose gradients are made together.
    pub experts: u64,
    /// Bytes of the optimizer's state.
    pub optimizer: u64,
    /// Whether parameters are spread over processes, and layers gathered for their passes.
    pub are_spread: bool,
}

impl Held {
    /// Counts parameters of which `own` are on the device, and that many bytes of the optimizer.
    pub fn of(
        params: &[ParamSpec],
        own: &dyn Fn(&ParamSpec) -> u64,
        is_trained: &dyn Fn(&str) -> bool,
        optimizer: u64,
    ) -> Self {
        let mut held = Self { optimizer, ..Self::default() };
        let mut blocks = BTreeMap::<&str, u64>::new();
        for param in params {
            let numbers = own(param);
            held.params += numbers;
            if !is_trained(&param.name) {
                continue;
            }
            held.trained += numbers;
            if param.axes.contains(&"vocab") {
                held.table = held.table.max(numbers);
            }
            if let Some((block, _)) = param.name.split_once("/expert/") {
                *blocks.entry(block).or_default() += numbers;
            }
        }
        held.experts = blocks.into_values().max().unwrap_or(0);
        held
    }

    /// Counts all of a model.
    pub fn whole(params: &[ParamSpec], optimizer: u64) -> Self {
        Self::of(params, &ParamSpec::num_elements, &|_| true, optimizer)
    }
}

/// The gradients that are in memory at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gradients {
    /// Those of all parameters: microbatches add up, or an update needs all of them.
    Together,
    /// A few: each parameter is updated as soon as its gradient is complete.
    OneByOne,
}

/// Bytes that a process takes on a CPU for steps of a model of almost no size (`benches/foretold.py`): the program and libtorch, as far as
/// they are read, and threads.
pub const PROCESS: u64 = 203_000_000;

/// Bytes that a step needs at its peak.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Estimate {
    /// Parameters, with their copies in the compute dtype.
    pub parameters: u64,
    /// Gradients that are in memory at once.
    pub gradients: u64,
    /// The state of the optimizer.
    pub optimizer: u64,
    /// Tensors that the forward pass keeps for the backward pass, and the largest temporary
    /// tensors.
    pub activations: u64,
    /// The process itself, on a CPU: [`PROCESS`]. Counters of a GPU's memory count tensors, so it is 0 there.
    pub process: u64,
}

impl Estimate {
    /// Returns the sum of all parts.
    pub fn total(&self) -> u64 {
        self.tensors().saturating_add(self.process)
    }

    /// Returns the sum of those that a process adds which already runs.
    pub fn tensors(&self) -> u64 {
        [self.gradients, self.optimizer, self.activations]
            .into_iter()
            .fold(self.parameters, u64::saturating_add)
    }
}
