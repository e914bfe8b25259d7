//! Starts processes, passes signals on to them, waits, and starts them again after a failure. A process that
//! fails ends the others: they could only wait for it.

use std::io;
use std::process::ExitStatus;
use std::sync::mpsc::Receiver;
use std::thread;
use std::time::{Duration, Instant};

use super::failure::{EndOrder, WorkerFailure, order, status_of};
use super::workers::{WorkerGroup, Workers};

/// The time between two looks at the processes.
const PERIOD: Duration = Duration::from_millis(20);
/// Signals within this time are one request, as for a single run.
const ONE_REQUEST: Duration = Duration::from_millis(300);
/// The signals that ask a process to end.
const ENDING: [i32; 3] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP];

/// The end of all processes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GroupEnd {
    /// All have finished.
    Finished,
    /// A signal asked them to end, and they ended in order, with this status.
    Interrupted(u8),
    /// A process failed; the others were ended.
    Failed(WorkerFailure),
}

/// Runs the processes to their end. `signals` yields those that the launcher gets; `notice` is called before the
/// processes start again.
///
/// # Errors
/// The system's, such as a program that cannot be started.
pub fn supervise(
    group: &WorkerGroup,
    signals: &Receiver<i32>,
    notice: &dyn Fn(&str),
) -> io::Result<GroupEnd> {
    let mut restart_count = 0;
    loop {
        let mut watch = Watch::new(Workers::start(group, restart_count)?, group.grace);
        let end = watch.run(signals)?;
        let GroupEnd::Failed(failure) = &end else { return Ok(end) };
        let is_last = restart_count == group.max_restarts || !failure.may_pass();
        if is_last || watch.is_asked() {
            return Ok(end);
        }
        restart_count += 1;
        let max_restarts = group.max_restarts;
        notice(&format!("{failure}\nstarting all again, {restart_count} of {max_restarts}"));
    }
}

/// One start of the processes, until all have ended.
struct Watch {
    workers: Workers,
    grace: Duration,
    /// The time of the first signal that was passed on.
    asked: Option<Instant>,
    /// The time at which the processes that are left are killed.
    deadline: Option<Instant>,
    interrupted: Option<u8>,
    /// The cause, and the key by which it was chosen.
    failure: Option<(EndOrder, WorkerFailure)>,
}

impl Watch {
    fn new(workers: Workers, grace: Duration) -> Self {
        Self { workers, grace, asked: None, deadline: None, interrupted: None, failure: None }
    }

    /// Whether a signal has asked the launcher to end.
    fn is_asked(&self) -> bool {
        self.asked.is_some()
    }

    fn run(&mut self, signals: &Receiver<i32>) -> io::Result<GroupEnd> {
        loop {
            for signal in signals.try_iter() {
                self.pass_on(signal);
            }
            self.look_for_ends()?;
            if !self.workers.are_running() {
                break;
            }
            if self.deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                self.workers.kill();
            }
            thread::sleep(PERIOD);
        }
        Ok(match (self.failure.take(), self.interrupted) {
            (Some((_, failure)), _) => GroupEnd::Failed(failure),
            (None, Some(status)) => GroupEnd::Interrupted(status),
            (None, None) => GroupEnd::Finished,
        })
    }

    /// Passes a signal on. The first one lets the processes save as long as they need; a second one does not.
    fn pass_on(&mut self, signal: i32) {
        self.workers.send(signal);
        let now = Instant::now();
        let first = *self.asked.get_or_insert(now);
        if now - first > ONE_REQUEST {
            self.deadline.get_or_insert(now + self.grace);
        }
    }

    fn look_for_ends(&mut self) -> io::Result<()> {
        let asked = self.asked.is_some();
        let mut ended = self.workers.ended()?;
        ended.sort_by_key(|(worker, status)| order(worker, *status));
        let failed = ended.iter().find(|(_, status)| is_failure(*status, asked));
        let failure = failed
            .map(|(worker, status)| (order(worker, *status), WorkerFailure::of(worker, *status)));
        let interrupted = ended.iter().find(|(_, status)| is_interruption(*status, asked));
        let interrupted = interrupted.map(|(_, status)| status_of(*status));
        if let Some(failure) = failure {
            match &self.failure {
                None => {
                    self.failure = Some(failure);
                    self.end_workers();
                }
                // It failed before the other one, and took longer to end.
                Some((known, _)) if failure.0.left_message_before(known) => {
                    self.failure = Some(failure);
                }
                Some(_) => {}
            }
        } else if interrupted.is_some() && self.interrupted.is_none() {
            // The processes end together. If somebody sent the signal to one or all of them, the others save now,
            // and a signal from here would be a second one, which ends them at once.
            self.interrupted = interrupted;
        }
        Ok(())
    }

    /// Asks the processes to end, once.
    fn end_workers(&mut self) {
        if self.deadline.is_none() {
            self.workers.send(libc::SIGTERM);
            self.deadline = Some(Instant::now() + self.grace);
        }
    }
}

/// Whether a process ended in order because of a signal: it says so by its status, or had not yet begun to
/// listen when the launcher passed the signal on.
fn is_interruption(status: ExitStatus, asked: bool) -> bool {
    let is_said = status.code().is_some();
    (is_said || asked) && ENDING.iter().any(|signal| i32::from(status_of(status)) == 128 + signal)
}

fn is_failure(status: ExitStatus, asked: bool) -> bool {
    !status.success() && !is_interruption(status, asked)
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::env;
    use std::fs;
    use std::os::unix::process::CommandExt;
    use std::path::Path;
    use std::process::Command;
    use std::sync::mpsc;

    use super::*;

    /// Ends in order on SIGTERM, and otherwise never.
    const SAVES: &str = "trap 'exit 143' TERM; : >ready_$RANK; while :; do sleep 0.02; done";
    /// Does not end on SIGTERM.
    const HANGS: &str = "trap '' TERM; : >ready_$RANK; while :; do sleep 0.02; done";
    const FOLDER: &str = "TEST_FOLDER";

    /// Processes that run a line of a shell in a folder.
    fn group(folder: &Path, nproc_per_node: usize, line: &str) -> WorkerGroup {
        let line = format!("cd {}; {line}", folder.display());
        WorkerGroup {
            program: "/bin/sh".into(),
            args: vec!["-c".into(), line],
            nproc_per_node,
            endpoint: None,
            max_restarts: 0,
            grace: Duration::from_secs(20),
        }
    }

    /// Returns the end without any signal, and the notices.
    fn run(group: &WorkerGroup) -> (GroupEnd, Vec<String>) {
        let notices = RefCell::new(Vec::new());
        let (_sender, signals) = mpsc::channel();
        let notice = |text: &str| notices.borrow_mut().push(text.to_string());
        let end = supervise(group, &signals, &notice).unwrap();
        (end, notices.into_inner())
    }

    #[track_caller]
    fn failed(end: GroupEnd) -> WorkerFailure {
        match end {
            GroupEnd::Failed(failure) => failure,
            other => panic!("{other:?}"),
        }
    }

    fn wait_for(condition: impl Fn() -> bool) {
        let start = Instant::now();
        while !condition() {
            assert!(start.elapsed() < Duration::from_secs(20), "waited too long");
            thread::sleep(Duration::from_millis(5));
        }
    }

    #[test]
    fn every_process_gets_torchruns_variables() {
        let dir = tempfile::tempdir().unwrap();
        let line = "echo $RANK $WORLD_SIZE $LOCAL_RANK $LOCAL_WORLD_SIZE $MASTER_ADDR $MASTER_PORT \
                    $TORCHELASTIC_RESTART_COUNT ${TORCHELASTIC_USE_AGENT_STORE-none} >rank_$RANK";
        let mut group = group(dir.path(), 2, line);
        group.endpoint = Some(("gpu01".to_string(), 29_500));
        assert_eq!(run(&group).0, GroupEnd::Finished);
        let said = |rank| fs::read_to_string(dir.path().join(format!("rank_{rank}"))).unwrap();
        assert_eq!(said(0), "0 2 0 2 gpu01 29500 0 none\n");
        assert_eq!(said(1), "1 2 1 2 gpu01 29500 0 none\n");
    }

    #[test]
    fn cores_are_divided_among_the_processes() {
        if env::var_os("OMP_NUM_THREADS").is_some() {
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let cores = thread::available_parallelism().unwrap().get();
        run(&group(dir.path(), cores, "echo $OMP_NUM_THREADS >threads_$RANK"));
        assert_eq!(fs::read_to_string(dir.path().join("threads_0")).unwrap(), "1\n");
    }

    #[test]
    fn a_failure_ends_the_others_and_gives_its_message_and_status() {
        let dir = tempfile::tempdir().unwrap();
        let line = "if [ $RANK = 1 ]; then echo 'error: no disk' >$GIMLET_ERROR_FILE; exit 3; fi; exec sleep 20";
        let failure = failed(run(&group(dir.path(), 3, line)).0);
        assert_eq!((failure.rank, failure.status), (1, 3));
        assert_eq!(failure.to_string(), format!("rank 1 on {}: no disk", failure.host));
    }

    #[test]
    fn the_first_message_is_the_cause_even_if_its_process_takes_longer_to_end() {
        let dir = tempfile::tempdir().unwrap();
        let line = "trap '' TERM; if [ $RANK = 0 ]; then echo 'error: typo' >$GIMLET_ERROR_FILE; : >told; sleep 0.3; exit 2; fi; \
                    while [ ! -e told ]; do sleep 0.02; done; sleep 0.05; echo 'error: rank 0 is gone' >$GIMLET_ERROR_FILE; exit 1";
        let failure = failed(run(&group(dir.path(), 2, line)).0);
        assert_eq!((failure.rank, failure.status, &*failure.message), (0, 2, "typo"));
    }

    #[test]
    fn processes_that_do_not_end_are_killed_after_the_grace() {
        let dir = tempfile::tempdir().unwrap();
        let line = format!("if [ $RANK = 1 ]; then exit 3; fi; {HANGS}");
        let mut group = group(dir.path(), 2, &line);
        group.grace = Duration::from_millis(100);
        assert_eq!(failed(run(&group).0).status, 3);
    }

    #[test]
    fn a_process_that_a_signal_ends_shows_its_last_output() {
        let dir = tempfile::tempdir().unwrap();
        let line = "if [ $RANK = 1 ]; then echo step 7; kill -9 $$; fi; exec sleep 20";
        let failure = failed(run(&group(dir.path(), 2, line)).0);
        assert_eq!((failure.rank, failure.status), (1, 137));
        assert!(failure.message.starts_with("ended by signal 9"), "{failure}");
        assert!(failure.message.ends_with("its last output was\nstep 7"), "{failure}");
    }

    #[test]
    fn failed_processes_start_again_on_another_port() {
        let dir = tempfile::tempdir().unwrap();
        let line = "echo $MASTER_PORT >>ports_$RANK; [ $TORCHELASTIC_RESTART_COUNT = 2 ] || exit 5";
        let mut group = group(dir.path(), 1, line);
        group.max_restarts = 3;
        let (end, notices) = run(&group);
        assert_eq!(end, GroupEnd::Finished);
        assert_eq!(notices.len(), 2, "{notices:?}");
        assert!(notices[1].ends_with("ended with status 5\nstarting all again, 2 of 3"));
        let ports = fs::read_to_string(dir.path().join("ports_0")).unwrap();
        assert_eq!(ports.lines().count(), 3);
        group.max_restarts = 1;
        assert_eq!(failed(run(&group).0).status, 5);
    }

    #[test]
    fn mistakes_of_the_user_are_not_tried_again() {
        let dir = tempfile::tempdir().unwrap();
        let mut group = group(dir.path(), 1, "exit 2");
        group.max_restarts = 3;
        let (end, notices) = run(&group);
        assert_eq!((failed(end).status, notices.len()), (2, 0));
    }

    #[test]
    fn a_signal_is_passed_on_to_all_and_they_end_as_a_single_run_does() {
        let dir = tempfile::tempdir().unwrap();
        let mut group = group(dir.path(), 2, SAVES);
        group.max_restarts = 3;
        let (sender, signals) = mpsc::channel();
        let ready = [0, 1].map(|rank| dir.path().join(format!("ready_{rank}")));
        let asker = thread::spawn(move || {
            wait_for(|| ready.iter().all(|file| file.exists()));
            sender.send(libc::SIGTERM).unwrap();
        });
        let end = supervise(&group, &signals, &|_| {}).unwrap();
        asker.join().unwrap();
        assert_eq!(end, GroupEnd::Interrupted(143));
    }

    #[test]
    fn processes_that_somebody_else_asked_to_end_are_left_to_save() {
        let dir = tempfile::tempdir().unwrap();
        let saves =
            "trap 'exit 9' TERM; while [ ! -e ended_0 ]; do sleep 0.01; done; sleep 0.1; exit 143";
        let line = format!("if [ $RANK = 0 ]; then : >ended_0; exit 143; fi; {saves}");
        let mut group = group(dir.path(), 2, &line);
        group.max_restarts = 3;
        assert_eq!(run(&group), (GroupEnd::Interrupted(143), vec![]));
    }

    #[test]
    #[ignore = "a child of another test"]
    fn launcher() {
        let dir = env::var(FOLDER).unwrap();
        run(&group(
            Path::new(&dir),
            2,
            &format!("echo $$ >pid_$RANK.new; mv pid_$RANK.new pid_$RANK; {HANGS}"),
        ));
    }

    #[test]
    fn processes_end_with_their_launcher() {
        let dir = tempfile::tempdir().unwrap();
        let mut launcher = Command::new(env::current_exe().unwrap());
        launcher.args(["--ignored", "--exact", "launch::supervise::tests::launcher"]);
        let mut launcher = launcher.env(FOLDER, dir.path()).process_group(0).spawn().unwrap();
        let files = [0, 1].map(|rank| dir.path().join(format!("pid_{rank}")));
        wait_for(|| files.iter().all(|file| file.exists()));
        launcher.kill().unwrap();
        launcher.wait().unwrap();
        for file in files {
            let stat = format!("/proc/{}/stat", fs::read_to_string(file).unwrap().trim());
            // A zombie is left where nobody waits for orphans, as in some containers.
            wait_for(|| fs::read_to_string(&stat).map_or(true, |stat| stat.contains(") Z ")));
        }
    }
}
