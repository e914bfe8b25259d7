//! The server: its socket, its runtime, and its end.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use axum::serve::Listener;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::runtime::Builder;
use tokio::time::timeout;

use crate::telemetry;

use super::batcher::answer_all;
use super::metrics::Metrics;
use super::openai::unix_seconds;
use super::options::ServeOptions;
use super::queue::Queue;
use super::routes::router;
use super::served::Served;
use super::shared::Shared;

/// Threads that read and write requests; the model computes in others.
const THREADS: usize = 2;

/// The longest time between two looks at the request to end.
const LOOK: Duration = Duration::from_millis(50);

/// Takes the address, before the parameters are read: clients that come now wait for them.
///
/// # Errors
/// The system's, with the address.
pub fn bind(options: &ServeOptions) -> io::Result<TcpListener> {
    let address = SocketAddr::new(options.host, options.port);
    let listener = TcpListener::bind(address).map_err(|error| {
        io::Error::new(
            error.kind(),
            format!("cannot listen at {address}: {error}; choose another one with --port"),
        )
    })?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// Serves until `stop`: then new texts are refused, and those that wait are answered.
///
/// # Errors
/// The system's.
pub fn serve(
    served: &Served<'_>,
    options: &ServeOptions,
    (listener, token): (TcpListener, Option<String>),
    stop: &AtomicBool,
) -> io::Result<()> {
    let address = listener.local_addr()?;
    let shared = Arc::new(Shared {
        started: unix_seconds(),
        num_asked: AtomicU64::new(0),
        about: served.about(),
        encoder: served.encoder(),
        queue: Queue::new(options.queue),
        metrics: Metrics::new(),
        token,
        timeout: Duration::from_secs(options.timeout_secs),
        max_body_bytes: options.max_body_bytes,
    });
    if !options.host.is_loopback() && shared.token.is_none() {
        telemetry::warn(
            "everybody who reaches this address may ask: give --token_file, or listen at 127.0.0.1",
        );
    }
    telemetry::notice(&format!("serving at http://{address}; SIGTERM or Ctrl-C ends"));
    tch::manual_seed(served.spec().init_random_seed);
    thread::scope(|scope| {
        let serving = scope.spawn(|| {
            let served = listen(Arc::clone(&shared), listener, stop);
            shared.queue.close();
            served
        });
        let max_wait = Duration::from_millis(options.max_wait_ms);
        {
            let _end = End(stop);
            answer_all(served, &shared, max_wait);
        }
        serving.join().expect("the thread that serves does not panic")
    })
}

/// Asks the server to end when the thread of the model ends, also by a bug.
struct End<'a>(&'a AtomicBool);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Answers connections, until `stop` and the end of the requests of that time.
fn listen(shared: Arc<Shared>, listener: TcpListener, stop: &AtomicBool) -> io::Result<()> {
    let runtime = Builder::new_multi_thread()
        .worker_threads(THREADS)
        .thread_name("serve")
        .enable_all()
        .build()?;
    let served = runtime.block_on(async {
        let mut listener = tokio::net::TcpListener::from_std(listener)?;
        let service = TowerToHyperService::new(router(Arc::clone(&shared)));
        let mut http = http1::Builder::new();
        // A client that never ends its headers, or sends no further request, loses its connection.
        http.timer(TokioTimer::new()).header_read_timeout(shared.timeout);
        let connections = GracefulShutdown::new();
        while !stop.load(Ordering::Relaxed) {
            let Ok((stream, _)) = timeout(LOOK, Listener::accept(&mut listener)).await else {
                continue;
            };
            let connection = http.serve_connection(TokioIo::new(stream), service.clone());
            let connection = connections.watch(connection);
            // Its error is that of a client that has gone, or was too slow.
            tokio::spawn(async { drop(connection.await) });
        }
        drop(listener);
        shared.queue.close();
        // A client that sends nothing more does not hold the end up.
        let _ = timeout(shared.timeout, connections.shutdown()).await;
        Ok(())
    });
    runtime.shutdown_timeout(LOOK);
    served
}
