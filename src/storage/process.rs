//! Who a process is, so that another can tell whether it is still at work.

use std::fmt;
use std::fs;
use std::sync::OnceLock;

use serde::{Deserialize, Serialize};

/// A process of this or another machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Process {
    /// The machine's name.
    pub host: String,
    /// Its number there.
    pub pid: u32,
    /// Which run of which kernel, and which namespace of it, gave the number; empty where unknown.
    kernel: String,
    /// When it started, in the kernel's ticks; numbers are given again.
    started: String,
    /// The scheduler's job it belongs to, and how often that was started before.
    job: Option<(String, u64)>,
    /// Drawn at random by each process.
    token: String,
}

impl Process {
    /// The process that asks.
    pub fn this() -> &'static Self {
        static THIS: OnceLock<Process> = OnceLock::new();
        THIS.get_or_init(|| {
            let pid = std::process::id();
            let host = read("/proc/sys/kernel/hostname");
            Self {
                host: if host.is_empty() { "localhost".to_string() } else { host },
                pid,
                kernel: kernel(),
                started: started(pid).unwrap_or_default(),
                job: job(&|name| std::env::var(name).ok()),
                token: format!("{:016x}", rand::random::<u64>()),
            }
        })
    }

    /// Whether it is the process that asks.
    pub fn is_this(&self) -> bool {
        self.token == Self::this().token
    }

    /// Whether it surely is at work no more: its number is free on this machine or given anew, or
    /// the scheduler has started its job again.
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
        is_near && started(self.pid).is_none_or(|started| started != self.started)
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

/// The kernel's run and the namespace of process numbers: containers of one machine count anew.
fn kernel() -> String {
    let boot = read("/proc/sys/kernel/random/boot_id");
    match fs::read_link("/proc/self/ns/pid") {
        Ok(namespace) if !boot.is_empty() => format!("{boot} {}", namespace.display()),
        _ => String::new(),
    }
}

/// When a living process started; the field stands 20th after the name in parentheses.
fn started(pid: u32) -> Option<String> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_whitespace();
    // A zombie has ended.
    let is_dead = matches!(fields.next()?, "Z" | "X");
    let started = fields.nth(18)?;
    (!is_dead).then(|| started.to_string())
}

/// The job that a scheduler's variables name.
fn job(variable: &dyn Fn(&str) -> Option<String>) -> Option<(String, u64)> {
    let schedulers = [
        ("SLURM job", "SLURM_JOB_ID", "SLURM_RESTART_COUNT"),
        ("torchrun job", "TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT"),
    ];
    schedulers.iter().find_map(|(name, id, starts)| {
        let id = variable(id).filter(|id| !id.is_empty() && id != "none")?;
        let starts = variable(starts).and_then(|count| count.parse().ok()).unwrap_or(0);
        Some((format!("{name} {id}"), starts))
    })
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
        let elastic = found(&[("TORCHELASTIC_RUN_ID", "a")]);
        assert_eq!(elastic, Some(("torchrun job a".to_string(), 0)));
    }
}
