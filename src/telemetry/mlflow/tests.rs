//! A run against a small server on this machine that answers as MLflow does.

#![cfg(test)]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};

use serde_json::{Value, json};

use super::*;

const QUICK: Patience = Patience {
    first_pause: Duration::from_millis(5),
    longest_pause: Duration::from_millis(20),
    last_wait: Duration::from_secs(20),
};

/// A server that passes on what it is asked, `(path, body)`.
struct Server {
    uri: String,
    asked: Receiver<(String, Value)>,
}

impl Server {
    /// Starts a server that fails so many requests first.
    fn start(num_failures: usize) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let uri = format!("http://{}", listener.local_addr().unwrap());
        let (sender, asked) = channel();
        let failures = AtomicUsize::new(num_failures);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                answer(stream.unwrap(), &sender, &failures);
            }
        });
        Self { uri, asked }
    }

    fn settings(&self) -> MlflowSettings {
        let uri = Some(&*self.uri);
        MlflowSettings::resolve(uri, Some("my experiment"), Some("my run")).ok().unwrap()
    }

    /// Returns the requests so far, in their order.
    fn asked(&self) -> Vec<(String, Value)> {
        self.asked.try_iter().collect()
    }
}

fn answer(stream: TcpStream, asked: &Sender<(String, Value)>, failures: &AtomicUsize) {
    let mut reader = BufReader::new(stream);
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).unwrap() == 0 {
            return;
        }
        if line.trim().is_empty() {
            break;
        }
        lines.push(line.to_ascii_lowercase());
    }
    let length = lines.iter().find_map(|line| line.strip_prefix("content-length:"));
    let mut body = vec![0; length.map_or(0, |length| length.trim().parse().unwrap())];
    reader.read_exact(&mut body).unwrap();
    let path = lines[0].split(' ').nth(1).unwrap().replace("/api/2.0/mlflow/", "");
    let fails = failures
        .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1))
        .is_ok();
    let (status, answer) = match path.split('?').next().unwrap() {
        _ if fails => (503, json!({})),
        "experiments/get-by-name" => (404, json!({"error_code": "RESOURCE_DOES_NOT_EXIST"})),
        "experiments/create" => (200, json!({"experiment_id": "7"})),
        "runs/create" => (200, json!({"run": {"info": {"run_id": "abc"}}})),
        _ => (200, json!({})),
    };
    if !fails {
        let body = serde_json::from_slice(&body).unwrap_or_default();
        asked.send((path, body)).unwrap();
    }
    let answer = answer.to_string();
    let length = answer.len();
    let head =
        format!("HTTP/1.1 {status} x\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n");
    reader.into_inner().write_all((head + &answer).as_bytes()).unwrap();
}

fn scratch() -> (tempfile::TempDir, Path) {
    let dir = tempfile::tempdir().unwrap();
    let path = Path::try_from(dir.path()).unwrap();
    (dir, path)
}

fn paths(asked: &[(String, Value)]) -> Vec<&str> {
    asked.iter().map(|(path, _)| path.as_str()).collect()
}

#[test]
fn numbers_arrive_although_the_server_fails_at_first() {
    let (_scratch, dir) = scratch();
    let server = Server::start(4);
    let run = MlflowRun::start(&dir, &server.settings(), QUICK);
    run.describe(&[("TRAIN_STEPS".to_string(), "40".to_string())].into());
    run.log(10, [("train/loss", 2.5), ("train/{odd}", f64::NAN)]);
    run.end_as(MlflowStatus::Killed);
    drop(run);
    let asked = server.asked();
    assert_eq!(
        paths(&asked),
        [
            "experiments/get-by-name?experiment_name=my%20experiment",
            "experiments/create",
            "runs/create",
            "runs/log-batch",
            "runs/log-batch",
            "runs/update",
        ]
    );
    assert_eq!(asked[2].1["run_name"], "my run");
    assert_eq!(asked[3].1["params"], json!([{"key": "TRAIN_STEPS", "value": "40"}]));
    let metrics = asked[4].1["metrics"].as_array().unwrap();
    assert_eq!(
        (&metrics[0]["key"], &metrics[0]["value"], &metrics[0]["step"]),
        (&json!("train/loss"), &json!(2.5), &json!(10))
    );
    assert_eq!((&metrics[1]["key"], &metrics[1]["value"]), (&json!("train/_odd_"), &json!("NaN")));
    assert_eq!(asked[5].1["status"], "KILLED");
}

#[test]
fn a_run_that_continues_in_its_folder_continues_mlflow_s() {
    let (_scratch, dir) = scratch();
    let server = Server::start(0);
    MlflowRun::start(&dir, &server.settings(), QUICK).log(10, [("loss", 2.0)]);
    assert!(paths(&server.asked()).contains(&"runs/create"));
    MlflowRun::start(&dir, &server.settings(), QUICK).log(20, [("loss", 1.0)]);
    let asked = server.asked();
    assert_eq!(paths(&asked), ["runs/update", "runs/log-batch", "runs/update"]);
    assert!(asked.iter().all(|(_, body)| body["run_id"] == "abc"));
    assert_eq!(
        (&asked[0].1["status"], &asked[2].1["status"]),
        (&json!("RUNNING"), &json!("FINISHED"))
    );
}

#[test]
fn everything_that_logs_into_a_folder_shares_a_run() {
    let (_scratch, dir) = scratch();
    let server = Server::start(0);
    let (one, other) =
        (MlflowRun::of(&dir, &server.settings()), MlflowRun::of(&dir, &server.settings()));
    assert!(Arc::ptr_eq(&one, &other));
    drop((one, other));
    assert_eq!(server.asked(), []);
}

#[test]
fn a_server_that_is_away_holds_up_nothing() {
    let (_scratch, dir) = scratch();
    let away = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let uri = format!("http://{away}");
    let settings = MlflowSettings::resolve(Some(&uri), None, None).ok().unwrap();
    let patience = Patience { last_wait: Duration::from_millis(20), ..QUICK };
    let run = MlflowRun::start(&dir, &settings, patience);
    // More than the buffer keeps.
    for step in 0..300 {
        run.log(step, (0..1000).map(|metric| (metric.to_string(), 1.0)));
    }
    drop(run);
    assert_eq!(dir.list().unwrap(), []);
}
