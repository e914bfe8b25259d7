//! The errors between Gimlet and the user's Python.

use std::io;
use std::process::ExitStatus;

use super::process::PYTHON_VARIABLE;

/// A function of the user's Python that returned no answer.
#[derive(Debug, thiserror::Error)]
pub enum PythonError {
    /// The interpreter cannot be started.
    #[error(
        "cannot start `{python}`: {source}; name the Python that has your modules with \
         `gimlet.PythonWorkers.python` or the environment variable {PYTHON_VARIABLE}"
    )]
    Start {
        /// The interpreter.
        python: String,
        /// The system's reason.
        source: io::Error,
    },
    /// The process died, and so did its replacement.
    #[error(
        "{function} ended its `{python}` process ({status}), also when it was started again; its \
         standard error is shown above"
    )]
    Ended {
        /// The function, as `module:function`.
        function: String,
        /// The interpreter.
        python: String,
        /// The exit status of the process.
        status: ExitStatus,
    },
    /// The function, or the import of its module, raised an exception.
    #[error("{function} raised an exception in `{python}`:\n{}", traceback.trim_end())]
    Raised {
        /// The function, as `module:function`.
        function: String,
        /// The interpreter.
        python: String,
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
