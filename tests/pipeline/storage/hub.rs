//! The hub's layout: listings in pages, data behind redirects, tokens that are sent to the hub
//! only.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use gimlet::storage::Path;

use super::server::{Reply, Request, Server};
use super::{environment, noise, path};

const FILES: [&str; 5] = [
    "README.md",
    "data/train-00000.jsonl",
    "data/train-00001.jsonl",
    "data/ü b.jsonl",
    "en/deep/x.txt",
];

/// A hub with one data set `owner/name` of [`FILES`], each holding its own name, in pages of two.
fn hub() -> Server {
    let address = Arc::new(OnceLock::<String>::new());
    let own = address.clone();
    let server = Server::start(move |request| answer(request, own.get().unwrap()));
    address.set(server.url("")).unwrap();
    server
}

/// Returns a hub that copies another's answers, with its links.
fn mirror(original: &'static str) -> Server {
    Server::start(move |request| answer(request, original))
}

fn answer(request: &Request, own: &str) -> Reply {
    let (target, query) = request.target.split_once('?').unwrap_or((&request.target, ""));
    let decoded = percent_encoding::percent_decode_str(target).decode_utf8().unwrap();
    if let Some(rest) = decoded.strip_prefix("/api/datasets/owner/name/tree/main") {
        return tree(rest.trim_start_matches('/'), query, target, own);
    }
    let data = ["/datasets/owner/name/resolve/main/", "/datasets/old/resolve/main/"];
    if let Some(file) = data.iter().find_map(|prefix| decoded.strip_prefix(prefix)) {
        return match FILES.contains(&file) {
            true => Reply::file(request, file.as_bytes()).with("ETag", "\"1\""),
            false => Reply::status(404).with("X-Error-Message", "Entry not found"),
        };
    }
    match &*decoded {
        "/api/datasets/old" => Reply::ok("{}"),
        closed if closed.contains("owner/gated") => Reply::status(403)
            .with("X-Error-Message", "Access to dataset owner/gated is restricted"),
        _ => Reply::status(401).with("X-Error-Message", "Repository not found"),
    }
}

/// A page of a folder's entries.
fn tree(folder: &str, query: &str, target: &str, own: &str) -> Reply {
    let prefix = if folder.is_empty() { String::new() } else { format!("{folder}/") };
    let recursive = query.contains("recursive=true");
    let mut entries = std::collections::BTreeMap::new();
    for file in FILES.iter().filter(|file| file.starts_with(&prefix)) {
        let below = &file[prefix.len()..];
        if let Some((folder, _)) = below.split_once('/') {
            entries.insert(format!("{prefix}{folder}"), "directory");
        }
        if recursive || !below.contains('/') {
            entries.insert(file.to_string(), "file");
        }
    }
    if entries.is_empty() {
        return Reply::status(404);
    }
    let start: usize = query.rsplit_once("cursor=").map_or(0, |(_, at)| at.parse().unwrap());
    let page: Vec<_> = (entries.iter().skip(start).take(2))
        .map(|(path, kind)| serde_json::json!({"type": kind, "path": path, "size": path.len(), "oid": "0"}))
        .collect();
    let reply = Reply::ok(serde_json::to_vec(&page).unwrap());
    match start + 2 < entries.len() {
        true => {
            let next = format!("<{own}{target}?recursive={recursive}&cursor={}>", start + 2);
            reply.with("Link", &format!("{next}; rel=\"next\""))
        }
        false => reply,
    }
}

#[test]
fn folders_are_listed_over_all_pages() {
    let hub = hub();
    let _held = environment(&[("HF_ENDPOINT", &hub.url("/"))]);
    let root = path("hf://datasets/owner/name");
    let names: Vec<_> =
        root.list().unwrap().iter().map(|path| path.file_name().to_string()).collect();
    assert_eq!(names, ["README.md", "data", "en"]);
    assert_eq!(root.walk().unwrap(), FILES.map(|file| root.join(file)));
    assert!(root.is_dir().unwrap() && root.join("en/deep").exists().unwrap());
    assert!(!root.join("data/none").exists().unwrap());
    assert!(root.join("none").list().unwrap_err().is_not_found());
    assert!(hub.requests().iter().all(|request| request.header("authorization").is_none()));
}

#[test]
fn all_pages_are_asked_of_a_mirror_whatever_its_links_say() {
    let mirror = mirror("http://127.0.0.1:1");
    let _held = environment(&[("HF_ENDPOINT", &mirror.url("")), ("HF_TOKEN", "hf_secret")]);
    assert_eq!(path("hf://datasets/owner/name").walk().unwrap().len(), FILES.len());
}

#[test]
fn globs_find_the_files_of_a_split() {
    let hub = hub();
    let _held = environment(&[("HF_ENDPOINT", &hub.url(""))]);
    let root = path("hf://datasets/owner/name@main");
    let found = Path::glob("hf://datasets/owner/name@main/data/train-*.jsonl").unwrap();
    assert_eq!(found, [root.join(FILES[1]), root.join(FILES[2])]);
    assert_eq!(
        Path::glob("hf://datasets/owner/name@main/**/*.txt").unwrap(),
        [root.join(FILES[4])]
    );
    assert_eq!(found[0].read().unwrap(), FILES[1].as_bytes());
    assert_eq!(root.join("data/ü b.jsonl").read().unwrap(), FILES[3].as_bytes());
}

#[test]
fn the_token_goes_to_the_hub_and_not_to_where_it_sends_us() {
    let bytes = Arc::new(noise(200_000));
    let served = bytes.clone();
    let store = Server::start(move |request| Reply::file(request, &served));
    let elsewhere = store.url("/signed?key=1");
    let hub = Server::start(move |_| Reply::status(302).with("Location", &elsewhere));
    let home = tempfile::tempdir().unwrap();
    std::fs::write(home.path().join("token"), "hf_secret\n").unwrap();
    let _held =
        environment(&[("HF_ENDPOINT", &hub.url("")), ("HF_HOME", home.path().to_str().unwrap())]);
    let file = path("hf://owner/redirected/model.bin");
    assert_eq!(file.read().unwrap(), *bytes);
    let asked = hub.requests();
    assert_eq!(asked[0].target, "/owner/redirected/resolve/main/model.bin");
    assert!(
        asked.iter().all(|request| request.header("authorization") == Some("Bearer hf_secret"))
    );
    assert!(store.requests().iter().all(|request| request.header("authorization").is_none()));
}

#[test]
fn gated_and_private_data_name_the_token_to_set() {
    let hub = hub();
    let _held = environment(&[("HF_ENDPOINT", &hub.url(""))]);
    let check = |path: Path, words: &[&str]| {
        let message = path.read().unwrap_err().to_string();
        assert!(words.iter().all(|word| message.contains(word)), "{message}");
    };
    check(
        path("hf://datasets/owner/gated/a"),
        &["gated or private", "Access to dataset owner/gated is restricted", "set $HF_TOKEN"],
    );
    check(path("hf://datasets/owner/private/a"), &["does not exist (Repository not found)"]);
    check(path("hf://datasets/owner/name/none"), &["not found; check the spelling"]);
}

#[test]
fn the_hub_is_left_alone_where_its_own_variable_says_so() {
    let hub = hub();
    let _held = environment(&[("HF_ENDPOINT", &hub.url("")), ("HF_HUB_OFFLINE", "1")]);
    let message = path("hf://datasets/owner/name/README.md").read().unwrap_err().to_string();
    assert!(message.contains("--path_map hf://datasets/owner/name=DIR"), "{message}");
    assert!(hub.requests().is_empty());
}

#[test]
fn data_sets_of_old_names_have_no_owner() {
    let hub = hub();
    let _held = environment(&[("HF_ENDPOINT", &hub.url(""))]);
    assert_eq!(
        path("hf://datasets/old/data/train-00000.jsonl").read().unwrap(),
        FILES[1].as_bytes()
    );
    let named = path("hf://datasets/old@main/en/deep/x.txt");
    assert_eq!(named.read().unwrap(), FILES[4].as_bytes());
}

#[test]
fn a_question_without_an_answer_is_asked_again() {
    let is_down = Arc::new(AtomicBool::new(true));
    let down = is_down.clone();
    let hub = Server::start(move |request| match request.target == "/api/datasets/old" {
        true if down.load(Ordering::SeqCst) => Reply::status(503),
        _ => answer(request, ""),
    });
    let _held = environment(&[("HF_ENDPOINT", &hub.url(""))]);
    let file = path("hf://datasets/old/data/train-00000.jsonl");
    let message = file.read().unwrap_err().to_string();
    assert!(message.contains("503") && message.contains("after 4 tries"), "{message}");
    is_down.store(false, Ordering::SeqCst);
    assert_eq!(file.read().unwrap(), FILES[1].as_bytes());
}
