//! Runs the processes of this machine together with those of others, round after round.

use std::io;
use std::sync::mpsc::Receiver;
use std::thread;
use std::time::{Duration, Instant};

use super::board::{Board, Known};
use super::failure::host;
use super::rounds::{NodeState, Plan, Terms};
use super::supervise::{GroupEnd, PERIOD, Watch};
use super::workers::{WorkerGroup, Workers};
use super::world::StoreOwner;

/// The time of a wait after which the user is told of it.
const PATIENCE: Duration = Duration::from_secs(5);

/// This machine in a round.
struct Seat {
    round: usize,
    rank: usize,
    size: usize,
    run_id: String,
}

/// The end of a wait for others.
enum Waited {
    Plan(usize, Plan),
    End(GroupEnd),
}

/// A launcher among others.
struct Member<'a> {
    group: &'a WorkerGroup,
    terms: &'a Terms,
    board: &'a Board,
    signals: &'a Receiver<i32>,
    notice: &'a dyn Fn(&str),
}

/// Runs the processes of this machine in every round that the board's plan gives it, until the run ends.
/// `group` says what to start; the plan says the machines.
///
/// # Errors
/// The system's, such as a program that cannot be started.
pub fn supervise_together(
    group: &WorkerGroup,
    terms: &Terms,
    board: &Board,
    signals: &Receiver<i32>,
    notice: &dyn Fn(&str),
) -> io::Result<GroupEnd> {
    let end = Member { group, terms, board, signals, notice }.run();
    board.tell(NodeState::Gone);
    end
}

impl Member<'_> {
    fn run(&self) -> io::Result<GroupEnd> {
        let mut next = 0;
        loop {
            self.board.tell(NodeState::Waiting);
            let seat = match self.seat(next) {
                Ok(seat) => seat,
                Err(end) => return Ok(end),
            };
            next = seat.round + 1;
            self.board.tell(NodeState::Running(seat.round));
            let workers = Workers::start(&self.group_of(&seat), seat.round)?;
            let mut watch = Watch::new(workers, self.group.grace, Some((self.board, seat.round)));
            let end = watch.run(self.signals)?;
            // Repetitions of the signal that ended the processes.
            self.signals.try_iter().for_each(drop);
            self.board.tell(NodeState::Ended(seat.round, self.told(&seat, end.clone())));
            // The coordinator says whether the others have ended too.
            match self.wait(Some(&end), |plan| plan.round >= next) {
                Waited::Plan(..) if watch.is_asked() => return Ok(end),
                Waited::Plan(_, plan) => {
                    (self.notice)(plan.reason.as_deref().unwrap_or("starting all again"));
                }
                Waited::End(end) => return Ok(end),
            }
        }
    }

    /// Waits for a round that has this machine.
    fn seat(&self, next: usize) -> Result<Seat, GroupEnd> {
        let is_mine = |own: usize, plan: &Plan| plan.members.iter().position(|id| *id == own);
        let mut least = next;
        loop {
            let formed = |plan: &Plan| plan.round >= least && !plan.members.is_empty();
            let (own, plan) = match self.wait(None, formed) {
                Waited::Plan(own, plan) => (own, plan),
                Waited::End(end) => return Err(end),
            };
            let (round, size) = (plan.round, plan.members.len());
            match is_mine(own, &plan) {
                Some(rank) => {
                    (self.notice)(&format!("machine {rank} of {size}, start {round}"));
                    return Ok(Seat { round, rank, size, run_id: plan.run_id });
                }
                None => {
                    (self.notice)(
                        "the others run without this machine, which waits for the next start",
                    );
                    least = round + 1;
                }
            }
        }
    }

    /// Waits for a plan, while no processes run here. `own` is their end, of which the others may not hear.
    fn wait(&self, own: Option<&GroupEnd>, is_it: impl Fn(&Plan) -> bool) -> Waited {
        let (mut is_said, mut is_told) = (false, false);
        let began = Instant::now();
        loop {
            if let Some(signal) = self.signals.try_iter().next() {
                let status = u8::try_from(128 + signal).expect("signals are small");
                return Waited::End(GroupEnd::Interrupted(status));
            }
            match self.board.known() {
                Known::Plan(_, Plan { end: Some(end), .. }) => return Waited::End(end),
                Known::Plan(_, plan) if plan.flags != self.terms.flags => {
                    return Waited::End(GroupEnd::Unlike(unlike(&self.terms.flags, &plan.flags)));
                }
                Known::Plan(own, plan) if is_it(&plan) => return Waited::Plan(own, plan),
                Known::Silence(time) if time >= self.terms.join_timeout => {
                    return Waited::End(GroupEnd::Lost(self.cut_off(time)));
                }
                Known::Broken(reason) => return Waited::End(GroupEnd::Lost(reason)),
                Known::Silence(time) if !is_said && time >= self.terms.silence => {
                    is_said = true;
                    if let Some(GroupEnd::Failed(failure)) = own {
                        (self.notice)(&failure.to_string());
                    }
                    (self.notice)(&format!("{}; waiting for it", self.cut_off(time)));
                }
                known if !is_told && own.is_none() && began.elapsed() >= PATIENCE => {
                    is_told = true;
                    (self.notice)(&self.waiting(&known));
                }
                Known::Plan(..) | Known::Silence(_) => {}
            }
            thread::sleep(PERIOD);
        }
    }

    /// The end to tell the others.
    fn told(&self, seat: &Seat, end: GroupEnd) -> GroupEnd {
        match (self.board.known(), end) {
            (Known::Silence(time), GroupEnd::Interrupted(_) | GroupEnd::Failed(_)) => {
                let machine = format!("machine {}, {}", seat.rank, host());
                GroupEnd::Lost(format!("{machine}: {}", self.cut_off(time)))
            }
            (_, end) => end,
        }
    }

    /// Says for whom it waits.
    fn waiting(&self, known: &Known) -> String {
        let (host, port) = self.group.endpoint.as_ref().expect("machines meet at one");
        match (known, self.terms.sizes.first()) {
            (Known::Plan(_, plan), Some(least)) => format!(
                "waiting for other machines at {host}:{port}: {} of at least {least} {} come",
                plan.num_waiting,
                if plan.num_waiting == 1 { "has" } else { "have" }
            ),
            _ => format!("waiting for the launcher at {host}:{port}, which has not answered yet"),
        }
    }

    fn cut_off(&self, time: Duration) -> String {
        let (host, port) = self.group.endpoint.as_ref().expect("machines meet at one");
        format!("the launcher at {host}:{port} has not answered for {} s", time.as_secs())
    }

    fn group_of(&self, seat: &Seat) -> WorkerGroup {
        WorkerGroup {
            nnodes: seat.size,
            node_rank: seat.rank,
            store: StoreOwner::Launcher,
            run_id: Some(seat.run_id.clone()),
            ..self.group.clone()
        }
    }
}

fn unlike(own: &str, theirs: &str) -> String {
    format!(
        "this launcher has {own} and that at --rdzv_endpoint {theirs}: give all of them the same flags"
    )
}
