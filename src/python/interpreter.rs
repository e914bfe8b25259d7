//! The interpreter of the user's Python: which one it is, and who named it.

use std::fmt;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

/// The variable that names the interpreter if gin does not.
pub const PYTHON_VARIABLE: &str = "GIMLET_PYTHON";

/// The parameter that names the interpreter first of all.
const PARAMETER: &str = "`gimlet.PythonWorkers.python`";

/// The interpreter if nothing names one.
const DEFAULT: &str = "python3";

/// Folders in which modules were found, and which `PYTHONPATH` may not have.
static FOUND: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Has Python look for modules in a folder too, from now on.
pub fn search_for_modules(folder: &str) {
    let mut found = FOUND.lock().unwrap_or_else(PoisonError::into_inner);
    if !found.iter().any(|known| known == folder) {
        found.push(folder.to_string());
    }
}

/// An interpreter, and its additional folders of modules. Prints its name and its origin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interpreter {
    program: String,
    origin: &'static str,
    /// The other way to name an interpreter, beside the environment.
    alternative: &'static str,
    path: Vec<String>,
}

impl Interpreter {
    /// Returns the interpreter that gin binds, else that of the environment, else the one that imported the
    /// tasks.
    pub fn new(bound: Option<&str>, imported: Option<&str>, path: &[String]) -> Self {
        let environment = std::env::var(PYTHON_VARIABLE).ok().filter(|it| !it.is_empty());
        let named = [
            (bound.map(str::to_string), PARAMETER),
            (environment, PYTHON_VARIABLE),
            (imported.map(str::to_string), "`gimlet task import`"),
            (Some(DEFAULT.to_string()), "the PATH"),
        ];
        let mut named = named.into_iter().filter_map(|(program, origin)| Some((program?, origin)));
        let (program, origin) = named.next().expect("the last one is named");
        Self { program, origin, alternative: PARAMETER, path: path.to_vec() }
    }

    /// Returns the interpreter that a flag names, else that of the environment.
    pub fn of_flag(flag: &'static str, given: Option<&str>) -> Self {
        let found = Self { alternative: flag, ..Self::new(given, None, &[]) };
        if given.is_some() { Self { origin: flag, ..found } } else { found }
    }

    /// The program, as it was named.
    pub fn program(&self) -> &str {
        &self.program
    }

    /// The folders that are searched for modules after the working directory and before those of `PYTHONPATH`.
    pub(super) fn folders(&self) -> impl Iterator<Item = PathBuf> {
        let found = FOUND.lock().unwrap_or_else(PoisonError::into_inner).clone();
        self.path.clone().into_iter().chain(found).map(PathBuf::from)
    }

    /// Names the ways to another interpreter.
    pub fn remedy(&self) -> String {
        format!(
            "name the Python that has your modules with the environment variable {PYTHON_VARIABLE} or \
             with {}",
            self.alternative
        )
    }
}

impl fmt::Display for Interpreter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` (of {})", self.program, self.origin)
    }
}
