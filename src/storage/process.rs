//! Identifies a process, so that another process can tell whether it is still at work.

use std::fmt;
use std::fs;
use std::io;
use std::sync::OnceLock;

use serde::{Deserialize, Serialize};

/// A process of this or another machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Process {
    /// The machine's name.
    pub host: String,
    /// Process number on that machine.
    pub pid: u32,
    /// The boot of the kernel and the namespace that the number belongs to; empty if unknown.
    kernel: String,
    /// Start time in the kernel's ticks, since numbers are reused.
    started: String,
    /// The scheduler's job of the process, and the number of its earlier starts.
    job: Option<(String, u64)>,
    /// Random identifier of the process.
    token: String,
}

impl Process {
    /// The current process.
    pub fn this() -> &'static Self {
        static THIS: OnceLock<Process> = OnceLock::new();
        THIS.get_or_init(|| {
            let pid = std::process::id();
            let host = read("/proc/sys/kernel/hostname");
            Self {
                host: if host.is_empty() { "localhost".to_string() } else { host },
                pid,
                kernel: kernel(),
                started: stat(pid).as_deref().and_then(started).unwrap_or_default().to_string(),
                job: job(&|name| std::env::var(name).ok()),
                token: format!("{:016x}", rand::random::<u64>()),
            }
        })
    }

    /// Whether this is the current process.
    pub fn is_this(&self) -> bool {
        self.token == Self::this().token
    }

    /// Whether the process has certainly ended: its number is free on this machine or was reused,
    /// or the scheduler has restarted its job.
    pub fn is_gone(&self) -> bool {
        self.is_gone_for(Self::this())
    }

    fn is_gone_for(&self, this: &Self) -> bool {
        if self.token == this.token {
            return false;
        }
        if let (Some((job, starts)), Some((this_job, this_starts))) = (&self.job, &this.job)
            && job == this_job
            && starts < this_starts
        {
            return true;
        }
        let is_near =
            self.host == this.host && !self.kernel.is_empty() && self.kernel == this.kernel;
        is_near && self.is_over(stat(self.pid).as_deref())
    }

    /// Whether a process of this machine has ended, according to the system's data about its
    /// number.
    fn is_over(&self, stat: Option<&str>) -> bool {
        match stat {
            Some(stat) => started(stat).is_none_or(|started| started != self.started),
            // The processes of other users may be hidden.
            None => is_free(self.pid),
        }
    }
}

impl fmt::Display for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "process {} on host {}", self.pid, self.host)?;
        match &self.job {
            Some((job, _)) => write!(f, " ({job})"),
            None => Ok(()),
        }
    }
}

fn read(file: &str) -> String {
    fs::read_to_string(file).unwrap_or_default().trim().to_string()
}

/// Identifies the boot of the kernel and the namespace of process numbers: each container has its
/// own numbers.
fn kernel() -> String {
    let boot = read("/proc/sys/kernel/random/boot_id");
    match fs::read_link("/proc/self/ns/pid") {
        Ok(namespace) if !boot.is_empty() => format!("{boot} {}", namespace.display()),
        _ => String::new(),
    }
}

/// A number for the machine and its boot; different for other machines except with negligible
/// probability.
pub(super) fn machine() -> u32 {
    static MACHINE: OnceLock<u32> = OnceLock::new();
    *MACHINE.get_or_init(|| {
        let this = Process::this();
        crc32c::crc32c(format!("{}\n{}", this.host, this.kernel).as_bytes())
    })
}

/// Whether the process with this number on the [`machine`] has certainly ended; `false` if unknown.
pub(super) fn has_ended(of: u32, pid: u32) -> bool {
    !Process::this().kernel.is_empty() && of == machine() && is_free(pid)
}

/// The system's data about a process, if available.
fn stat(pid: u32) -> Option<String> {
    fs::read_to_string(format!("/proc/{pid}/stat")).ok()
}

/// Whether no process has the number, not even a hidden process.
fn is_free(pid: u32) -> bool {
    // 0 and negative numbers stand for groups of processes.
    let Some(pid) = libc::pid_t::try_from(pid).ok().filter(|pid| *pid > 0) else { return true };
    // SAFETY: the call takes plain numbers, and signal 0 is never delivered.
    let refused = unsafe { libc::kill(pid, 0) } != 0;
    refused && io::Error::last_os_error().raw_os_error() == Some(libc::ESRCH)
}

/// Start time of a living process; the field is the 20th after the name in parentheses.
fn started(stat: &str) -> Option<&str> {
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_whitespace();
    // A zombie process has ended.
    let is_dead = matches!(fields.next()?, "Z" | "X");
    let started = fields.nth(18)?;
    (!is_dead).then_some(started)
}

/// The job in a scheduler's variables.
fn job(variable: &dyn Fn(&str) -> Option<String>) -> Option<(String, u64)> {
    let set = |name| variable(name).filter(|value| !value.is_empty() && value != "none");
    let starts = |name| set(name).and_then(|count| count.parse().ok()).unwrap_or(0);
    if let Some(id) = set("SLURM_JOB_ID") {
        return Some((format!("SLURM job {id}"), starts("SLURM_RESTART_COUNT")));
    }
    // Users choose this name, possibly the same name twice, but the address of the job's processes
    // is unique.
    let id = set("TORCHELASTIC_RUN_ID")?;
    let (address, port) = (set("MASTER_ADDR")?, set("MASTER_PORT")?);
    let job = format!("torchrun job {id} at {address}:{port}");
    Some((job, starts("TORCHELASTIC_RESTART_COUNT")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn other() -> Process {
        Process { token: "other".to_string(), ..Process::this().clone() }
    }

    #[test]
    fn a_process_is_gone_when_its_number_is_free_or_given_anew() {
        assert!(!Process::this().is_gone());
        assert!(!other().is_gone(), "its number and start are those of a living process");
        assert!(Process { started: "1".to_string(), ..other() }.is_gone());
        assert!(Process { pid: u32::MAX, ..other() }.is_gone());
    }

    #[test]
    fn a_living_process_that_is_hidden_is_not_gone() {
        assert!(!other().is_over(None));
        assert!(Process { pid: u32::MAX, ..other() }.is_over(None));
        assert!(Process { pid: 0, ..other() }.is_over(None));
    }

    #[test]
    fn of_other_machines_and_containers_nothing_is_known() {
        let free = Process { pid: u32::MAX, ..other() };
        assert!(!Process { host: "elsewhere".to_string(), ..free.clone() }.is_gone());
        assert!(!Process { kernel: "other".to_string(), ..free }.is_gone());
    }

    #[test]
    fn a_job_that_is_started_again_has_ended_before() {
        let job = |starts| Some(("SLURM job 7".to_string(), starts));
        let far = |starts| Process { host: "a".to_string(), job: job(starts), ..other() };
        let this = |starts| Process { job: job(starts), ..Process::this().clone() };
        assert!(far(0).is_gone_for(&this(1)));
        assert!(!far(1).is_gone_for(&this(1)));
        let another = Process { job: Some(("SLURM job 8".to_string(), 0)), ..far(0) };
        assert!(!another.is_gone_for(&this(1)));
    }

    #[test]
    fn jobs_are_those_that_schedulers_name() {
        let found = |variables: &[(&str, &str)]| {
            job(&|name| {
                let found = variables.iter().find(|(known, _)| *known == name)?;
                Some(found.1.to_string())
            })
        };
        let restarted = [("SLURM_JOB_ID", "12"), ("SLURM_RESTART_COUNT", "2")];
        assert_eq!(found(&restarted), Some(("SLURM job 12".to_string(), 2)));
        assert_eq!(found(&[("TORCHELASTIC_RUN_ID", "none")]), None);
        let id = ("TORCHELASTIC_RUN_ID", "a");
        assert_eq!(found(&[id]), None, "another job may have the same name");
        let elastic = found(&[id, ("MASTER_ADDR", "host"), ("MASTER_PORT", "29500")]);
        assert_eq!(elastic, Some(("torchrun job a at host:29500".to_string(), 0)));
    }
}
