//! L1: functions of the user's own Python, for the steps of a task that Gimlet does not implement.
//!
//! Processes of that Python (`worker.py`, which needs its standard library alone) get values and
//! return the result of a function, as msgpack over pipes. An answer depends on its request alone:
//! any process may answer, and one that has died is started again. No process starts before a
//! function is called, so that a configuration without Python needs none.

mod error;
mod function;
mod interpreter;
mod pool;
mod process;
mod value;
mod waiting;

pub use error::PythonError;
pub use function::{PythonFunction, PythonWorkers};
pub use interpreter::{Interpreter, PYTHON_VARIABLE, search_for_modules};
pub use pool::Dedicated;
pub use process::run_script;
pub use value::{INTS, LONGS, REALS, TEXTS, map, numbers, of_json, to_json};
pub use waiting::set_observer;
