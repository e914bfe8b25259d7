//! The processes of a run, and how this one reaches the others.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

use tch::{Device, Kind, Tensor};

use super::error::ProcessError;
use super::joining::{Endpoint, meet};
use super::mesh::{Mesh, MeshAxis, Process};
use crate::launch::StoreOwner;
use crate::nn::bridge::Transport;
use crate::nn::c10d::{Membership, ProcessGroup, Reduce, Store};
use crate::nn::{Axes, Axis, C10dError};

/// The key of the message with which the first process failed.
const FAILURE: &str = "failure";

/// The key that the process that failed sets at its very end.
const ENDED: &str = "ended";

/// The place to which processes come that have lost another.
const LOST: &str = "lost";

/// The time that processes give each other to say that they still run, once one of them is lost.
const ROLL_CALL: Duration = Duration::from_secs(5);

/// The processes of a run. Every method but `place` and its kin is called by all of them, in the same
/// order. With one process alone, nothing is sent.
#[derive(Debug, Default)]
pub struct Processes(Option<Joined>);

#[derive(Debug)]
struct Joined {
    place: Process,
    hosts: Vec<String>,
    timeout: Duration,
    is_local: bool,
    transport: Transport,
    store: Arc<Store>,
    /// The name of the store's owner.
    owner: String,
    /// For values of the host.
    values: Arc<ProcessGroup>,
}

impl Processes {
    /// One process.
    pub fn alone() -> Self {
        Self(None)
    }

    /// Finds the other processes.
    ///
    /// # Errors
    /// They do not come in time, or `stop` asks this one to end.
    pub fn join(endpoint: &Endpoint, stop: &AtomicBool) -> Result<Self, ProcessError> {
        let Endpoint { process: place, is_local, transport, timeout, .. } = endpoint;
        if place.count == 1 {
            return Ok(Self::alone());
        }
        let (store, hosts) = meet(endpoint, stop)?;
        let member = Membership {
            rank: place.rank,
            size: place.count,
            transport: Transport::Gloo,
            is_local: *is_local,
            timeout: *timeout,
        };
        let values = Arc::new(ProcessGroup::join(&store, "values", member).map_err(not_met)?);
        let owner = match endpoint.store {
            StoreOwner::RankZero => format!("process 0 on {}", hosts[0]),
            StoreOwner::Launcher => {
                let (host, port) = &endpoint.address;
                format!("the launcher at {host}:{port}, which serves the store,")
            }
        };
        Ok(Self(Some(Joined {
            place: *place,
            hosts,
            timeout: *timeout,
            is_local: *is_local,
            transport: *transport,
            store: Arc::new(store),
            owner,
            values,
        })))
    }

    /// Finds the processes along the axes of a mesh.
    ///
    /// # Errors
    /// They cannot reach each other.
    pub fn axes(&self, mesh: &Mesh) -> Result<Axes, ProcessError> {
        let Some(joined) = &self.0 else { return Ok(Axes::default()) };
        let lost = Arc::default();
        // The processes of an axis have the same place on the other one.
        let axis = |name: &str, along: MeshAxis, across: MeshAxis| {
            if along.size == 1 {
                return Ok(Axis::default());
            }
            if across.size == 1 && joined.transport == Transport::Gloo {
                return Ok(Axis::new(along.index, Arc::clone(&joined.values), &lost));
            }
            let &Joined { timeout, is_local, transport, .. } = joined;
            let MeshAxis { index: rank, size } = along;
            let member = Membership { rank, size, transport, is_local, timeout };
            let group =
                ProcessGroup::join(&joined.store, &format!("{name}/{}", across.index), member);
            Ok(Axis::new(rank, Arc::new(group.map_err(not_met)?), &lost))
        };
        Ok(Axes {
            data: axis("data", mesh.data(), mesh.model())?,
            model: axis("model", mesh.model(), mesh.data())?,
        })
    }

    /// This process.
    pub fn place(&self) -> Process {
        self.0.as_ref().map_or(Process::ALONE, |joined| joined.place)
    }

    /// Whether there is no other process.
    pub fn is_alone(&self) -> bool {
        self.0.is_none()
    }

    /// Whether this process writes the files of the run.
    pub fn is_first(&self) -> bool {
        self.place().rank == 0
    }

    /// Returns a process with its host, for messages.
    pub fn name(&self, rank: usize) -> String {
        match &self.0 {
            Some(joined) => joined.name(rank),
            None => "this process".to_string(),
        }
    }

    /// Replaces values by their sums over the processes.
    ///
    /// # Errors
    /// Another process is lost.
    pub fn sum(&self, values: &mut [f64]) -> Result<(), ProcessError> {
        let Some(joined) = &self.0 else { return Ok(()) };
        let tensor = Tensor::from_slice(values);
        self.told(joined.values.all_reduce(&tensor, Reduce::Sum).and_then(|work| work.wait()))?;
        tensor.copy_data(values, values.len());
        Ok(())
    }

    /// Returns what every process passes, in the order of their numbers.
    ///
    /// # Errors
    /// Another process is lost.
    pub fn gather(&self, own: &[u8]) -> Result<Vec<Vec<u8>>, ProcessError> {
        let Some(joined) = &self.0 else { return Ok(vec![own.to_vec()]) };
        self.told(joined.gather(own))
    }

    /// Returns what the first process passes.
    ///
    /// # Errors
    /// Another process is lost.
    pub fn of_first(&self, own: Vec<u8>) -> Result<Vec<u8>, ProcessError> {
        if self.is_alone() {
            return Ok(own);
        }
        let own = if self.is_first() { own } else { Vec::new() };
        Ok(self.gather(&own)?.swap_remove(0))
    }

    /// Waits until all processes are here.
    ///
    /// # Errors
    /// Another process is lost.
    pub fn wait_for_all(&self) -> Result<(), ProcessError> {
        self.sum(&mut [0.0])
    }

    /// Whether all processes come to this place, of that name, before they count as lost.
    pub fn meet_at(&self, place: &str) -> bool {
        match &self.0 {
            Some(joined) => {
                let silent = silent(&joined.store, joined.place, place, joined.timeout);
                silent.is_ok_and(|silent| silent.is_empty())
            }
            None => true,
        }
    }

    /// Returns the seconds for which this process has waited for others in its life.
    ///
    /// # Errors
    /// A failure of CUDA.
    pub fn waited(&self, axes: &Axes) -> Result<f64, ProcessError> {
        let Some(Joined { values, .. }) = &self.0 else { return Ok(0.0) };
        let mut groups = vec![Arc::clone(values)];
        for group in [axes.data.group(), axes.model.group()].into_iter().flatten() {
            if !Arc::ptr_eq(&group, values) {
                groups.push(group);
            }
        }
        self.told(groups.iter().map(|group| group.waited()).sum())
    }

    /// The time after which a process that does not answer counts as lost.
    pub fn timeout(&self) -> Duration {
        self.0.as_ref().map_or(Duration::MAX, |joined| joined.timeout)
    }

    /// Names the process that is lost, if an operation failed.
    ///
    /// # Errors
    /// The failure of the operation.
    pub fn told<T>(&self, result: Result<T, C10dError>) -> Result<T, ProcessError> {
        result.map_err(|error| match &self.0 {
            Some(joined) => joined.lost(error.0),
            None => unreachable!("one process alone sends nothing"),
        })
    }

    /// Tells the others the message with which this process ends, unless one has ended before.
    pub fn end_with(self, message: &str) {
        let Some(Joined { place, hosts, store, values, .. }) = self.0 else { return };
        let text = format!("process {} on {} ended: {message}", place.rank, hosts[place.rank]);
        // Without a store there is nobody to tell.
        within(2 * ROLL_CALL, move || {
            let _ = store.set_first(FAILURE, text.as_bytes());
            let _ = store.set(&format!("{LOST}/{}", place.rank), b"here");
            // The others notice that connections are closed; the store must outlive their questions.
            drop(values);
            let end = Instant::now() + ROLL_CALL;
            let is_here = |rank: usize| store.has(&format!("{LOST}/{rank}")).unwrap_or(true);
            while !(0..place.count).all(|rank| rank == place.rank || is_here(rank))
                && Instant::now() < end
            {
                thread::sleep(Duration::from_millis(20));
            }
            let _ = store.set(ENDED, b"");
            thread::sleep(Duration::from_millis(100));
        });
    }
}

/// Asks the store on a thread of its own: c10d waits for an answer without end, and a network that is cut gives
/// none.
fn within<T: Send + 'static>(
    time: Duration,
    ask: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    let (sender, answer) = channel();
    // Nobody may listen any more.
    thread::spawn(move || drop(sender.send(ask())));
    answer.recv_timeout(time).ok()
}

/// Says that a process is at a place, and returns those that do not come there in time, or before one of them has
/// told a failure.
fn silent(
    store: &Store,
    own: Process,
    place: &str,
    patience: Duration,
) -> Result<Vec<usize>, C10dError> {
    let key = |rank: usize| format!("{place}/{rank}");
    store.set(&key(own.rank), b"here")?;
    let end = Instant::now() + patience;
    loop {
        let mut silent = Vec::new();
        for rank in 0..own.count {
            if !store.has(&key(rank))? {
                silent.push(rank);
            }
        }
        if silent.is_empty() || Instant::now() > end || store.has(FAILURE)? {
            return Ok(silent);
        }
        thread::sleep(Duration::from_millis(20));
    }
}

/// Whether c10d has waited for an answer in vain, rather than found a connection closed.
fn is_timeout(detail: &str) -> bool {
    let detail = detail.to_lowercase();
    ["timed out", "timeout"].iter().any(|words| detail.contains(words))
}

fn not_met(error: C10dError) -> ProcessError {
    ProcessError::NotMet(format!("the processes cannot reach each other: {error}"))
}

impl Joined {
    fn name(&self, rank: usize) -> String {
        format!("process {rank} on {}", self.hosts[rank])
    }

    fn gather(&self, own: &[u8]) -> Result<Vec<Vec<u8>>, C10dError> {
        let count = self.place.count as i64;
        let whole = |part: &Tensor| {
            let whole = Tensor::empty([count * part.numel() as i64], (part.kind(), Device::Cpu));
            self.values.all_gather(part, &whole)?.wait()?;
            Ok(whole.view([count, -1]))
        };
        let lengths = whole(&Tensor::from_slice(&[own.len() as i64]))?.view(-1);
        let lengths: Vec<i64> = Vec::try_from(&lengths).expect("lengths are one int64 vector");
        let longest = lengths.iter().copied().max().unwrap_or_default().max(1);
        let padded = Tensor::zeros([longest], (Kind::Uint8, Device::Cpu));
        padded.narrow(0, 0, own.len() as i64).copy_(&Tensor::from_slice(own));
        let rows = whole(&padded)?;
        let row = |(rank, &length): (usize, &i64)| {
            let part = rows.get(rank as i64).narrow(0, 0, length);
            Vec::<u8>::try_from(part.contiguous()).expect("bytes are one uint8 vector")
        };
        Ok(lengths.iter().enumerate().map(row).collect())
    }

    /// Finds out who is lost: the process that said why it ended, else those that do not answer.
    fn lost(&self, detail: String) -> ProcessError {
        let patience = ROLL_CALL.min(self.timeout);
        let (store, own) = (Arc::clone(&self.store), self.place);
        let found = within(patience + ROLL_CALL, move || -> Result<_, C10dError> {
            let silent = silent(&store, own, LOST, patience)?;
            match store.has(FAILURE)? {
                true => Ok(Err(store.get(FAILURE, ROLL_CALL)?)),
                false => Ok(Ok(silent)),
            }
        });
        let names: Vec<String> = match found {
            Some(Ok(Err(said))) => {
                self.let_first_end();
                return ProcessError::Other(String::from_utf8_lossy(&said).into_owned());
            }
            Some(Ok(Ok(silent))) => silent.into_iter().map(|rank| self.name(rank)).collect(),
            Some(Err(C10dError(_))) | None => vec![self.owner.clone()],
        };
        ProcessError::Lost { who: self.described(&names, &detail), detail }
    }

    /// Says how processes are lost: a connection that was not closed has waited for as long as the user has set.
    fn described(&self, names: &[String], detail: &str) -> String {
        let have = match names.len() {
            0 => {
                return "the connection between processes broke: one of them, maybe this one, was stopped for a while, or the \
                        network was cut"
                    .to_string();
            }
            1 => "has",
            _ => "have",
        };
        let (names, seconds) = (names.join(", "), self.timeout.as_secs_f64());
        match is_timeout(detail) {
            true => format!(
                "{names} did not answer for {seconds} s (GIMLET_PROCESS_TIMEOUT_SECS): stopped, hanging or cut off"
            ),
            false => format!("{names} {have} died"),
        }
    }

    /// Waits until the process that failed has ended, so that launchers see its failure first.
    fn let_first_end(&self) {
        let end = Instant::now() + ROLL_CALL + Duration::from_secs(1);
        while Instant::now() < end && self.store.has(ENDED).is_ok_and(|ended| !ended) {
            thread::sleep(Duration::from_millis(20));
        }
        thread::sleep(Duration::from_millis(300));
    }
}
