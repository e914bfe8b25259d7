//! Processes that share the work of a configuration, and processes for one caller at a time.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use rmpv::Value as Wire;

use super::error::PythonError;
use super::function::{PythonFunction, PythonWorkers};
use super::interpreter::Interpreter;
use super::process::Process;

/// The processes of one interpreter.
pub(super) struct Pool {
    python: Interpreter,
    most: usize,
    state: Mutex<State>,
    freed: Condvar,
}

#[derive(Default)]
struct State {
    idle: Vec<Process>,
    /// Number of started processes, including the busy ones.
    started: usize,
    /// Whether one of them has not answered yet.
    is_starting: bool,
    /// Processes that callers of their own have left.
    left: Vec<Process>,
}

/// The pools by configuration. The processes end with this one, which closes their standard input.
static POOLS: Mutex<BTreeMap<PythonWorkers, Arc<Pool>>> = Mutex::new(BTreeMap::new());

impl Pool {
    /// Returns the pool of a configuration, the same one each time.
    pub(super) fn of(workers: &PythonWorkers) -> Arc<Self> {
        let mut pools = POOLS.lock().unwrap_or_else(PoisonError::into_inner);
        let new = || {
            Arc::new(Self {
                python: workers.interpreter(),
                most: workers.num_workers.max(1),
                state: Mutex::default(),
                freed: Condvar::new(),
            })
        };
        pools.entry(workers.clone()).or_insert_with(new).clone()
    }

    /// Returns the answer of an idle process, of a new one, or of the next one that becomes idle.
    pub(super) fn call(
        &self,
        function: &PythonFunction,
        request: &Wire,
    ) -> Result<Wire, PythonError> {
        let mut process = self.take();
        let is_new = process.is_none();
        let answer = ask(&self.python, &mut process, function, request);
        let mut state = self.state();
        match process {
            Some(process) => state.idle.push(process),
            None => state.started -= 1,
        }
        state.is_starting &= !is_new;
        drop(state);
        self.freed.notify_all();
        answer
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns an idle process; `None` if another one may be started. They start one after another: the work
    /// that waits for the first import is often done before a second one would end.
    fn take(&self) -> Option<Process> {
        let mut state = self.state();
        loop {
            if let Some(process) = state.idle.pop() {
                return Some(process);
            }
            if state.started < self.most && !state.is_starting {
                state.started += 1;
                state.is_starting = true;
                return None;
            }
            state = self.freed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Returns a process that another caller has left or that is idle, if possible one that has imported the module.
    fn take_left(&self, module: &str) -> Option<Process> {
        let mut state = self.state();
        let has_imported = |process: &Process| process.has_imported(module);
        if let Some(index) = state.left.iter().position(has_imported) {
            return Some(state.left.swap_remove(index));
        }
        if let Some(index) = state.idle.iter().position(has_imported) {
            state.started -= 1;
            return Some(state.idle.swap_remove(index));
        }
        state.left.pop()
    }
}

/// A process for one caller, taken at the first call and left to the next caller at the end.
pub struct Dedicated {
    pool: Arc<Pool>,
    process: Option<Process>,
}

impl Dedicated {
    /// Creates a process of the configuration's interpreter.
    pub fn new(workers: &PythonWorkers) -> Self {
        Self { pool: Pool::of(workers), process: None }
    }

    /// Returns the answer of the process.
    ///
    /// # Errors
    /// The interpreter cannot be started, dies twice, or the function raises an exception.
    pub fn call(&mut self, function: &PythonFunction, request: &Wire) -> Result<Wire, PythonError> {
        if self.process.is_none() {
            self.process = self.pool.take_left(&function.module);
        }
        ask(&self.pool.python, &mut self.process, function, request)
    }
}

impl Drop for Dedicated {
    fn drop(&mut self) {
        self.pool.state().left.extend(self.process.take());
    }
}

/// Returns the answer of a process, which is started if there is none. A dead process is started again once, since
/// answers do not depend on earlier requests.
fn ask(
    python: &Interpreter,
    process: &mut Option<Process>,
    function: &PythonFunction,
    request: &Wire,
) -> Result<Wire, PythonError> {
    let mut bytes = Vec::new();
    rmpv::encode::write_value(&mut bytes, request).expect("memory takes all");
    let mut ended = None;
    for _ in 0..2 {
        let mut asked = match process.take() {
            Some(process) => process,
            None => Process::start(python)?,
        };
        match asked.ask(python, &function.module, &bytes) {
            Ok(answer) => {
                *process = Some(asked);
                return read(python, function, &answer);
            }
            Err(_) => ended = Some(asked.status()),
        }
    }
    let python = python.clone();
    match ended.expect("it was asked") {
        Ok(status) => Err(PythonError::Ended { function: function.to_string(), python, status }),
        Err(source) => Err(PythonError::Start { python, source }),
    }
}

/// Reads `[true, value]`, or `[false, traceback, index of the record that caused it, or "import"]`.
fn read(
    python: &Interpreter,
    function: &PythonFunction,
    mut answer: &[u8],
) -> Result<Wire, PythonError> {
    let parts = match rmpv::decode::read_value(&mut answer) {
        Ok(Wire::Array(parts)) => parts,
        _ => Vec::new(),
    };
    let (python, function) = (python.clone(), function.to_string());
    match <[Wire; 3]>::try_from(parts) {
        Ok([Wire::Boolean(true), value, _]) => Ok(value),
        Ok([Wire::Boolean(false), traceback, cause]) => {
            let traceback = traceback.as_str().unwrap_or_default().to_string();
            Err(match cause.as_str() {
                Some("import") => PythonError::Import { function, python, traceback },
                _ => {
                    let record = cause.as_u64().map(|record| record as usize);
                    PythonError::Raised { function, python, traceback, record }
                }
            })
        }
        _ => {
            let reason = "its answer is not readable".to_string();
            Err(PythonError::Unfit { function, reason })
        }
    }
}
