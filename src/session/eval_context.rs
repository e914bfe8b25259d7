//! The environment of one evaluation.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::nn::Params;
use crate::partition::Processes;

use super::forward::Forward;

/// The model to evaluate, the processes that share the work, and the request to end.
#[derive(Clone, Copy)]
pub struct EvalContext<'a> {
    /// The network.
    pub forward: &'a Forward,
    /// Its parameters.
    pub params: &'a Params,
    /// The step of the parameters.
    pub step: u64,
    /// The processes of the run. Each computes every so many batches, and all of them know the results.
    pub processes: &'a Processes,
    /// A flag that requests the end of the run.
    pub stop: &'a AtomicBool,
}

impl EvalContext<'_> {
    /// Whether this process was asked to end.
    pub fn is_asked(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}
