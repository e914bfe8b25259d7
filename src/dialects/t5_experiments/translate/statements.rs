//! The statements that a command line becomes, as they are collected.

use crate::Statement;
use crate::t5_experiments::arguments::Arguments;

/// The statements of a run.
pub(super) struct Statements<'a> {
    /// The flags.
    pub arguments: &'a Arguments,
    /// The statements so far.
    pub list: Vec<Statement>,
}

impl Statements<'_> {
    /// Binds a key to a value that a flag gives.
    pub fn bind(&mut self, flag: &str, key: &str, value: impl ToString) {
        let text = format!("{key} = {}", value.to_string());
        self.list.push(Statement { place: format!("--{flag}"), text });
    }

    /// The number that a flag gives.
    pub fn count(&self, flag: &str) -> i128 {
        self.arguments.int(flag).expect("`check` asks for it, or it has a default")
    }

    /// Leaves arrays of the checkpoint that the model lacks, and gives those that the checkpoint lacks new values.
    pub fn leaves_arrays(&mut self, flag: &str) {
        for (parameter, value) in [("strict", "False"), ("fallback_to_scratch", "True")] {
            let key = format!("t5x.utils.RestoreCheckpointConfig.{parameter}");
            self.bind(flag, &key, value);
        }
    }
}
