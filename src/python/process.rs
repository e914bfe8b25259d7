//! One process of the user's Python.

use std::collections::BTreeSet;
use std::io::{self, BufReader, Read, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};

use super::error::PythonError;
use super::interpreter::Interpreter;
use super::waiting::waiting;

/// The script of the processes.
const WORKER: &str = include_str!("worker.py");

/// Returns a command that runs a script, which it reads from the beginning of its standard input.
/// The working directory is searched for modules first, as with `python3 -m`.
fn command(python: &Interpreter, name: &str, script: &str) -> Command {
    // Programs that the user's functions start inherit the standard input, in which they must not
    // find requests.
    let bootstrap = format!(
        "import io, os, sys; sys.stdin = io.TextIOWrapper(os.fdopen(os.dup(0), 'rb'), 'utf-8'); \
         os.dup2(os.open(os.devnull, os.O_RDONLY), 0); \
         exec(compile(sys.stdin.buffer.read({}), '{name}', 'exec'))",
        script.len()
    );
    let mut command = Command::new(python.program());
    command.args(["-c", &bootstrap]);
    // The device belongs to the run; and TensorFlow's messages would not help.
    command.env("CUDA_VISIBLE_DEVICES", "-1").env("PYTHONHASHSEED", "0");
    for (variable, value) in
        [("TF_CPP_MIN_LOG_LEVEL", "3"), ("TF_ENABLE_ONEDNN_OPTS", "0"), ("JAX_PLATFORMS", "cpu")]
    {
        if std::env::var_os(variable).is_none() {
            command.env(variable, value);
        }
    }
    let folders: Vec<PathBuf> = python.folders().collect();
    if !folders.is_empty() {
        let given = std::env::var_os("PYTHONPATH").unwrap_or_default();
        let folders = folders.into_iter().chain(std::env::split_paths(&given));
        // A folder with a colon in its name cannot be passed.
        if let Ok(joined) = std::env::join_paths(folders) {
            command.env("PYTHONPATH", joined);
        }
    }
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    command
}

/// Runs a script on an input to its end; returns its standard output and its exit status. `what` says what the
/// user waits for.
///
/// # Errors
/// The interpreter cannot be started.
pub fn run_script(
    python: &Interpreter,
    what: &str,
    (name, script): (&str, &str),
    input: &[u8],
) -> Result<(Vec<u8>, ExitStatus), PythonError> {
    let run = || {
        let mut child = command(python, name, script).spawn()?;
        let mut stdin = child.stdin.take().expect("it is piped");
        // A script that ends early states the reason on standard error.
        let _ = stdin.write_all(script.as_bytes()).and_then(|()| stdin.write_all(input));
        drop(stdin);
        let output = child.wait_with_output()?;
        Ok((output.stdout, output.status))
    };
    waiting(what, run).map_err(|source| PythonError::Start { python: python.clone(), source })
}

/// A process that answers requests.
pub(super) struct Process {
    child: Child,
    requests: ChildStdin,
    answers: BufReader<ChildStdout>,
    /// The modules whose functions have answered.
    imported: BTreeSet<String>,
}

impl Process {
    /// Starts a process, which imports nothing yet.
    pub(super) fn start(python: &Interpreter) -> Result<Self, PythonError> {
        let start = || {
            let mut child = command(python, "gimlet_worker.py", WORKER).spawn()?;
            let mut requests = child.stdin.take().expect("it is piped");
            let answers = BufReader::new(child.stdout.take().expect("it is piped"));
            // A process that ends at once is detected by the first request.
            let _ = requests.write_all(WORKER.as_bytes());
            Ok(Self { child, requests, answers, imported: BTreeSet::new() })
        };
        start().map_err(|source| PythonError::Start { python: python.clone(), source })
    }

    /// Whether the process has answered with a function of the module.
    pub(super) fn has_imported(&self, module: &str) -> bool {
        self.imported.contains(module)
    }

    /// Sends a request and waits for its answer. The user is told of a module that takes long to import.
    pub(super) fn ask(
        &mut self,
        python: &Interpreter,
        module: &str,
        request: &[u8],
    ) -> io::Result<Vec<u8>> {
        if self.has_imported(module) {
            return self.exchange(request);
        }
        let what = format!("waiting for the first answer of `{module}` in {python}");
        let answer = waiting(&what, || self.exchange(request))?;
        self.imported.insert(module.to_string());
        Ok(answer)
    }

    /// Sends a request and receives its answer, each with its length before it.
    fn exchange(&mut self, request: &[u8]) -> io::Result<Vec<u8>> {
        self.requests.write_all(&(request.len() as u64).to_le_bytes())?;
        self.requests.write_all(request)?;
        self.requests.flush()?;
        let mut length = [0; 8];
        self.answers.read_exact(&mut length)?;
        let mut answer = vec![0; u64::from_le_bytes(length) as usize];
        self.answers.read_exact(&mut answer)?;
        Ok(answer)
    }

    /// Returns the exit status of a process that no longer answers.
    pub(super) fn status(mut self) -> io::Result<ExitStatus> {
        self.child.wait()
    }
}

/// Kills the process: nothing is lost if it gets no more requests.
impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
