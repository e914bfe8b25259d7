//! Carries the words of launchers through a store of c10d, which one of them serves. Each writes its own report;
//! the one that serves the store also reads all of them, and writes the plan.

use std::net::{TcpListener, ToSocketAddrs as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::joining::is_open;
use crate::launch::{Board, Coordinator, NodeState, Plan, Report, Terms, host};
use crate::nn::C10dError;
use crate::nn::c10d::Store;

/// The time between two exchanges.
const PERIOD: Duration = Duration::from_millis(100);
/// The keys of launchers are apart from those of the processes.
const PREFIX: &str = "gimlet-launch";
const PLAN: &str = "plan";

/// The place at which launchers meet.
#[derive(Clone, Debug)]
pub struct MeetingPoint {
    /// The host of one of the machines, and a port that is free there.
    pub address: (String, u16),
    /// The place of this machine among all, if the user chose one.
    pub node_rank: Option<usize>,
    /// The rules.
    pub terms: Terms,
}

/// The exchange with other launchers, on a thread of its own: a network that is cut blocks it.
#[derive(Debug)]
pub struct Rendezvous {
    thread: JoinHandle<()>,
    closing: Arc<AtomicBool>,
    silence: Duration,
}

impl Rendezvous {
    /// Begins to exchange the words on a board.
    ///
    /// # Errors
    /// The system has no thread to give.
    pub fn begin(point: MeetingPoint, board: Arc<Board>) -> std::io::Result<Self> {
        let (closing, silence) = (Arc::new(AtomicBool::new(false)), point.terms.silence);
        let asked = Arc::clone(&closing);
        let exchange = move || {
            if let Err(error) = exchange(&point, &board, &asked) {
                let (host, port) = &point.address;
                board.break_off(format!("the launcher at {host}:{port} has ended ({error})"));
            }
        };
        let thread = thread::Builder::new().name("rendezvous".to_string()).spawn(exchange)?;
        Ok(Self { thread, closing, silence })
    }

    /// Ends the exchange, after the others have heard the end.
    pub fn close(self) {
        self.closing.store(true, Ordering::Relaxed);
        let end = Instant::now() + self.silence + PERIOD;
        while !self.thread.is_finished() && Instant::now() < end {
            thread::sleep(PERIOD);
        }
    }
}

fn exchange(point: &MeetingPoint, board: &Board, closing: &AtomicBool) -> Result<(), C10dError> {
    let Some((store, serves)) = reach(point, closing)? else { return Ok(()) };
    let own = arrive(&store)?;
    let silence = point.terms.silence;
    let mut coordinator = serves.then(|| {
        let clock = std::time::UNIX_EPOCH.elapsed().unwrap_or_default().as_nanos();
        Coordinator::new(point.terms.clone(), format!("{clock:x}"), Instant::now())
    });
    for beat in 0.. {
        let state = board.told();
        let is_gone = state == NodeState::Gone;
        let report = Report { beat, node_rank: point.node_rank, host: host(), state };
        store.set(&report_key(own), &to_bytes(&report))?;
        let is_last = match &mut coordinator {
            Some(coordinator) => {
                let now = Instant::now();
                let plan = coordinator.decide(reports(&store, silence)?, now);
                store.set(PLAN, &to_bytes(plan))?;
                board.hear(own, plan.clone());
                coordinator.is_alone(own, now)
            }
            None => {
                if let Some(plan) = read::<Plan>(&store, PLAN, silence)? {
                    board.hear(own, plan);
                }
                true
            }
        };
        if is_gone && is_last && closing.load(Ordering::Relaxed) {
            break;
        }
        thread::sleep(PERIOD);
    }
    Ok(())
}

/// Connects to the store, and serves it if nobody does and the address is of this machine. Returns whether it
/// serves.
fn reach(point: &MeetingPoint, closing: &AtomicBool) -> Result<Option<(Store, bool)>, C10dError> {
    let (host, port) = (&*point.address.0, point.address.1);
    let connect = |serves| Store::connect((host, port), serves, PREFIX, point.terms.join_timeout);
    while !closing.load(Ordering::Relaxed) {
        if is_open(host, port) {
            return connect(false).map(|store| Some((store, false)));
        }
        // Another launcher of this machine may have been faster.
        if is_own(host)
            && let Ok(store) = connect(true)
        {
            return Ok(Some((store, true)));
        }
        thread::sleep(PERIOD);
    }
    Ok(None)
}

/// Whether a host is this one: the system binds ports of its own addresses only.
fn is_own(host: &str) -> bool {
    let addresses = (host, 0).to_socket_addrs();
    addresses.is_ok_and(|mut all| all.any(|address| TcpListener::bind(address).is_ok()))
}

/// Returns the number of this launcher in the order of arrival.
fn arrive(store: &Store) -> Result<usize, C10dError> {
    let clock = std::time::UNIX_EPOCH.elapsed().unwrap_or_default().as_nanos();
    let own = format!("{}-{}-{clock}", host(), std::process::id());
    let mut number = 0;
    while !store.set_first(&format!("launcher/{number}"), own.as_bytes())? {
        number += 1;
    }
    Ok(number)
}

/// Returns the newest report of each launcher, up to the first that has arrived and not yet told anything.
fn reports(store: &Store, silence: Duration) -> Result<Vec<Report>, C10dError> {
    let mut all = Vec::new();
    while let Some(report) = read(store, &report_key(all.len()), silence)? {
        all.push(report);
    }
    Ok(all)
}

fn report_key(launcher: usize) -> String {
    format!("report/{launcher}")
}

/// Reads a word, if it is there. A server that takes longer than this silence to answer counts as lost.
fn read<T: serde::de::DeserializeOwned>(
    store: &Store,
    key: &str,
    silence: Duration,
) -> Result<Option<T>, C10dError> {
    if !store.has(key)? {
        return Ok(None);
    }
    let bytes = store.get(key, silence)?;
    let parsed = serde_json::from_slice(&bytes);
    parsed.map(Some).map_err(|_| C10dError("it is another build of gimlet".to_string()))
}

fn to_bytes<T: serde::Serialize>(value: &T) -> Vec<u8> {
    serde_json::to_vec(value).expect("plain structs have a JSON form")
}
