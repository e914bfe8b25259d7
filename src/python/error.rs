//! The errors between Gimlet and the user's Python.

use std::io;
use std::process::ExitStatus;

use super::interpreter::Interpreter;

/// A function of the user's Python that returned no answer.
#[derive(Debug, thiserror::Error)]
pub enum PythonError {
    /// The interpreter cannot be started.
    #[error("cannot start {python}: {source}; {}", python.remedy())]
    Start {
        /// The interpreter.
        python: Interpreter,
        /// The system's reason.
        source: io::Error,
    },
    /// The process died, and so did its replacement.
    #[error(
        "{function} ended its process of {python} ({status}), also when it was started again; its \
         standard error is shown above. {}",
        python.remedy()
    )]
    Ended {
        /// The function, as `module:function`.
        function: String,
        /// The interpreter.
        python: Interpreter,
        /// The exit status of the process.
        status: ExitStatus,
    },
    /// A module, or a function in it, is not there.
    #[error("{function} cannot be imported by {python}:\n{}\n{}", traceback.trim_end(), python.remedy())]
    Import {
        /// The function, as `module:function`.
        function: String,
        /// The interpreter.
        python: Interpreter,
        /// Python's traceback.
        traceback: String,
    },
    /// The function raised an exception.
    #[error("{function} raised an exception in {python}:\n{}", traceback.trim_end())]
    Raised {
        /// The function, as `module:function`.
        function: String,
        /// The interpreter.
        python: Interpreter,
        /// Python's traceback.
        traceback: String,
        /// The record that caused the error, if one did.
        record: Option<usize>,
    },
    /// Parameters that do not identify a function, or an answer of the wrong form.
    #[error("{function}: {reason}")]
    Unfit {
        /// The function, as `module:function`.
        function: String,
        /// The value that was found, and the expected one.
        reason: String,
    },
}
