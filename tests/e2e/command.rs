//! A `gimlet train` command, or another with its flags, and its result.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use crate::play::programs;

/// A folder of the sources of these tests: in cargo's variable, since the tests may have been built on another machine.
pub fn sources(folder: &str) -> PathBuf {
    let root = std::env::var_os("CARGO_MANIFEST_DIR");
    root.map_or_else(|| env!("CARGO_MANIFEST_DIR").into(), PathBuf::from)
        .join("tests/e2e")
        .join(folder)
}

/// A command to be run in a folder, below which the gin files' relative paths lie.
#[derive(Clone, Debug)]
pub struct Train {
    program: PathBuf,
    folder: PathBuf,
    tool: Vec<String>,
    args: Vec<String>,
    variables: Vec<(String, String)>,
    num_threads: usize,
}

impl Train {
    /// `gimlet train` in `folder`.
    pub fn new(folder: &Path) -> Self {
        Self {
            program: programs().join("gimlet"),
            folder: folder.to_path_buf(),
            tool: vec!["train".to_string()],
            args: Vec::new(),
            variables: Vec::new(),
            num_threads: 1,
        }
    }

    /// Of another program.
    pub fn program(self, program: &str) -> Self {
        Self { program: program.into(), ..self }
    }

    /// Turns the command into `gimlet bench` of one thing.
    pub fn bench(self, measured: &str) -> Self {
        self.tool(&["bench", measured])
    }

    /// Turns the command into another one.
    pub fn tool(self, words: &[&str]) -> Self {
        Self { tool: words.iter().map(|word| word.to_string()).collect(), ..self }
    }

    /// With `--gin_file=FILE`.
    pub fn gin_file(self, file: impl AsRef<Path>) -> Self {
        let file = file.as_ref().display().to_string();
        self.arg(format!("--gin_file={file}"))
    }

    /// With `--gin.NAME=VALUE`.
    pub fn bind(self, name: &str, value: impl std::fmt::Display) -> Self {
        self.arg(format!("--gin.{name}={value}"))
    }

    /// With `--gin.NAME='TEXT'`.
    pub fn bind_text(self, name: &str, text: impl AsRef<Path>) -> Self {
        let text = text.as_ref().display().to_string();
        self.bind(name, format!("'{text}'"))
    }

    /// With one more word.
    pub fn arg(mut self, word: impl Into<String>) -> Self {
        self.args.push(word.into());
        self
    }

    /// With an environment variable.
    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.variables.push((name.to_string(), value.to_string()));
        self
    }

    /// Sets the number of libtorch's threads; one by default, since tests run side by side.
    pub fn num_threads(self, num_threads: usize) -> Self {
        Self { num_threads, ..self }
    }

    /// Returns the command for the system.
    pub fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command
            .args(&self.tool)
            .args(&self.args)
            .current_dir(&self.folder)
            .env("OMP_NUM_THREADS", self.num_threads.to_string())
            .env("RUST_BACKTRACE", "1")
            .env_remove("GIMLET_PATH_MAP")
            .env("GIMLET_OFFLINE", "1")
            .envs(self.variables.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null());
        command
    }

    /// Runs the command to its end.
    pub fn run(&self) -> Ended {
        Ended::new(self.command().output().expect("gimlet starts"))
    }

    /// Runs the command to its end, which must be a success.
    pub fn succeeds(&self) -> Ended {
        let ended = self.run();
        assert_eq!(ended.status, Some(0), "{:?} failed:\n{}", self.args, ended.stderr);
        ended
    }

    /// Starts, with standard error piped.
    pub fn start(&self) -> Child {
        let mut command = self.command();
        command.stdout(Stdio::null()).stderr(Stdio::piped());
        command.spawn().expect("gimlet starts")
    }
}

/// The result of a command.
#[derive(Debug)]
pub struct Ended {
    /// Exit status; `None` after a signal.
    pub status: Option<i32>,
    /// Its standard output.
    pub stdout: String,
    /// Its standard error.
    pub stderr: String,
}

impl Ended {
    /// From the output of a process.
    pub fn new(output: Output) -> Self {
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        let (stdout, stderr) = (text(output.stdout), text(output.stderr));
        Self { status: output.status.code(), stdout, stderr }
    }
}
