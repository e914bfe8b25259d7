//! Reading over HTTP from servers that fail, stall, cut, change and forget.

use std::io::Read;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use gimlet::storage::{Path, StorageError};
use gimlet::vocab::{SentencePieceVocabulary, VocabularySpec};

use super::server::{Ending, Reply, Request, Server};
use super::{PART, environment, noise, path, suite};

/// A server of one file, and its bytes.
fn serving(
    length: usize,
    answer: impl Fn(usize, &Request, &[u8]) -> Reply + Send + Sync + 'static,
) -> (Server, Arc<Vec<u8>>) {
    let bytes = Arc::new(noise(length));
    let (file, count) = (bytes.clone(), AtomicUsize::new(0));
    let server = Server::start(move |request| answer(count.fetch_add(1, SeqCst), request, &file));
    (server, bytes)
}

fn read_all(path: &Path) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    path.open()?.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The message of reading a file to its end.
fn failure(server: &Server) -> String {
    read_all(&path(&server.url("/f"))).unwrap_err().to_string()
}

#[test]
fn the_web_reads_as_all_places_do() {
    let large = Arc::new(noise(7 * PART + 5));
    let held = large.clone();
    let server = Server::start(move |request| {
        let name = request.target.strip_prefix("/root/").unwrap_or_default();
        let small = suite::READ_ONLY.into_iter().find(|(known, _)| *known == name);
        let bytes = match (small, name) {
            (Some((_, bytes)), _) => bytes,
            (None, "large") => &held[..],
            (None, _) => return Reply::status(404),
        };
        Reply::file(request, bytes).with("Last-Modified", "Sun, 06 Nov 1994 08:49:37 GMT")
    });
    suite::check_reading(&server.url("/root"), &large);
}

#[test]
fn a_small_file_takes_one_request() {
    let (server, bytes) = serving(1000, |_, request, file| Reply::file(request, file));
    let file = path(&server.url("/f"));
    assert_eq!(file.read().unwrap(), *bytes);
    assert_eq!(server.requests().len(), 1);
    assert_eq!(file.size().unwrap(), 1000);
    assert!(file.exists().unwrap() && !file.is_dir().unwrap());
}

#[test]
fn a_large_file_is_read_by_ranges_each_byte_once() {
    let (server, bytes) = serving(10 * PART + 7, |_, request, file| Reply::file(request, file));
    assert_eq!(read_all(&path(&server.url("/f"))).unwrap(), *bytes);
    let mut ranges: Vec<_> = server.requests().iter().map(|r| r.range().unwrap()).collect();
    ranges.sort_unstable();
    let parts = (0..11).map(|part| (part * PART, ((part + 1) * PART).min(bytes.len()) - 1));
    let mut parts: Vec<_> = parts.collect();
    // The first request does not know the size yet.
    parts[0].1 = PART - 1;
    assert_eq!(ranges, parts);
}

#[test]
fn an_empty_file_and_one_read_from_its_end_are_empty() {
    let (server, _) = serving(0, |_, request, file| Reply::file(request, file));
    assert_eq!(path(&server.url("/f")).read().unwrap(), b"");
    let (server, _) = serving(10, |_, request, file| Reply::file(request, file));
    let mut bytes = Vec::new();
    path(&server.url("/f")).open_at(10).unwrap().read_to_end(&mut bytes).unwrap();
    assert_eq!(bytes, b"");
}

#[test]
fn a_file_opened_at_an_offset_is_not_fetched_before_it() {
    let (server, bytes) = serving(5 * PART, |_, request, file| Reply::file(request, file));
    let at = 3 * PART + 11;
    let mut rest = Vec::new();
    let file = path(&server.url("/f"));
    file.open_at(at as u64).unwrap().read_to_end(&mut rest).unwrap();
    assert_eq!(rest, bytes[at..]);
    assert!(server.requests().iter().all(|request| request.range().unwrap().0 >= at));
}

#[test]
fn a_reader_that_stops_early_fetches_no_more() {
    let (server, bytes) = serving(50 * PART, |_, request, file| Reply::file(request, file));
    let mut file = path(&server.url("/f")).open().unwrap();
    let mut start = [0; 100];
    file.read_exact(&mut start).unwrap();
    assert_eq!(start, bytes[..100]);
    assert_eq!(server.requests().len(), 1);
}

#[test]
fn servers_without_ranges_are_read_as_well() {
    let (server, bytes) = serving(3 * PART, |count, _, file| match count {
        // Cut once: the second time, the bytes read before are skipped.
        0 => Reply::ok(file).ending(Ending::CutAfter(PART + 5)),
        _ => Reply::ok(file),
    });
    assert_eq!(read_all(&path(&server.url("/f"))).unwrap(), *bytes);
    let mut rest = Vec::new();
    let file = path(&server.url("/f"));
    file.open_at(2 * PART as u64).unwrap().read_to_end(&mut rest).unwrap();
    assert_eq!(rest, bytes[2 * PART..]);
}

#[test]
fn a_cut_transfer_goes_on_at_the_byte_where_it_was_cut() {
    let (server, bytes) = serving(PART, |_, request, file| {
        Reply::file(request, file).ending(Ending::CutAfter(10_000))
    });
    assert_eq!(read_all(&path(&server.url("/f"))).unwrap(), *bytes);
    let starts: Vec<_> = server.requests().iter().map(|r| r.range().unwrap().0).collect();
    assert_eq!(starts, [0, 10_000, 20_000, 30_000, 40_000, 50_000, 60_000]);
}

#[test]
fn a_stalled_transfer_is_asked_for_anew() {
    let (server, bytes) = serving(3 * PART, |count, request, file| {
        let reply = Reply::file(request, file);
        if count == 0 { reply.ending(Ending::StallAfter(1000)) } else { reply }
    });
    assert_eq!(read_all(&path(&server.url("/f"))).unwrap(), *bytes);
}

#[test]
fn a_server_that_never_moves_is_given_up_with_byte_and_count() {
    let (server, _) = serving(PART, |count, request, file| match count {
        0 => Reply::file(request, file).ending(Ending::CutAfter(1000)),
        _ => Reply::file(request, file).ending(Ending::CutAfter(0)),
    });
    let message = failure(&server);
    assert!(message.starts_with("cannot read byte 1000 of `http://127.0.0.1"), "{message}");
    assert!(message.contains("after 4 tries"), "{message}");
}

#[test]
fn busy_servers_are_asked_again() {
    for status in [500, 503, 429] {
        let (server, bytes) = serving(1000, move |count, request, file| match count {
            0..3 => Reply::status(status),
            _ => Reply::file(request, file),
        });
        assert_eq!(path(&server.url("/f")).read().unwrap(), *bytes);
        assert_eq!(server.requests().len(), 4);
    }
}

#[test]
fn a_server_that_only_fails_is_named_with_its_answer() {
    let (server, _) = serving(0, |_, _, _| Reply::status(503));
    let message = failure(&server);
    assert!(message.contains("the server answered 503 unavailable, after 4 tries"), "{message}");
    assert!(message.contains(&server.url("/f")), "{message}");
}

#[test]
fn whichever_request_fails_no_byte_is_lost() {
    for failing in 0..8 {
        let faults: [fn(Reply) -> Reply; 4] = [
            |_| Reply::status(500),
            |reply| reply.ending(Ending::Silence),
            |reply| reply.ending(Ending::CutAfter(0)),
            |reply| reply.ending(Ending::CutAfter(1)),
        ];
        for (index, fault) in faults.into_iter().enumerate() {
            let (server, bytes) = serving(6 * PART + 7, move |count, request, file| {
                let reply = Reply::file(request, file);
                if count == failing { fault(reply) } else { reply }
            });
            let read = read_all(&path(&server.url("/f"))).unwrap();
            assert!(read == *bytes, "fault {index} at request {failing}");
        }
    }
}

#[test]
fn what_cannot_get_better_is_told_at_once() {
    for (status, words) in [(404, "not found"), (403, "access denied"), (400, "400 bad request")] {
        let (server, _) = serving(0, move |_, _, _| Reply::status(status));
        let message = failure(&server);
        assert!(message.contains(words), "{message}");
        assert_eq!(server.requests().len(), 1, "{status}");
    }
}

#[test]
fn a_file_that_changes_while_it_is_read_is_never_mixed() {
    let (server, bytes) = serving(20 * PART, |count, request, file| match count {
        0 => Reply::file(request, file).with("ETag", "\"old\""),
        _ => Reply::file(request, &vec![0; file.len()]).with("ETag", "\"new\""),
    });
    let mut read = Vec::new();
    let mut file = path(&server.url("/f")).open().unwrap();
    let error = file.read_to_end(&mut read).unwrap_err();
    assert_eq!(read, bytes[..read.len()]);
    let error = error.downcast::<StorageError>().unwrap();
    let message = error.to_string();
    assert!(matches!(error, StorageError::Changed { offset, .. } if offset == PART as u64));
    assert!(message.contains(&server.url("/f")) && message.contains("was changed"), "{message}");
}

#[test]
fn size_and_time_tell_a_change_as_well() {
    let check = |change: fn(&Request, &[u8]) -> Reply| {
        let (server, _) = serving(20 * PART, move |count, request, file| match count {
            0 => Reply::file(request, file).with("Last-Modified", "Sun, 06 Nov 1994 08:49:37 GMT"),
            _ => change(request, file),
        });
        let message = failure(&server);
        assert!(message.contains("was changed"), "{message}");
    };
    check(|request, file| Reply::file(request, &file[1..]));
    check(|request, file| {
        Reply::file(request, file).with("Last-Modified", "Sun, 06 Nov 1994 08:49:38 GMT")
    });
    // Cut short to before the next part.
    check(|request, file| Reply::file(request, &file[..10]));
}

#[test]
fn a_file_that_vanishes_while_it_is_read_is_named_with_the_byte() {
    let (server, _) = serving(20 * PART, |count, request, file| match count {
        0 => Reply::file(request, file),
        _ => Reply::status(404),
    });
    let message = failure(&server);
    assert!(message.contains(&format!("at byte {PART}: it was removed")), "{message}");
}

#[test]
fn ranges_are_fetched_alone_and_of_one_state() {
    let (server, bytes) = serving(10 * PART, |count, request, file| match count {
        0..5 => Reply::file(request, file).with("ETag", "\"a\""),
        _ => Reply::file(request, file).with("ETag", "\"b\""),
    });
    let url = path(&server.url("/f"));
    let file = url.open_ranges().unwrap();
    let end = file.size();
    assert_eq!(end, bytes.len() as u64);
    let long = PART as u64 - 10..2 * PART as u64 + 5;
    let ranges = [end - 8..end, 5..9, long.clone()];
    for (range, read) in ranges.iter().zip(file.read_all(&ranges).unwrap()) {
        assert_eq!(read, bytes[range.start as usize..range.end as usize]);
    }
    // One request for its size, two for small ranges, two for parts of the long one.
    assert_eq!(server.requests().len(), 5);
    assert!(matches!(file.read(0..4).unwrap_err(), StorageError::Changed { .. }));
    assert_eq!(url.read_range(3..6).unwrap(), bytes[3..6]);
    let message = url.read_range(end - 2..end + 9).unwrap_err().to_string();
    assert!(message.contains(&format!("2 of the 11 bytes from byte {} on", end - 2)), "{message}");
    let message = url.read_range(end + 1..end + 2).unwrap_err().to_string();
    assert!(message.contains("0 of the 1 bytes"), "{message}");
    assert_eq!(url.read_range(long.clone()).unwrap(), bytes[PART - 10..2 * PART + 5]);
}

#[test]
fn reading_ahead_is_bounded() {
    let (server, bytes) = serving(60 * PART, |_, request, file| Reply::file(request, file));
    let mut file = path(&server.url("/f")).open().unwrap();
    let mut half = vec![0; 30 * PART];
    file.read_exact(&mut half).unwrap();
    assert!(half == bytes[..30 * PART]);
    // Thirty parts, and four ahead of the one being read.
    assert!(server.requests().len() <= 35);
    let last = server.requests().iter().map(|request| request.range().unwrap().0).max().unwrap();
    assert!((29 * PART..35 * PART).contains(&last), "{last}");
}

#[test]
fn gin_files_are_read_with_what_they_include() {
    let server = Server::start(|request| match request.target.as_str() {
        "/runs/run.gin" => Reply::ok("include 'sizes.gin'\nSTEPS = 3\n"),
        "/runs/sizes.gin" => Reply::ok("SIZE = 7\n"),
        _ => Reply::status(404),
    });
    super::limits();
    let load = |file: &str| {
        let files = vec![server.url(file)];
        let request = gimlet::gin::Request { files, ..Default::default() };
        gimlet::gin::load(&request, &gimlet::run::Library, &gimlet::run::registry())
    };
    let loaded = load("/runs/run.gin").map_err(|error| error.render(false)).unwrap();
    let names: Vec<_> = loaded.sources.files().map(|(_, file)| file.name.clone()).collect();
    assert_eq!(names, [server.url("/runs/run.gin"), server.url("/runs/sizes.gin")]);
    let message = load("/runs/none.gin").unwrap_err().render(false);
    assert!(message.contains("there is no gin file `http://127.0.0.1"), "{message}");
}

#[test]
fn vocabularies_are_read_from_the_web() {
    let model =
        concat!(env!("CARGO_MANIFEST_DIR"), "/tests/pipeline/data/reference/sentencepiece.model");
    let bytes = std::fs::read(model).unwrap();
    let server = Server::start(move |request| Reply::file(request, &bytes));
    super::limits();
    let ids = |file: String| {
        let spec = SentencePieceVocabulary {
            sentencepiece_model_file: file,
            extra_ids: 0,
            reverse_extra_ids: true,
            normalizer_spec_overrides: None,
        };
        let mut ids = Vec::new();
        let vocabulary = VocabularySpec::SentencePiece(spec).build().unwrap();
        vocabulary.encode_into("the house of the sun", &mut ids);
        ids
    };
    let found = ids(server.url("/sentencepiece.model"));
    assert!(found.len() > 3);
    assert_eq!(found, ids(model.to_string()));
}

#[test]
fn what_the_web_cannot_do_is_said_with_what_to_do() {
    let (server, _) = serving(10, |_, request, file| Reply::file(request, file));
    let file = path(&server.url("/f"));
    let check = |result: Result<(), StorageError>, words: &str| {
        let message = result.unwrap_err().to_string();
        assert!(message.contains(words), "{message}");
    };
    check(file.write_atomic(b"x"), "it can only be read; write to a folder or a bucket");
    check(file.create().map(drop), "it can only be read");
    check(file.remove_file(), "it can only be read");
    check(file.list().map(drop), "name each file");
    check(Path::glob(&server.url("/*.txt")).map(drop), "name each file");
    // The question mark of a URL is not a wildcard.
    assert_eq!(Path::glob(&server.url("/f?a=b")).unwrap().len(), 1);
    assert_eq!(server.requests().last().unwrap().target, "/f?a=b");
}

#[test]
fn a_server_that_is_not_there_is_named_with_the_way_to_a_local_copy() {
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let message = path(&format!("http://{closed}/f")).read().unwrap_err().to_string();
    assert!(message.contains("no connection"), "{message}");
    assert!(message.contains(&format!("--path_map http://{closed}=DIR")), "{message}");
}

#[test]
fn answers_without_end_are_not_read_to_it() {
    let said = "<Error><Message>no room for you</Message>";
    let (server, _) = serving(0, move |_, _, _| {
        Reply { body: said.into(), ..Reply::status(400) }.ending(Ending::Endless)
    });
    let message = failure(&server);
    assert!(message.contains("answered 400 bad request (no room for you)"), "{message}");
    let server = Server::start(|_| Reply::ok("[").ending(Ending::Endless));
    let _held = environment(&[("HF_ENDPOINT", &server.url(""))]);
    let message = path("hf://datasets/o/n/folder").list().unwrap_err().to_string();
    assert!(message.contains("answered 200 (with more than the 64 MiB"), "{message}");
    assert_eq!(server.requests().len(), 1);
}
