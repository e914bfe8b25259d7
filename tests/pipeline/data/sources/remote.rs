//! A data set of the hub, read over the web.

use std::sync::{Arc, Mutex};

use super::*;
use crate::storage::environment;
use crate::storage::server::{Ending, Reply, Request, Server};

/// The files of the data set `owner/rows`, by what they are copies of.
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
    // The first transfers of data break off.
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
