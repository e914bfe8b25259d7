//! Functions of the user's Python, and the processes that run them.

use std::collections::BTreeMap;
use std::fmt;

use rmpv::Value as Wire;

use super::error::PythonError;
use super::interpreter::Interpreter;
use super::pool::Pool;
use super::value::{map, of_gin};
use gimlet_gin::{Configurable, Value};

/// The Python that runs the functions of task modules. A run's bindings apply to it in task files
/// too. Gimlet's own.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Configurable)]
#[gin(name = "gimlet.PythonWorkers", open)]
pub struct PythonWorkers {
    /// The interpreter; None means that of the environment variable `GIMLET_PYTHON`, else
    /// `imported_with`, else `python3`.
    #[gin(default = None)]
    pub python: Option<String>,
    /// The interpreter that `gimlet task import --python` was given, which writes it into task files.
    #[gin(default = None)]
    pub imported_with: Option<String>,
    /// Folders that are searched for modules, after the working directory.
    #[gin(default = Vec::new())]
    pub python_path: Vec<String>,
    /// Greatest number of processes, each with its own imports; another one is started only while
    /// all are busy.
    #[gin(default = 4)]
    pub num_workers: usize,
}

impl PythonWorkers {
    /// Returns the interpreter that runs the functions.
    pub fn interpreter(&self) -> Interpreter {
        let Self { python, imported_with, python_path, .. } = self;
        Interpreter::new(python.as_deref(), imported_with.as_deref(), python_path)
    }

    /// Returns the answer of one of the processes, which are started on demand.
    ///
    /// # Errors
    /// The interpreter cannot be started, dies twice, or the function raises an exception.
    pub fn call(&self, function: &PythonFunction, request: Wire) -> Result<Wire, PythonError> {
        Pool::of(self).call(function, &request)
    }
}

/// A function of a module of the user's Python: by its name, or as a part of a registered SeqIO task.
#[derive(Clone, Debug, PartialEq)]
pub struct PythonFunction {
    /// The module to import.
    pub module: String,
    /// Its name within the module; dots lead into classes.
    pub function: Option<String>,
    /// A task that the module registers with SeqIO.
    pub task: Option<String>,
    /// The part of the task: `preprocessors`, `metric_fns`, `postprocess_fn` or `source`.
    pub part: &'static str,
    /// Index of the function in the part, from 0.
    pub index: usize,
    /// Arguments by name.
    pub kwargs: BTreeMap<String, Value>,
}

impl PythonFunction {
    /// Returns a request for the function, with entries that describe the requested work.
    ///
    /// # Errors
    /// Both or neither of a function and a task are named, or an argument is not a literal.
    pub fn request(
        &self,
        kind: &str,
        entries: impl IntoIterator<Item = (&'static str, Wire)>,
    ) -> Result<Wire, PythonError> {
        let unfit = |reason: String| PythonError::Unfit { function: self.to_string(), reason };
        let place = match (&self.function, &self.task) {
            (Some(function), None) => ("function", Wire::from(&function[..])),
            (None, Some(task)) => ("task", Wire::from(&task[..])),
            _ => {
                return Err(unfit(
                    "expected `function`, the name of a function of the module, or `task`, the name \
                     of a task that it registers: exactly one of them"
                        .to_string(),
                ));
            }
        };
        let mut kwargs = Vec::new();
        for (name, value) in &self.kwargs {
            let value = of_gin(value).map_err(|found| {
                unfit(format!("the argument `{name}` is {found}, expected literals only"))
            })?;
            kwargs.push((Wire::from(&name[..]), value));
        }
        let own = [
            ("kind", Wire::from(kind)),
            ("module", Wire::from(&self.module[..])),
            place,
            ("part", Wire::from(self.part)),
            ("index", Wire::from(self.index)),
            ("kwargs", Wire::Map(kwargs)),
        ];
        Ok(map(own.into_iter().chain(entries)))
    }
}

/// Prints `module:function`, or a part of a task of a module.
impl fmt::Display for PythonFunction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { module, function, task, part, index, .. } = self;
        match (function, task) {
            (Some(function), _) => write!(f, "`{module}:{function}`"),
            (None, Some(task)) if ["preprocessors", "metric_fns"].contains(part) => {
                write!(f, "`{module}`, task `{task}`, {part}[{index}]")
            }
            (None, Some(task)) => write!(f, "`{module}`, task `{task}`, {part}"),
            (None, None) => write!(f, "`{module}`"),
        }
    }
}
