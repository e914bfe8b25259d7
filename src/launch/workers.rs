//! The processes that a launcher starts on its machine: with torchrun's variables, in sessions of their own,
//! and never longer than the launcher itself.

use std::fs::File;
use std::io;
use std::net::TcpListener;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::Duration;

use tempfile::TempDir;

use super::torchrun::{RESTART_COUNT, USE_AGENT_STORE};

/// The variable with the file into which a worker writes the message with which it fails.
pub const ERROR_FILE: &str = "GIMLET_ERROR_FILE";
const NUM_THREADS: &str = "OMP_NUM_THREADS";

/// The processes to start, and the rules for their ends.
#[derive(Clone, Debug)]
pub struct WorkerGroup {
    /// The program of every process.
    pub program: PathBuf,
    /// Its arguments.
    pub args: Vec<String>,
    /// The number of processes.
    pub nproc_per_node: usize,
    /// Host and port of rank 0; by default this machine, and a free port for each start.
    pub endpoint: Option<(String, u16)>,
    /// The number of times that failed processes are started again.
    pub max_restarts: usize,
    /// The time that processes have to end, after another one has failed.
    pub grace: Duration,
}

/// A process that was started.
pub(super) struct Worker {
    pub rank: usize,
    child: Child,
    status: Option<ExitStatus>,
    /// The message with which it failed; it may be missing.
    pub error_file: PathBuf,
    /// Its output; that of rank 0 goes to the terminal.
    pub output_file: PathBuf,
}

/// The processes of one start. Those that are left end with this value.
pub(super) struct Workers {
    all: Vec<Worker>,
    /// The files of the processes, removed with this value.
    folder: TempDir,
}

impl Workers {
    /// Starts the processes. Must be called on a thread that lives as long as they: they end with it.
    pub fn start(group: &WorkerGroup, restart_count: usize) -> io::Result<Self> {
        let folder = tempfile::Builder::new().prefix("gimlet-launch-").tempdir()?;
        let (host, port) = match &group.endpoint {
            Some(endpoint) => endpoint.clone(),
            None => ("127.0.0.1".to_string(), free_port()?),
        };
        let mut workers = Self { all: Vec::new(), folder };
        for rank in 0..group.nproc_per_node {
            let mut command = group.command(rank);
            command.env("MASTER_ADDR", &host).env("MASTER_PORT", port.to_string());
            command.env(RESTART_COUNT, restart_count.to_string());
            workers.add(rank, command)?;
        }
        Ok(workers)
    }

    fn add(&mut self, rank: usize, mut command: Command) -> io::Result<()> {
        let file = |kind: &str| self.folder.path().join(format!("rank_{rank}.{kind}"));
        let (error_file, output_file) = (file("error"), file("log"));
        command.env(ERROR_FILE, &error_file);
        if rank > 0 {
            let output = File::create(&output_file)?;
            command.stdout(output.try_clone()?).stderr(output);
        }
        let child = command.spawn()?;
        self.all.push(Worker { rank, child, status: None, error_file, output_file });
        Ok(())
    }

    /// Whether a process is left.
    pub fn are_running(&self) -> bool {
        self.all.iter().any(|worker| worker.status.is_none())
    }

    /// Returns the processes that have ended since the last call.
    pub fn ended(&mut self) -> io::Result<Vec<(&Worker, ExitStatus)>> {
        let mut ended = Vec::new();
        for worker in self.all.iter_mut().filter(|worker| worker.status.is_none()) {
            worker.status = worker.child.try_wait()?;
            ended.extend(worker.status.map(|status| (&*worker, status)));
        }
        Ok(ended)
    }

    /// Sends a signal to the processes that are left.
    pub fn send(&self, signal: i32) {
        for worker in self.all.iter().filter(|worker| worker.status.is_none()) {
            worker.send(signal);
        }
    }

    /// Ends the processes that are left, with all that they have started.
    pub fn kill(&self) {
        for worker in self.all.iter().filter(|worker| worker.status.is_none()) {
            // SAFETY: a plain system call. The process was not waited for, so the group is its own.
            unsafe { libc::kill(-worker.id(), libc::SIGKILL) };
        }
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        self.kill();
        for worker in self.all.iter_mut().filter(|worker| worker.status.is_none()) {
            let _ = worker.child.wait();
        }
    }
}

impl Worker {
    fn id(&self) -> i32 {
        i32::try_from(self.child.id()).expect("Linux's process ids are positive `i32`")
    }

    fn send(&self, signal: i32) {
        // SAFETY: a plain system call. The process was not waited for, so the id is its own.
        unsafe { libc::kill(self.id(), signal) };
    }
}

impl WorkerGroup {
    fn command(&self, rank: usize) -> Command {
        let mut command = Command::new(&self.program);
        command.args(&self.args).stdin(Stdio::null()).env_remove(USE_AGENT_STORE);
        let numbers = [
            ("RANK", rank),
            ("WORLD_SIZE", self.nproc_per_node),
            ("LOCAL_RANK", rank),
            ("LOCAL_WORLD_SIZE", self.nproc_per_node),
            ("GROUP_RANK", 0),
            ("GROUP_WORLD_SIZE", 1),
            ("TORCHELASTIC_MAX_RESTARTS", self.max_restarts),
        ];
        command.envs(numbers.map(|(name, number)| (name, number.to_string())));
        command.envs(divided_cores(self.nproc_per_node));
        let launcher = std::process::id();
        // SAFETY: the function makes system calls only, which are allowed between fork and exec.
        unsafe { command.pre_exec(move || end_with_launcher(launcher)) };
        command
    }
}

/// Returns the variable that divides the cores among the processes of this machine, unless the user has set it.
pub fn divided_cores(nproc_per_node: usize) -> Option<(&'static str, String)> {
    let num_cores = thread::available_parallelism().map_or(1, usize::from);
    let num_threads = (num_cores / nproc_per_node).max(1).to_string();
    std::env::var_os(NUM_THREADS).is_none().then_some((NUM_THREADS, num_threads))
}

/// Makes the system end this process when the launcher ends, and gives it a session of its own: the terminal
/// then sends Ctrl-C to the launcher alone, which passes it on. Two such signals would be a request to end at once.
///
/// # Errors
/// The system's; the launcher has ended already.
pub fn end_with_launcher(launcher: u32) -> io::Result<()> {
    // SAFETY: plain system calls.
    unsafe {
        if libc::setsid() < 0 || libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) < 0 {
            return Err(io::Error::last_os_error());
        }
        // The launcher may have ended before the call above.
        if libc::getppid().cast_unsigned() != launcher {
            return Err(io::Error::from_raw_os_error(libc::ESRCH));
        }
    }
    Ok(())
}

/// Returns a port that is free now.
fn free_port() -> io::Result<u16> {
    Ok(TcpListener::bind(("0.0.0.0", 0))?.local_addr()?.port())
}
