//! Buckets: an S3 server that checks signatures, and the same behind a shim as Google's XML API.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::sync::{Arc, Mutex};

use gimlet::storage::{CREDENTIALS, Leased, Path, Takeover};

use super::s3::S3;
use super::server::{Ending, Reply, Request, Server};
use super::{PART, environment, goog_hash, leases, noise, path, suite};

fn s3_server(bucket: &str, keys: Option<(&str, &str)>) -> Server {
    let s3 = Arc::new(S3::new(bucket, keys));
    Server::start(move |request| s3.answer(request))
}

/// Google's XML API is Amazon's with other names of headers; tokens replace signatures, and
/// conditions of writes use the number of an object's generation.
pub(crate) fn google_server(bucket: &str) -> Server {
    let s3 = Arc::new(S3::new(bucket, None));
    let generations = Mutex::new(BTreeMap::<String, u64>::new());
    Server::start(move |request| {
        let mut generations = generations.lock().unwrap();
        let key = request.target.split('?').next().unwrap().to_string();
        let generation = generations.get(&key).copied().unwrap_or(0);
        let expected = request.header("x-goog-if-generation-match");
        if expected.is_some_and(|expected| expected != generation.to_string()) {
            return Reply::status(412);
        }
        let mut request = request.clone();
        let theirs = std::mem::take(&mut request.headers).into_iter();
        request.headers = theirs
            .filter(|(name, _)| name != "authorization")
            .map(|(name, value)| (name.replace("x-goog-", "x-amz-"), value))
            .collect();
        let reply = s3.answer(&request);
        let now = match request.method.as_str() {
            "PUT" => generation + 1,
            "DELETE" => 0,
            _ => generation,
        };
        generations.insert(key, now);
        reply.with("x-goog-generation", &now.to_string())
    })
}

/// The key of an account of that server.
pub(crate) fn google_account(server: &Server) -> String {
    let account = serde_json::json!({
        "gcs_base_url": server.url(""),
        "disable_oauth": true,
        "client_email": "",
        "private_key": "",
        "private_key_id": "",
    });
    account.to_string()
}

/// Sets the keys of [`S3`] in the environment.
fn keys(server: &Server) -> std::sync::MutexGuard<'static, ()> {
    environment(&[
        ("AWS_ENDPOINT_URL", &server.url("")),
        ("AWS_ACCESS_KEY_ID", "key"),
        ("AWS_SECRET_ACCESS_KEY", "secret"),
    ])
}

#[test]
fn a_signed_bucket_does_what_all_places_do() {
    let server = s3_server("signed", Some(("key", "secret")));
    let _held = keys(&server);
    suite::check("s3://signed/run");
    let signed = |request: &Request| request.header("authorization").is_some();
    assert!(server.requests().iter().all(signed));
}

#[test]
fn a_bucket_that_is_not_there_is_named_as_such() {
    let server = s3_server("there", Some(("key", "secret")));
    let _held = keys(&server);
    let folder = path("s3://not-there/run");
    for message in
        [folder.list().unwrap_err().to_string(), folder.exists().unwrap_err().to_string()]
    {
        assert!(message.contains("`s3://not-there/run`: there is no such bucket"), "{message}");
    }
}

#[test]
fn keys_of_a_profile_are_those_of_amazons_file() {
    let server = s3_server("profiled", Some(("key", "secret")));
    let file = tempfile::NamedTempFile::new().unwrap();
    let text = "[default]\naws_access_key_id = wrong\n[work]\naws_access_key_id = key\n\
                aws_secret_access_key = secret\n";
    std::fs::write(file.path(), text).unwrap();
    let _held = environment(&[
        ("AWS_ENDPOINT", &server.url("")),
        ("AWS_SHARED_CREDENTIALS_FILE", file.path().to_str().unwrap()),
        ("AWS_PROFILE", "work"),
    ]);
    assert_eq!(path("s3://profiled/public.txt").read().unwrap(), b"for all");
}

#[test]
fn a_file_without_the_profile_in_use_holds_no_credentials() {
    let server = s3_server("unprofiled", None);
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "[work]\naws_access_key_id = key\n").unwrap();
    let name = file.path().to_str().unwrap();
    let variables =
        [("AWS_ENDPOINT_URL", &server.url("")[..]), ("AWS_SHARED_CREDENTIALS_FILE", name)];
    let held = environment(&variables);
    // Otherwise a metadata server would be asked.
    assert_eq!(Path::glob("s3://unprofiled/*.txt").unwrap(), [path("s3://unprofiled/public.txt")]);
    drop(held);
    let _held = environment(&[variables[0], variables[1], ("AWS_PROFILE", "play")]);
    let message = path("s3://unprofiled-too/public.txt").read().unwrap_err().to_string();
    let expected = format!("`play`, but `{name}` has no aws_access_key_id in [play]: add it");
    assert!(message.contains(&expected), "{message}");
}

#[test]
fn wrong_keys_are_refused_at_once_with_where_they_came_from() {
    let server = s3_server("refused", Some(("key", "secret")));
    let _held = environment(&[
        ("AWS_ENDPOINT_URL", &server.url("")),
        ("AWS_ACCESS_KEY_ID", "key"),
        ("AWS_SECRET_ACCESS_KEY", "wrong"),
    ]);
    let message = path("s3://refused/public.txt").read().unwrap_err().to_string();
    assert!(
        message.starts_with("cannot read `s3://refused/public.txt`: access denied"),
        "{message}"
    );
    assert!(message.contains("the credentials in $AWS_ACCESS_KEY_ID do not suffice"), "{message}");
    assert_eq!(server.requests().len(), 1);
}

#[test]
fn public_buckets_are_read_without_credentials_and_without_asking_for_some() {
    let server = s3_server("public", None);
    let _held = environment(&[("AWS_ENDPOINT_URL", &server.url(""))]);
    let file = path("s3://public/public.txt");
    assert_eq!(file.read().unwrap(), b"for all");
    assert_eq!(Path::glob("s3://public/*.txt").unwrap(), std::slice::from_ref(&file));
    let message = file.write_atomic(b"x").unwrap_err().to_string();
    assert!(message.contains("no credentials were found: set $AWS_ACCESS_KEY_ID"), "{message}");
    let signed = |request: &Request| request.header("authorization").is_some();
    assert!(!server.requests().iter().any(signed));
}

#[test]
fn a_bucket_of_google_does_what_all_places_do() {
    let server = google_server("google");
    let _held = environment(&[("GOOGLE_SERVICE_ACCOUNT_KEY", &google_account(&server))]);
    suite::check("gs://google/run");

    let folder = path("gs://google/leased");
    let Leased::Held(held) = folder.lease(Takeover::No).unwrap() else { panic!("it is free") };
    assert!(matches!(folder.lease(Takeover::No).unwrap(), Leased::Busy(_)));
    leases::write_foreign(&folder, 0.0);
    leases::eventually("lost", || held.is_lost());
}

#[test]
fn a_whole_file_is_compared_with_the_sum_that_google_keeps() {
    let bytes = noise(3 * PART + 5);
    let sent = bytes.clone();
    let server = Server::start(move |request| {
        let mut body = sent.clone();
        body[PART] ^= u8::from(request.target.contains("damaged"));
        let reply = Reply::file(request, &body).with("x-goog-hash", &goog_hash(&sent));
        let reply = reply.with("Last-Modified", "Sun, 06 Nov 1994 08:49:37 GMT");
        let encoding = if request.target.ends_with("expanded") { "gzip" } else { "identity" };
        reply.with("ETag", "\"1\"").with("x-goog-stored-content-encoding", encoding)
    });
    let _held = environment(&[("STORAGE_EMULATOR_HOST", &server.url(""))]);
    for folder in [path("gs://sums"), path(&server.url("/sums"))] {
        let mut found = Vec::new();
        folder.join("whole").open().unwrap().read_to_end(&mut found).unwrap();
        assert!(found == bytes && folder.join("whole").read().unwrap() == bytes);
        let damaged = folder.join("damaged");
        let message = damaged.read().unwrap_err().to_string();
        let expected = format!("and the store says {:08x}", crc32c::crc32c(&bytes));
        assert!(message.contains(&expected) && message.contains(damaged.as_str()), "{message}");
        // A part has no information about the checksum of the whole.
        assert!(damaged.read_range(0..9).unwrap() == bytes[..9]);
        let mut rest = Vec::new();
        damaged.open_at(PART as u64 + 1).unwrap().read_to_end(&mut rest).unwrap();
        assert!(rest == bytes[PART + 1..]);
        // The checksum is that of the stored bytes, which the store decompresses.
        assert_eq!(folder.join("damaged/expanded").read().unwrap().len(), bytes.len());
    }
}

#[test]
fn an_upload_that_is_damaged_on_the_way_is_refused() {
    let s3 = S3::new("sums", Some(("key", "secret")));
    let server = Server::start(move |request| {
        let mut request = request.clone();
        if request.method == "PUT" && request.target.contains("damaged") {
            let middle = request.body.len() / 2;
            request.body[middle] ^= 1;
        }
        s3.answer(&request)
    });
    let _held = keys(&server);
    // In one request, and in parts.
    for size in [1000, 17 << 20] {
        let bytes = noise(size);
        let send = |name: &str| {
            let file = path("s3://sums").join(name);
            let mut out = file.create().unwrap();
            out.write_all(&bytes).unwrap();
            out.finish().map(|()| file)
        };
        let whole = send("whole").unwrap();
        assert_eq!(whole.size().unwrap(), size as u64);
        let end = size as u64 - 1000;
        assert_eq!(whole.read_range(end..size as u64).unwrap(), bytes[end as usize..]);
        let message = send("damaged").unwrap_err().to_string();
        assert!(message.contains("cannot write `s3://sums/damaged`"), "{message}");
        assert!(!path("s3://sums/damaged").exists().unwrap());
    }
}

#[test]
fn public_buckets_of_google_are_read_without_a_token() {
    let server = google_server("t5-data");
    let _held = environment(&[("STORAGE_EMULATOR_HOST", &server.url(""))]);
    let file = path("gs://t5-data/public.txt");
    assert_eq!(file.read().unwrap(), b"for all");
    assert_eq!(path("gs://t5-data").list().unwrap(), std::slice::from_ref(&file));
    assert!(path("gs://t5-data/none").read().unwrap_err().is_not_found());
    let message = file.create().map(drop).unwrap_err().to_string();
    assert!(message.contains("set $GOOGLE_APPLICATION_CREDENTIALS"), "{message}");
    assert!(server.requests().iter().all(|request| request.header("authorization").is_none()));
}

#[test]
fn a_busy_bucket_is_asked_again_also_for_listings_and_writes() {
    let s3 = Arc::new(S3::new("busy", Some(("key", "secret"))));
    let count = std::sync::atomic::AtomicUsize::new(0);
    let server = Server::start(move |request| {
        match count.fetch_add(1, std::sync::atomic::Ordering::SeqCst) % 2 {
            0 => Reply::status(503),
            _ => s3.answer(request),
        }
    });
    let _held = keys(&server);
    let folder = path("s3://busy/folder");
    folder.join("a").write_atomic(b"1").unwrap();
    assert_eq!(folder.list().unwrap(), [folder.join("a")]);
    assert_eq!(folder.join("a").read().unwrap(), b"1");
    let message = folder.rename(&path("s3://busy/moved")).unwrap_err().to_string();
    assert!(message.contains("buckets rename files, not folders"), "{message}");
    folder.join("a").remove_file().unwrap();
}

#[test]
fn cut_transfers_of_a_bucket_go_on_where_they_were_cut() {
    let s3 = Arc::new(S3::new("cut", Some(("key", "secret"))));
    let server = Server::start(move |request| match request.range() {
        Some(_) => s3.answer(request).ending(Ending::CutAfter(30_000)),
        None => s3.answer(request),
    });
    let _held = keys(&server);
    let (file, bytes) = (path("s3://cut/file"), noise(3 * PART));
    file.write_atomic(&bytes).unwrap();
    assert!(file.read().unwrap() == bytes);
    assert!(file.open_ranges().unwrap().read(5..2 * PART as u64).unwrap() == bytes[5..2 * PART]);
}

#[test]
fn an_object_that_is_replaced_or_removed_while_it_is_read_is_named() {
    let server = s3_server("moving", Some(("key", "secret")));
    let _held = keys(&server);
    let check = |name: &str, change: fn(&Path), words: &str| {
        let file = path("s3://moving").join(name);
        file.write_atomic(&noise(20 * PART)).unwrap();
        let mut reader = file.open().unwrap();
        reader.read_exact(&mut [0; 10]).unwrap();
        change(&file);
        let message = reader.read_to_end(&mut Vec::new()).unwrap_err().to_string();
        assert!(message.contains(words) && message.contains(file.as_str()), "{message}");
    };
    check("replaced", |file| file.write_atomic(&[0; 20 * PART]).unwrap(), "it was changed");
    check("removed", |file| file.remove_file().unwrap(), "it was removed");
}

#[test]
fn a_public_container_of_azure_is_read_without_a_key() {
    let bytes = noise(3 * PART);
    let served = bytes.clone();
    let server = Server::start(move |request| match request.target.as_str() {
        "/container/folder/f" => Reply::file(request, &served)
            .with("ETag", "\"1\"")
            .with("Last-Modified", "Sun, 06 Nov 1994 08:49:37 GMT"),
        _ => Reply::status(404),
    });
    let _held = environment(&[
        ("AZURE_STORAGE_ACCOUNT_NAME", "account"),
        ("AZURE_STORAGE_ENDPOINT", &server.url("")),
    ]);
    assert!(path("az://container/folder/f").read().unwrap() == bytes);
    assert!(path("az://container/folder/none").read().unwrap_err().is_not_found());
    assert!(server.requests().iter().all(|request| request.header("authorization").is_none()));
}

#[test]
fn an_azure_container_needs_its_account() {
    let _held = environment(&[]);
    let message = path("az://elsewhere/f").read().unwrap_err().to_string();
    assert!(message.contains("set $AZURE_STORAGE_ACCOUNT_NAME"), "{message}");
}

/// Runs in a separate process: the variable would disconnect other tests from their servers.
#[test]
fn no_network_is_touched_where_the_user_says_so() {
    let server = s3_server("offline", None);
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_gimlet"))
        .args(["gin", "check", "--gin_file=s3://offline/public.txt"])
        .env("AWS_ENDPOINT_URL", server.url(""))
        .env("GIMLET_OFFLINE", "1")
        .output()
        .unwrap();
    let message = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success());
    assert!(message.contains("--path_map s3://offline=DIR"), "{message}");
    assert!(server.requests().is_empty());
}

#[test]
fn credentials_are_named_by_their_place() {
    let home = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(home.path().join(".aws")).unwrap();
    let keys = "[default]\naws_access_key_id = key\naws_secret_access_key = secret\n";
    std::fs::write(home.path().join(".aws/credentials"), keys).unwrap();
    let _held = environment(&[("HOME", home.path().to_str().unwrap()), ("HF_TOKEN", "secret")]);
    let found: Vec<_> = CREDENTIALS.iter().map(|credentials| credentials.found()).collect();
    let file = home.path().join(".aws/credentials").display().to_string();
    assert_eq!(found, [None, Some(file), None, Some("$HF_TOKEN".to_string())]);
}
