//! The rounds of a run on several machines. In each round the launchers of some machines start their processes
//! together. Each launcher tells its state in a [`Report`]; one of them, the [`Coordinator`], answers with a
//! [`Plan`]: the machines of a round, and the end of the run. How these travel is the work of `partition`.

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::supervise::GroupEnd;

/// The rules of the rounds.
#[derive(Clone, Debug)]
pub struct Terms {
    /// The numbers of machines on which the command can run, ascending.
    pub sizes: Vec<usize>,
    /// The number of rounds that may follow the first.
    pub max_restarts: usize,
    /// The time within which enough machines come.
    pub join_timeout: Duration,
    /// The time to wait for more machines, after the last one has come, once there are enough.
    pub last_call: Duration,
    /// The time after which a launcher that tells nothing counts as lost.
    pub silence: Duration,
    /// The flags that all launchers must share.
    pub flags: String,
}

/// The words of a launcher to the others.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// Increases while the launcher lives.
    pub beat: u64,
    /// Its place among the machines, if the user chose one.
    pub node_rank: Option<usize>,
    /// The machine's name.
    pub host: String,
    /// Its processes.
    pub state: NodeState,
}

/// The state of the processes of a machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum NodeState {
    /// There are none: the machine is ready for a round.
    Waiting,
    /// They run, in this round.
    Running(usize),
    /// They have ended in this round, or will now.
    Ended(usize, GroupEnd),
    /// The launcher has ended.
    Gone,
}

/// The words of the coordinator to the launchers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// A name of the run that no other one has.
    pub run_id: String,
    /// The flags of the coordinator.
    pub flags: String,
    /// The current round, from 0.
    pub round: usize,
    /// The launchers of its machines, in the order of their ranks; none until enough are there.
    pub members: Vec<usize>,
    /// The number of machines that wait for a round.
    pub num_waiting: usize,
    /// The failure that ended the round before.
    pub reason: Option<String>,
    /// The end of the run.
    pub end: Option<GroupEnd>,
}

/// Decides which machines start together, and when a round is over.
#[derive(Debug)]
pub struct Coordinator {
    terms: Terms,
    plan: Plan,
    /// Every launcher that ever came, in the order of arrival.
    launchers: Vec<Launcher>,
    /// The time at which this round began to form.
    begun: Instant,
    /// The time at which the number of machines that wait changed.
    last_arrival: Instant,
}

#[derive(Debug)]
struct Launcher {
    report: Report,
    /// The time of its last words.
    heard: Instant,
}

impl Coordinator {
    /// Creates the coordinator of a run.
    pub fn new(terms: Terms, run_id: String, now: Instant) -> Self {
        let flags = terms.flags.clone();
        let plan = Plan {
            run_id,
            flags,
            round: 0,
            members: vec![],
            num_waiting: 0,
            reason: None,
            end: None,
        };
        let (begun, last_arrival) = (now, now);
        Self { terms, plan, launchers: vec![], begun, last_arrival }
    }

    /// Answers the newest report of every launcher.
    pub fn decide(&mut self, reports: Vec<Report>, now: Instant) -> &Plan {
        self.hear(reports, now);
        match self.plan.members.is_empty() {
            _ if self.plan.end.is_some() => {}
            true => self.form(now),
            false => self.judge(now),
        }
        &self.plan
    }

    /// Whether every launcher has ended or is lost.
    pub fn is_alone(&self, own: usize, now: Instant) -> bool {
        (0..self.launchers.len()).all(|id| id == own || !self.is_living(id, now))
    }

    fn hear(&mut self, reports: Vec<Report>, now: Instant) {
        for (id, report) in reports.into_iter().enumerate() {
            match self.launchers.get_mut(id) {
                Some(known) if known.report == report => {}
                Some(known) => *known = Launcher { report, heard: now },
                None => self.launchers.push(Launcher { report, heard: now }),
            }
        }
    }

    fn is_silent(&self, id: usize, now: Instant) -> bool {
        now.saturating_duration_since(self.launchers[id].heard) >= self.terms.silence
    }

    fn is_living(&self, id: usize, now: Instant) -> bool {
        self.launchers[id].report.state != NodeState::Gone && !self.is_silent(id, now)
    }

    /// Starts a round once enough machines are there.
    fn form(&mut self, now: Instant) {
        let living: Vec<usize> =
            (0..self.launchers.len()).filter(|id| self.is_living(*id, now)).collect();
        let is_waiting = |id: &usize| self.launchers[*id].report.state == NodeState::Waiting;
        let mut waiting: Vec<usize> = living.iter().copied().filter(is_waiting).collect();
        waiting.sort_by_key(|id| (self.launchers[*id].report.node_rank.unwrap_or(usize::MAX), *id));
        if waiting.len() != self.plan.num_waiting {
            (self.plan.num_waiting, self.last_arrival) = (waiting.len(), now);
        }
        let size = self.terms.sizes.iter().copied().filter(|size| *size <= waiting.len()).max();
        let is_called = now - self.last_arrival >= self.terms.last_call;
        match size {
            // The processes of some machines may not yet have ended.
            Some(size)
                if Some(&size) == self.terms.sizes.last()
                    || is_called && waiting.len() == living.len() =>
            {
                waiting.truncate(size);
                self.plan.members = waiting;
            }
            _ if now - self.begun >= self.terms.join_timeout => {
                self.plan.end = Some(GroupEnd::Lost(self.not_met(waiting.len())));
            }
            _ => {}
        }
    }

    fn not_met(&self, num_waiting: usize) -> String {
        let (least, seconds) = (self.terms.sizes[0], self.terms.join_timeout.as_secs());
        format!(
            "only {num_waiting} of at least {least} machines have come within {seconds} s: start `gimlet \
             launch` on the others, with the same --rdzv_endpoint"
        )
    }

    /// Ends a round of which a machine failed or is lost, or all have ended.
    fn judge(&mut self, now: Instant) {
        let mut ends = Vec::new();
        for (rank, id) in self.plan.members.clone().into_iter().enumerate() {
            let Launcher { report, .. } = &self.launchers[id];
            match &report.state {
                NodeState::Ended(round, GroupEnd::Finished) if *round == self.plan.round => {
                    ends.push(GroupEnd::Finished);
                }
                NodeState::Ended(round, end) if *round == self.plan.round => {
                    ends.push(end.clone());
                }
                NodeState::Gone => {
                    ends.push(GroupEnd::Lost(format!("machine {rank}, {}, has left", report.host)));
                }
                _ if self.is_silent(id, now) => {
                    let (host, seconds) = (&report.host, self.terms.silence.as_secs_f64());
                    ends.push(GroupEnd::Lost(format!(
                        "machine {rank}, {host}, has not answered for {seconds} s"
                    )));
                }
                NodeState::Waiting | NodeState::Running(_) | NodeState::Ended(..) => {}
            }
        }
        let failed = ends.iter().find(|end| matches!(end, GroupEnd::Failed(_) | GroupEnd::Lost(_)));
        if let Some(failed) = failed {
            self.begin_again(failed.clone(), now);
        } else if ends.len() == self.plan.members.len() {
            let interrupted = ends.iter().find(|end| matches!(end, GroupEnd::Interrupted(_)));
            self.plan.end = Some(interrupted.cloned().unwrap_or(GroupEnd::Finished));
        }
    }

    fn begin_again(&mut self, failed: GroupEnd, now: Instant) {
        let (round, max_restarts) = (self.plan.round + 1, self.terms.max_restarts);
        let reason = match &failed {
            GroupEnd::Failed(failure) if failure.may_pass() => failure.to_string(),
            GroupEnd::Lost(reason) => reason.clone(),
            _ => {
                self.plan.end = Some(failed);
                return;
            }
        };
        if round > max_restarts {
            self.plan.end = Some(failed);
            return;
        }
        self.plan.reason = Some(format!("{reason}\nstarting all again, {round} of {max_restarts}"));
        (self.plan.round, self.plan.members) = (round, vec![]);
        (self.begun, self.last_arrival) = (now, now);
    }
}

#[cfg(test)]
mod tests {
    use super::super::failure::WorkerFailure;
    use super::*;

    /// A run of which the seconds are counted.
    struct Run {
        coordinator: Coordinator,
        start: Instant,
        beat: u64,
    }

    impl Run {
        fn new(sizes: &[usize]) -> Self {
            let seconds = Duration::from_secs;
            let terms = Terms {
                sizes: sizes.to_vec(),
                max_restarts: 2,
                join_timeout: seconds(600),
                last_call: seconds(30),
                silence: seconds(15),
                flags: String::new(),
            };
            let start = Instant::now();
            Self { coordinator: Coordinator::new(terms, "run".into(), start), start, beat: 0 }
        }

        /// The plan after so many seconds, if launchers are in these states; `None` is silent.
        fn at(&mut self, second: u64, states: &[Option<NodeState>]) -> Plan {
            self.beat += 1;
            let report = |(id, state): (usize, &Option<NodeState>)| match state {
                None => self.coordinator.launchers[id].report.clone(),
                Some(state) => Report {
                    beat: self.beat,
                    node_rank: None,
                    host: format!("gpu{id}"),
                    state: state.clone(),
                },
            };
            let reports = states.iter().enumerate().map(report).collect();
            self.coordinator.decide(reports, self.start + Duration::from_secs(second)).clone()
        }
    }

    const WAITING: Option<NodeState> = Some(NodeState::Waiting);

    fn running(round: usize) -> Option<NodeState> {
        Some(NodeState::Running(round))
    }

    fn ended(round: usize, end: GroupEnd) -> Option<NodeState> {
        Some(NodeState::Ended(round, end))
    }

    fn failed(status: u8) -> GroupEnd {
        let message = "no disk".to_string();
        GroupEnd::Failed(WorkerFailure { rank: 1, host: "gpu1".into(), status, message })
    }

    #[test]
    fn a_round_starts_with_all_machines_at_once_and_with_enough_after_the_last_call() {
        let mut all = Run::new(&[1, 2, 3]);
        assert_eq!(all.at(0, &[WAITING, WAITING]).members, [0; 0]);
        assert_eq!(all.at(9, &[WAITING, WAITING, WAITING]).members, [0, 1, 2]);
        let mut some = Run::new(&[2, 3]);
        assert_eq!(some.at(0, &[WAITING]).members, [0; 0]);
        assert_eq!(some.at(10, &[WAITING, WAITING]).members, [0; 0]);
        assert_eq!(some.at(39, &[WAITING, WAITING]).members, [0; 0]);
        assert_eq!(some.at(40, &[WAITING, WAITING]).members, [0, 1]);
    }

    #[test]
    fn machines_with_which_the_command_cannot_run_stay_in_reserve() {
        let mut run = Run::new(&[2, 4]);
        run.at(0, &[WAITING, WAITING, WAITING]);
        assert_eq!(run.at(30, &[WAITING, WAITING, WAITING]).members, [0, 1]);
    }

    #[test]
    fn too_few_machines_end_the_run_in_time() {
        let mut run = Run::new(&[2]);
        assert_eq!(run.at(599, &[WAITING]).end, None);
        let Some(GroupEnd::Lost(said)) = run.at(600, &[WAITING]).end else { panic!("it ends") };
        assert!(said.starts_with("only 1 of at least 2 machines"), "{said}");
    }

    #[test]
    fn a_lost_machine_is_left_out_and_taken_in_again() {
        let mut run = Run::new(&[1, 2]);
        assert_eq!(run.at(0, &[WAITING, WAITING]).members, [0, 1]);
        run.at(1, &[running(0), running(0)]);
        assert_eq!(run.at(15, &[running(0), None]).round, 0);
        let plan = run.at(16, &[running(0), None]);
        assert_eq!((plan.round, &plan.members[..]), (1, &[][..]));
        let reason = "machine 1, gpu1, has not answered for 15 s\nstarting all again, 1 of 2";
        assert_eq!(plan.reason.as_deref(), Some(reason));
        run.at(17, &[WAITING, None]);
        assert_eq!(run.at(47, &[WAITING, None]).members, [0]);
        // The machine has come back, and must wait: its arrival ends nothing.
        assert_eq!(run.at(60, &[running(1), None, WAITING]).members, [0]);
        assert_eq!(run.at(61, &[ended(1, failed(137)), None, WAITING]).round, 2);
        assert_eq!(run.at(62, &[WAITING, None, WAITING]).members, [0, 2]);
        let plan = run.at(63, &[ended(2, failed(137)), None, running(2)]);
        assert_eq!((plan.round, plan.end), (2, Some(failed(137))), "both restarts are used up");
    }

    #[test]
    fn a_round_waits_for_processes_that_end() {
        let mut run = Run::new(&[1, 2]);
        run.at(0, &[WAITING, WAITING]);
        run.at(1, &[ended(0, failed(1)), running(0)]);
        assert_eq!(run.at(50, &[WAITING, running(0)]).members, [0; 0]);
        assert_eq!(run.at(51, &[WAITING, WAITING]).members, [0, 1]);
    }

    #[test]
    fn the_run_ends_when_all_machines_have() {
        let mut run = Run::new(&[2]);
        run.at(0, &[WAITING, WAITING]);
        assert_eq!(run.at(1, &[ended(0, GroupEnd::Finished), running(0)]).end, None);
        let both = [ended(0, GroupEnd::Finished), ended(0, GroupEnd::Interrupted(143))];
        assert_eq!(run.at(2, &both).end, Some(GroupEnd::Interrupted(143)));
        let mut run = Run::new(&[1]);
        run.at(0, &[WAITING]);
        assert_eq!(run.at(1, &[ended(0, failed(2))]).end, Some(failed(2)), "a user's mistake");
    }
}
