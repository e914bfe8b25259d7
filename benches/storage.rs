//! Measures reading over a link of 50 MB/s and 20 ms from a server in this process, from front to
//! back: the used share of the link, with ranges fetched ahead and without; and reading from disk
//! through a `Path` compared with a plain `File`. Prints a JSON line for each.
//!
//! ```text
//! cargo bench --no-default-features --bench storage -- --megabytes=200 --rounds=3
//! ```

use std::io::Read;
use std::sync::Arc;
use std::time::{Duration, Instant};

use gimlet::storage::{Limits, Path, set_limits};

#[path = "../tests/pipeline/storage/server.rs"]
#[allow(dead_code, reason = "the tests use the rest")]
mod server;

use server::{Ending, Link, Reply, Server};

const LATENCY: Duration = Duration::from_millis(20);
const BYTES_PER_SECOND: f64 = 50e6;

fn main() {
    let Some(megabytes) = option("megabytes") else {
        // `cargo test --benches` runs this without arguments.
        return;
    };
    let bytes = Arc::new(vec![7; megabytes * 1_000_000]);
    for round in 0..option("rounds").unwrap_or(3) {
        for (name, parts_ahead) in [("ahead", 4), ("one request at a time", 0)] {
            set_limits(Limits { parts_ahead, ..Limits::default() });
            let share = over_link(&bytes);
            println!("{}", serde_json::json!({"round": round, "read": name, "share": share}));
        }
        let [path, file] = from_disk(&bytes);
        println!("{}", serde_json::json!({"round": round, "path_mb_s": path, "file_mb_s": file}));
    }
}

/// `--name=value`.
fn option(name: &str) -> Option<usize> {
    let prefix = format!("--{name}=");
    let value = std::env::args().find_map(|arg| arg.strip_prefix(&prefix).map(str::to_string))?;
    Some(value.parse().expect("a number"))
}

/// Returns the share of the link's speed at which a file is read, including its opening.
fn over_link(bytes: &Arc<Vec<u8>>) -> f64 {
    let (file, link) = (bytes.clone(), Link::new(LATENCY, BYTES_PER_SECOND));
    let server = Server::start(move |request| {
        Reply::file(request, &file).ending(Ending::Over(link.clone()))
    });
    let path = Path::parse(&server.url("/file")).expect("a URL");
    let start = Instant::now();
    let read = drain(&mut path.open().expect("a file"));
    let seconds = start.elapsed().as_secs_f64();
    assert_eq!(read, bytes.len(), "all arrived");
    bytes.len() as f64 / BYTES_PER_SECOND / seconds
}

/// Returns megabytes a second from a file in the page cache, through a path and without.
fn from_disk(bytes: &[u8]) -> [f64; 2] {
    let file = tempfile::NamedTempFile::new().expect("a temporary file");
    std::fs::write(file.path(), bytes).expect("space");
    let path = Path::try_from(file.path()).expect("UTF-8");
    let speed = |reader: &mut dyn Read| {
        let start = Instant::now();
        let read = drain(reader);
        read as f64 / 1e6 / start.elapsed().as_secs_f64()
    };
    // The best of several, in alternation: disturbances come from elsewhere.
    let mut best = [0.0f64; 2];
    for _ in 0..9 {
        best[0] = best[0].max(speed(&mut path.open().expect("a file")));
        best[1] = best[1].max(speed(&mut std::fs::File::open(file.path()).expect("a file")));
    }
    best
}

/// Reads like a decoder, by 64 KiB.
fn drain(reader: &mut dyn Read) -> usize {
    let mut buffer = vec![0; 64 << 10];
    let mut total = 0;
    loop {
        match reader.read(&mut buffer).expect("no error") {
            0 => return total,
            count => total += count,
        }
    }
}
