//! The meeting of the processes of a run: each reaches the store that one of them serves, and reads there
//! the hosts of the others.

use std::cell::Cell;
use std::net::{TcpStream, ToSocketAddrs as _};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::error::ProcessError;
use super::mesh::Process;
use crate::launch::StoreOwner;
use crate::nn::C10dError;
use crate::nn::bridge::Transport;
use crate::nn::c10d::Store;
use crate::telemetry;

/// The time between two looks at the store.
const GLANCE: Duration = Duration::from_millis(50);

/// The time of a wait after which the user is told of it.
const PATIENCE: Duration = Duration::from_secs(5);

/// The number of processes that a message lists.
const LISTED: usize = 16;

/// The time within which a port that is open answers.
const ANSWER: Duration = Duration::from_secs(1);

/// The way in which processes find each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// The host and the port of the store.
    pub address: (String, u16),
    /// This process.
    pub process: Process,
    /// The process that serves the store; rank 0 may, and then `address` is its own.
    pub store: StoreOwner,
    /// The name of this attempt, if a store serves several one after the other.
    pub attempt: String,
    /// Whether all processes run on this host.
    pub is_local: bool,
    /// The way in which tensors of the processes' devices travel.
    pub transport: Transport,
    /// The time within which all processes come.
    pub patience: Duration,
    /// The time after which a process that does not answer counts as lost.
    pub timeout: Duration,
}

impl Endpoint {
    /// Whether this process serves the store.
    fn serves(&self) -> bool {
        self.process.rank == 0 && self.store == StoreOwner::RankZero
    }

    /// The process that serves the store, for messages.
    fn store_owner(&self) -> &'static str {
        match self.store {
            StoreOwner::RankZero => "process 0",
            StoreOwner::Launcher => "the launcher",
        }
    }
}

/// The reason why a process does not meet the others.
enum Unmet {
    /// The store is of an earlier attempt, or has ended.
    Store(String),
    Ended(ProcessError),
}

impl From<C10dError> for Unmet {
    fn from(error: C10dError) -> Self {
        Self::Store(format!("the store of process 0 there has ended ({error})"))
    }
}

impl From<ProcessError> for Unmet {
    fn from(error: ProcessError) -> Self {
        Self::Ended(error)
    }
}

/// Reaches the store, and returns it with the hosts of all processes. A store of an earlier attempt, which
/// ends soon, makes way for the next one.
///
/// # Errors
/// The others do not come in time, or this process is asked to end.
pub(super) fn meet(
    endpoint: &Endpoint,
    stop: &AtomicBool,
) -> Result<(Store, Vec<String>), ProcessError> {
    let began = Instant::now();
    let wait = Wait { began, end: began + endpoint.patience, stop, is_told: Cell::new(false) };
    let clock = std::time::UNIX_EPOCH.elapsed().unwrap_or_default().as_nanos();
    let own = format!("{}\n{}-{clock}", host_name(), std::process::id());
    loop {
        match reach(endpoint, &wait)
            .and_then(|store| Ok((hosts(&store, endpoint, &own, &wait)?, store)))
        {
            Ok((hosts, store)) => return Ok((store, hosts)),
            Err(Unmet::Ended(error)) => return Err(error),
            Err(Unmet::Store(reason)) if endpoint.serves() || !wait.goes_on()? => {
                return Err(not_reached(endpoint, &reason));
            }
            Err(Unmet::Store(_)) => {}
        }
    }
}

/// A wait that ends in time, or when this process is asked to end.
struct Wait<'a> {
    began: Instant,
    end: Instant,
    stop: &'a AtomicBool,
    /// Whether the user knows of it.
    is_told: Cell<bool>,
}

impl Wait<'_> {
    /// Sleeps, and returns whether time is left.
    fn goes_on(&self) -> Result<bool, ProcessError> {
        if self.stop.load(Ordering::Relaxed) {
            return Err(ProcessError::Asked);
        }
        std::thread::sleep(GLANCE);
        Ok(Instant::now() < self.end)
    }

    /// Whether the wait is long and the user has not been told of it; asked once more, the user has.
    fn is_to_be_told(&self) -> bool {
        self.began.elapsed() >= PATIENCE && !self.is_told.replace(true)
    }
}

/// Connects to the store, or serves it.
fn reach(endpoint: &Endpoint, wait: &Wait<'_>) -> Result<Store, Unmet> {
    let (host, port) = &endpoint.address;
    while !endpoint.serves() && !is_open(host, *port) {
        let Process { rank, count } = endpoint.process;
        if wait.is_to_be_told() {
            let (owner, seconds) = (endpoint.store_owner(), endpoint.patience.as_secs_f64());
            telemetry::notice(&format!(
                "process {rank} of {count} waits up to {seconds} s for {owner} at {host}:{port}, which has not answered yet"
            ));
        }
        if !wait.goes_on()? {
            let seconds = endpoint.patience.as_secs_f64();
            let reason = format!("nobody has answered there for {seconds} s");
            return Err(not_reached(endpoint, &reason).into());
        }
    }
    let store =
        Store::connect((host, *port), endpoint.serves(), &endpoint.attempt, endpoint.timeout);
    store.map_err(|error| Unmet::Store(error.0))
}

/// Whether a port is served. c10d would wait for it in one piece, and print each failure with its C++ stack.
fn is_open(host: &str, port: u16) -> bool {
    let addresses = (host, port).to_socket_addrs();
    let answers = |address| TcpStream::connect_timeout(&address, ANSWER).is_ok();
    addresses.is_ok_and(|mut all| all.any(answers))
}

/// Tells the others this host's name, and returns theirs.
fn hosts(
    store: &Store,
    endpoint: &Endpoint,
    own: &str,
    wait: &Wait<'_>,
) -> Result<Vec<String>, Unmet> {
    let Process { rank, count } = endpoint.process;
    let key = |rank: usize| format!("host/{rank}");
    if !store.set_first(&key(rank), own.as_bytes())? {
        let reason = format!("another process {rank} has come there, maybe of another run");
        return Err(Unmet::Store(reason));
    }
    let mut hosts = Vec::new();
    for other in 0..count {
        while !store.has(&key(other))? {
            // The other processes wait for the same.
            if rank == 0 && wait.is_to_be_told() {
                telemetry::notice(&waiting(endpoint, &absent(store, count, key)?));
            }
            if !wait.goes_on()? {
                return Err(missing(endpoint, &absent(store, count, key)?).into());
            }
        }
        let found = store.get(&key(other), ANSWER)?;
        let found = String::from_utf8_lossy(&found);
        hosts.push(found.lines().next().unwrap_or_default().to_string());
    }
    Ok(hosts)
}

/// Returns the processes that have not come.
fn absent(
    store: &Store,
    count: usize,
    key: impl Fn(usize) -> String,
) -> Result<Vec<usize>, C10dError> {
    let mut absent = Vec::new();
    for rank in 0..count {
        if !store.has(&key(rank))? {
            absent.push(rank);
        }
    }
    Ok(absent)
}

/// Says that the first process waits for others.
fn waiting(endpoint: &Endpoint, absent: &[usize]) -> String {
    let ((host, port), count) = (&endpoint.address, endpoint.process.count);
    let (here, seconds) = (count - absent.len(), endpoint.patience.as_secs_f64());
    let verb = if here == 1 { "is" } else { "are" };
    let whom = if absent.len() == 1 { "process" } else { "processes" };
    format!(
        "{here} of {count} processes {verb} at {host}:{port}; waiting up to {seconds} s for {whom} {}",
        numbers(absent)
    )
}

/// Names the processes that have not come in time.
fn missing(endpoint: &Endpoint, absent: &[usize]) -> ProcessError {
    let (count, seconds) = (endpoint.process.count, endpoint.patience.as_secs_f64());
    ProcessError::NotMet(format!(
        "of {count} processes these did not come within {seconds} s: {}; start all of them, with \
         the same address of process 0",
        numbers(absent)
    ))
}

/// Lists the first few of the processes' numbers.
fn numbers(ranks: &[usize]) -> String {
    let listed: Vec<String> = ranks.iter().take(LISTED).map(usize::to_string).collect();
    match ranks.len() - listed.len() {
        0 => listed.join(", "),
        more => format!("{} and {more} more", listed.join(", ")),
    }
}

fn not_reached(endpoint: &Endpoint, reason: &str) -> ProcessError {
    let ((host, port), rank) = (&endpoint.address, endpoint.process.rank);
    ProcessError::NotMet(match endpoint.serves() {
        true => format!("process {rank} cannot serve port {port}: {reason}; choose another port"),
        false => format!(
            "process {rank} on {} does not reach process 0 at {host}:{port}: {reason}; start it, or \
             correct the address",
            host_name()
        ),
    })
}

fn host_name() -> String {
    let read = std::fs::read_to_string("/proc/sys/kernel/hostname");
    read.map_or_else(|_| "unknown host".to_string(), |name| name.trim().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    fn endpoint(port: u16, rank: usize, patience: u64) -> Endpoint {
        Endpoint {
            address: ("127.0.0.1".to_string(), port),
            process: Process { rank, count: 2 },
            store: StoreOwner::RankZero,
            attempt: "test".to_string(),
            is_local: true,
            transport: Transport::Gloo,
            patience: Duration::from_millis(patience),
            timeout: Duration::from_secs(20),
        }
    }

    fn free_port() -> u16 {
        let socket = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        socket.local_addr().unwrap().port()
    }

    fn refused(endpoint: &Endpoint) -> String {
        meet(endpoint, &AtomicBool::new(false)).unwrap_err().to_string()
    }

    #[test]
    fn a_process_that_reaches_an_ended_attempt_waits_for_the_next() {
        let port = free_port();
        let stop = AtomicBool::new(false);
        let serve = || Store::connect(("127.0.0.1", port), true, "test", Duration::from_secs(20));
        let old = serve().unwrap();
        assert_eq!(old.set_first("host/1", b"gpu01\n7"), Ok(true));
        assert!(refused(&endpoint(port, 1, 100)).contains("another process 1 has come there"));
        thread::scope(|scope| {
            let second = scope.spawn(|| meet(&endpoint(port, 1, 20_000), &stop));
            drop(old);
            let (_store, hosts) = meet(&endpoint(port, 0, 20_000), &stop).unwrap();
            let (_, others) = second.join().unwrap().unwrap();
            assert_eq!((hosts.len(), &others), (2, &hosts));
        });
    }

    #[test]
    fn a_long_wait_is_told_with_its_limit() {
        let told = waiting(&endpoint(7, 0, 600_000), &[1]);
        assert_eq!(told, "1 of 2 processes is at 127.0.0.1:7; waiting up to 600 s for process 1");
        let many: Vec<usize> = (1..20).collect();
        assert!(numbers(&many).ends_with("15, 16 and 3 more"), "{}", numbers(&many));
    }

    #[test]
    fn a_process_waits_for_others_until_it_is_asked_to_end() {
        let port = free_port();
        let nobody = refused(&endpoint(port, 1, 100));
        assert!(nobody.contains("nobody has answered there for 0.1 s; start it"), "{nobody}");
        let missing = refused(&endpoint(port, 0, 100));
        assert!(missing.contains("these did not come within 0.1 s: 1;"), "{missing}");
        for rank in [0, 1] {
            let met = meet(&endpoint(port, rank, 20_000), &AtomicBool::new(true));
            assert_eq!(met.unwrap_err(), ProcessError::Asked, "{rank}");
        }
    }
}
