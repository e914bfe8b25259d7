//! L1: functions of the user's own Python, for the steps of a task that Gimlet does not know.
//!
//! Processes of that Python (`worker.py`, which needs its standard library alone) are given values and
//! give back what a function makes of them, as msgpack over pipes. An answer depends on its request alone:
//! any process may be asked, and one that has died is started again. Nothing here runs before a function is
//! called, so that a configuration without Python needs none.

mod error;
mod function;
mod pool;
mod process;
mod value;

pub use error::PythonError;
pub use function::{PythonFunction, PythonWorkers};
pub use process::{PYTHON_VARIABLE, run_script};
pub use value::{map, of_json, to_json};

pub(crate) use pool::Dedicated;
pub(crate) use value::{INTS, LONGS, REALS, TEXTS, numbers};
