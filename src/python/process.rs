//! One process of the user's Python.

use std::io::{self, BufReader, Read, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};

use super::error::PythonError;

/// The variable that names the interpreter if gin does not.
pub const PYTHON_VARIABLE: &str = "GIMLET_PYTHON";

/// The script of the processes.
const WORKER: &str = include_str!("worker.py");

/// An interpreter, and its additional folders of modules.
#[derive(Clone, Debug)]
pub(super) struct Interpreter {
    pub program: String,
    path: Vec<String>,
}

impl Interpreter {
    /// Returns the given interpreter, else that of the environment.
    pub(super) fn new(given: Option<&str>, path: &[String]) -> Self {
        let from_environment = || std::env::var(PYTHON_VARIABLE).ok().filter(|it| !it.is_empty());
        let program = given.map(str::to_string).or_else(from_environment);
        Self { program: program.unwrap_or_else(|| "python3".to_string()), path: path.to_vec() }
    }
}

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
    let mut command = Command::new(&python.program);
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
    if !python.path.is_empty() {
        let given = std::env::var_os("PYTHONPATH").unwrap_or_default();
        let folders = python.path.iter().map(PathBuf::from).chain(std::env::split_paths(&given));
        // A folder with a colon in its name cannot be passed.
        if let Ok(joined) = std::env::join_paths(folders) {
            command.env("PYTHONPATH", joined);
        }
    }
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    command
}

/// Runs a script on an input to its end; returns its standard output and its exit status.
///
/// # Errors
/// The interpreter cannot be started.
pub fn run_script(
    given: Option<&str>,
    name: &str,
    script: &str,
    input: &[u8],
) -> Result<(Vec<u8>, ExitStatus), PythonError> {
    let python = Interpreter::new(given, &[]);
    let run = || {
        let mut child = command(&python, name, script).spawn()?;
        let mut stdin = child.stdin.take().expect("it is piped");
        // A script that ends early states the reason on standard error.
        let _ = stdin.write_all(script.as_bytes()).and_then(|()| stdin.write_all(input));
        drop(stdin);
        let output = child.wait_with_output()?;
        Ok((output.stdout, output.status))
    };
    run().map_err(|source| PythonError::Start { python: python.program.clone(), source })
}

/// A process that answers requests.
pub(super) struct Process {
    child: Child,
    requests: ChildStdin,
    answers: BufReader<ChildStdout>,
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
            Ok(Self { child, requests, answers })
        };
        start().map_err(|source| PythonError::Start { python: python.program.clone(), source })
    }

    /// Sends a request and waits for its answer, each with its length before it.
    pub(super) fn ask(&mut self, request: &[u8]) -> io::Result<Vec<u8>> {
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
