//! A data set of the hub, read over the web.

use std::sync::{Arc, Mutex};

use super::*;
use crate::storage::environment;
use crate::storage::server::{Ending, Reply, Request, Server};

/// The files of the data set `owner/rows`, with the files from which they are copied.
const FILES: [(&str, &str); 3] = [
    ("README.md", ""),
    ("data/train-00000-of-00001.parquet", "rows.parquet"),
    ("lines/test.json", "array.json"),
];

fn bytes_of(copied: &str) -> Vec<u8> {
    match copied {
        "" => b"---\nlicense: mit\n---\n".to_vec(),
        name => std::fs::read(folder().join(name)).unwrap(),
    }
}

fn answer(request: &Request, cut: &Mutex<usize>) -> Reply {
    let target = request.target.split('?').next().unwrap();
    if let Some(folder) = target.strip_prefix("/api/datasets/owner/rows/tree/main") {
        let prefix = format!("{}/", folder.trim_start_matches('/'));
        let prefix = if prefix == "/" { "" } else { &prefix };
        let recursive = request.target.contains("recursive=true");
        let mut entries = Vec::new();
        for (file, copied) in FILES.iter().filter(|(file, _)| file.starts_with(prefix)) {
            let entry = |kind: &str, path: &str, size: usize| serde_json::json!({"type": kind, "path": path, "size": size, "oid": "0"});
            match file[prefix.len()..].split_once('/') {
                Some((folder, _)) if !recursive => {
                    entries.push(entry("directory", &format!("{prefix}{folder}"), 0));
                }
                _ => entries.push(entry("file", file, bytes_of(copied).len())),
            }
        }
        return Reply::ok(serde_json::to_vec(&entries).unwrap());
    }
    let file = target.strip_prefix("/datasets/owner/rows/resolve/main/");
    let found = FILES.iter().find(|(name, _)| Some(*name) == file);
    let Some((name, copied)) = found else { return Reply::status(404) };
    let reply = Reply::file(request, &bytes_of(copied)).with("ETag", "\"1\"");
    // The first transfers of data break.
    let mut left = cut.lock().unwrap();
    if *left > 0 && *name != "README.md" && request.method == "GET" {
        *left -= 1;
        let half = reply.body.len() / 2;
        return reply.ending(Ending::CutAfter(half));
    }
    reply
}

#[test]
fn the_hub_is_read_by_ranges_and_cut_transfers_go_on() {
    let cut = Arc::new(Mutex::new(2));
    let server = Server::start(move |request| answer(request, &cut));
    let endpoint = server.url("");
    let _held = environment(&[("HF_ENDPOINT", endpoint.trim_end_matches('/'))]);
    let reference = reference_json("sources.json");
    let train = task_over("HuggingFaceDataSource", &[("path", "'owner/rows'")]);
    check(&train, &reference["rows"]);
    let lines = [("path", "'owner/rows'"), ("data_files", "{'train': 'lines/*.json'}")];
    check(&task_over("HuggingFaceDataSource", &lines), &reference["json"]);
    check_error(&train, "validation", &["`it` has no split 'validation'"]);
}

/// Returns a hub of small data sets: a text for each file, by `OWNER/NAME/FILE`.
fn hub_of(files: Vec<(String, Vec<u8>)>) -> Server {
    Server::start(move |request| {
        let target = request.target.split('?').next().unwrap();
        if let Some(folder) = target.strip_prefix("/api/datasets/") {
            let prefix = format!("{}/", folder.replace("/tree/main", ""));
            // `OWNER` alone would be a data set of an old name.
            let is_known = prefix.matches('/').count() > 1;
            return if is_known { listing(&files, &prefix) } else { Reply::status(404) };
        }
        let file = target.strip_prefix("/datasets/").map(|file| file.replace("/resolve/main", ""));
        let found = files.iter().find(|(name, _)| Some(name) == file.as_ref());
        match found {
            Some((_, bytes)) => Reply::file(request, bytes).with("ETag", "\"1\""),
            None => Reply::status(404).with("X-Error-Message", "Entry not found"),
        }
    })
}

/// Returns the entries of a folder, whose paths begin after `OWNER/NAME/`.
fn listing(files: &[(String, Vec<u8>)], prefix: &str) -> Reply {
    let mut entries = std::collections::BTreeMap::new();
    for (file, bytes) in files {
        let Some(below) = file.strip_prefix(prefix) else { continue };
        let (name, kind) = match below.split_once('/') {
            Some((folder, _)) => (folder, "directory"),
            None => (below, "file"),
        };
        let path = format!("{prefix}{name}").splitn(3, '/').nth(2).unwrap().to_string();
        let entry =
            serde_json::json!({"type": kind, "path": path, "size": bytes.len(), "oid": "0"});
        entries.insert(name, entry);
    }
    match entries.is_empty() {
        true => Reply::status(404),
        false => Reply::ok(serde_json::to_vec(&entries.values().collect::<Vec<_>>()).unwrap()),
    }
}

#[test]
fn a_name_of_tfds_may_stand_for_a_folder_of_the_hub() {
    let line = |name: &str| format!("{{\"text\": \"{name}\"}}\n").into_bytes();
    let rows = std::fs::read(folder().join("rows.parquet")).unwrap();
    let server = hub_of(vec![
        ("owner/c4/en/c4-train.00000.json".to_string(), line("train")),
        ("owner/c4/en/c4-validation.00000.json".to_string(), line("validation")),
        ("owner/c4/rows/train.parquet".to_string(), rows),
    ]);
    let _held = environment(&[("HF_ENDPOINT", &server.url(""))]);
    let map = [("tfds://c4/en:2.2.0", "en"), ("tfds://c4/rows:2.2.0", "rows")]
        .map(|(name, folder)| (name.to_string(), format!("hf://datasets/owner/c4/{folder}")));
    gimlet::storage::set_path_map(map.to_vec()).unwrap();
    let text = task_over("TfdsDataSource", &[("tfds_name", "'c4/en:2.2.0'")]);
    let found = read(&text, &options("validation")).unwrap();
    assert_eq!(serde_json::json!(found), serde_json::json!([{"text": "validation"}]));
    assert_eq!(text.source.num_input_examples("train"), None);
    // Proportional rates ask for this.
    let rows = task_over("TfdsDataSource", &[("tfds_name", "'c4/rows:2.2.0'")]);
    assert_eq!(rows.source.num_input_examples("train"), Some(11));
}

#[test]
fn a_folder_of_the_hub_is_listed_once() {
    let file = |i: usize| (format!("owner/many/data/train_{i}.jsonl"), b"{\"a\": 1}\n".to_vec());
    let server = hub_of((0..201).map(file).collect());
    let _held = environment(&[("HF_ENDPOINT", &server.url(""))]);
    let task = task_over("HuggingFaceDataSource", &[("path", "'owner/many'")]);
    for _ in 0..2 {
        assert_eq!(read(&task, &options("train")).unwrap().len(), 201);
        check_error(&task, "test", &["has no split 'test'; it has 'train'"]);
    }
    let listed = |request: &Request| {
        let target = request.target.split('?').next().unwrap();
        target.ends_with("/tree/main") || target.ends_with("/tree/main/data")
    };
    assert_eq!(server.requests().iter().filter(|request| listed(request)).count(), 2);
}
