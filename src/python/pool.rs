//! Processes that share the work of a configuration, and processes for one caller.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use rmpv::Value as Wire;

use super::error::PythonError;
use super::function::{PythonFunction, PythonWorkers};
use super::process::{Interpreter, Process};

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
}

/// The pools by configuration. The processes end with this one, which closes their standard input.
static POOLS: Mutex<BTreeMap<PythonWorkers, Arc<Pool>>> = Mutex::new(BTreeMap::new());

impl Pool {
    /// Returns the pool of a configuration, the same one each time.
    pub(super) fn of(workers: &PythonWorkers) -> Arc<Self> {
        let mut pools = POOLS.lock().unwrap_or_else(PoisonError::into_inner);
        let new = || {
            Arc::new(Self {
                python: Interpreter::new(workers.python.as_deref(), &workers.python_path),
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
        let mut worker = Dedicated { python: self.python.clone(), process: self.take() };
        let answer = worker.call(function, request);
        let mut state = self.state();
        match worker.process {
            Some(process) => state.idle.push(process),
            None => state.started -= 1,
        }
        drop(state);
        self.freed.notify_one();
        answer
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns an idle process; `None` if another one may be started.
    fn take(&self) -> Option<Process> {
        let mut state = self.state();
        loop {
            if let Some(process) = state.idle.pop() {
                return Some(process);
            }
            if state.started < self.most {
                state.started += 1;
                return None;
            }
            state = self.freed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// A process for one caller, started at the first call.
pub struct Dedicated {
    python: Interpreter,
    process: Option<Process>,
}

impl Dedicated {
    /// Creates a process of the configuration's interpreter.
    pub fn new(workers: &PythonWorkers) -> Self {
        Self {
            python: Interpreter::new(workers.python.as_deref(), &workers.python_path),
            process: None,
        }
    }

    /// Returns the answer of the process. A dead process is started again once, since answers do
    /// not depend on earlier requests.
    pub fn call(&mut self, function: &PythonFunction, request: &Wire) -> Result<Wire, PythonError> {
        let mut bytes = Vec::new();
        rmpv::encode::write_value(&mut bytes, request).expect("memory takes all");
        let mut ended = None;
        for _ in 0..2 {
            let mut process = match self.process.take() {
                Some(process) => process,
                None => Process::start(&self.python)?,
            };
            match process.ask(&bytes) {
                Ok(answer) => {
                    self.process = Some(process);
                    return self.read(function, &answer);
                }
                Err(_) => ended = Some(process.status()),
            }
        }
        let python = self.python.program.clone();
        match ended.expect("it was asked") {
            Ok(status) => {
                Err(PythonError::Ended { function: function.to_string(), python, status })
            }
            Err(source) => Err(PythonError::Start { python, source }),
        }
    }

    /// Reads `[true, value]`, or `[false, traceback, index of the record that caused it]`.
    fn read(&self, function: &PythonFunction, mut answer: &[u8]) -> Result<Wire, PythonError> {
        let parts = match rmpv::decode::read_value(&mut answer) {
            Ok(Wire::Array(parts)) => parts,
            _ => Vec::new(),
        };
        match <[Wire; 3]>::try_from(parts) {
            Ok([Wire::Boolean(true), value, _]) => Ok(value),
            Ok([Wire::Boolean(false), traceback, record]) => Err(PythonError::Raised {
                function: function.to_string(),
                python: self.python.program.clone(),
                traceback: traceback.as_str().unwrap_or_default().to_string(),
                record: record.as_u64().map(|record| record as usize),
            }),
            _ => Err(PythonError::Unfit {
                function: function.to_string(),
                reason: "its answer is not readable".to_string(),
            }),
        }
    }
}
