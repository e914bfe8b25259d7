//! `gimlet megatron_index`, as a user calls it, compared with the files of the real `preprocess_data.py`
//! (`data/reference/megatron_reference.py`).

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use assert_cmd::Command;
use gimlet::data::{Conversions, DataError, IndexFormat, Indexing, write_indexes};
use gimlet::storage::{Locked, Path as StoragePath};
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};

use crate::child;

/// How often a conversion is killed; this variable sets a greater number.
const KILLS: u64 = 3;
const KILLS_VARIABLE: &str = "GIMLET_TEST_KILLS";
/// Each kill costs up to a second.
const MOST_KILLS: u64 = 100;

/// Microseconds after which a child kills itself, or nothing: then its files cannot grow beyond a limit.
const LIFETIME: &str = "GIMLET_TEST_LIFETIME";
const LIMIT: u64 = 100_000;

fn reference(name: &str) -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/pipeline/data/reference/megatron");
    here.join(name)
}

/// A folder with the texts, their vocabulary as that of a folder of transformers, and more that is not read.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("texts")).unwrap();
    // The real program reads files in the order of `os.listdir`, which was this one.
    for (shard, name) in [("shard_01.jsonl", "a.jsonl"), ("shard_00.jsonl", "b.jsonl")] {
        fs::copy(reference(shard), folder.path().join("texts").join(name)).unwrap();
    }
    fs::copy(reference("vocab.txt"), folder.path().join("vocab.txt")).unwrap();
    fs::write(folder.path().join("texts/notes.txt"), "not JSON").unwrap();
    folder
}

/// Status and standard error of the command, which runs in the folder.
fn run(folder: &tempfile::TempDir, flags: &str) -> (i32, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gimlet"));
    let words = std::iter::once("megatron_index").chain(flags.split_whitespace());
    let output = command.current_dir(folder.path()).args(words).output().unwrap();
    (output.status.code().unwrap(), String::from_utf8(output.stderr).unwrap())
}

#[track_caller]
fn succeeds(folder: &tempfile::TempDir, flags: &str) -> String {
    let (status, error) = run(folder, flags);
    assert_eq!(status, 0, "{error}");
    error
}

#[track_caller]
fn fails(folder: &tempfile::TempDir, flags: &str, expected: &str) {
    let (status, error) = run(folder, flags);
    assert_eq!(status, 2, "{error}");
    assert!(error.contains(expected), "{error}");
}

fn read(folder: &tempfile::TempDir, name: &str) -> Vec<u8> {
    fs::read(folder.path().join(name)).unwrap()
}

const INPUT: &str = "--input texts --split_sentences --output_prefix out";

#[test]
fn files_are_those_of_megatron_byte_for_byte() {
    let folder = folder();
    let dashes = "--input texts --split-sentences --output-prefix out --tokenizer-type BertWordPieceLowerCase \
                  --vocab-file vocab.txt --json-keys text --dataset-impl mmap --log-interval 50";
    let hugging_face =
        format!("{INPUT} --tokenizer_type=HFTokenizer --tokenizer_name_or_path=. --workers=3");
    for flags in [dashes, &hugging_face] {
        let told = succeeds(&folder, flags);
        assert_eq!(told.contains("50 documents ("), flags == dashes, "{told}");
        for ending in ["bin", "idx"] {
            let expected = fs::read(reference(&format!("train_text_sentence.{ending}"))).unwrap();
            assert!(read(&folder, &format!("out_text_sentence.{ending}")) == expected, "{ending}");
        }
    }
    let left = fs::read_dir(folder.path()).unwrap().count();
    assert_eq!(left, 4, "texts, the vocabulary and the two files");
}

#[test]
fn several_keys_lists_of_sentences_and_empty_texts_are_written() {
    let folder = folder();
    let lines = "{\"text\": [\"ba 1\", \"\", \"2 3\"], \"title\": \"4. 5\"}\n\n{\"text\": \"\", \"title\": \"6\"}\n";
    fs::write(folder.path().join("lines.json"), lines).unwrap();
    let flags = "--input lines.json --tokenizer_type BertWordPieceCase --vocab_file vocab.txt --dataset_impl lazy \
                 --output_prefix out --json_keys text title";
    succeeds(&folder, flags);
    // `lazy` has ids of 32 bits; without `--split_sentences` a list is one text.
    let ids = |name: &str| {
        let bytes = read(&folder, name);
        bytes.as_chunks().0.iter().map(|id| i32::from_le_bytes(*id)).collect::<Vec<_>>()
    };
    let pieces = fs::read_to_string(reference("vocab.txt")).unwrap();
    let id = |piece: &str| pieces.lines().position(|line| line == piece).unwrap() as i32;
    assert_eq!(ids("out_text_document.bin"), [id("ba"), id("1"), id("##2"), id("3")]);
    assert_eq!(ids("out_title_document.bin"), [id("4"), id("."), id("5"), id("6")]);
    let index: Vec<u64> = read(&folder, "out_title_document.idx")[8..]
        .as_chunks()
        .0
        .iter()
        .map(|number| u64::from_le_bytes(*number))
        .collect();
    // Version, type, bytes, sentences, lengths, documents; dimensions; starts; lengths; documents.
    assert_eq!(index, [1, 4, 4, 2, 2, 3, 0, 1, 2, 0, 3, 4, 3, 1, 0, 1, 2]);
    succeeds(&folder, &format!("{flags} --split_sentences"));
    assert_eq!(ids("out_text_sentence.bin"), [id("ba"), id("1"), id("2"), id("3")]);
}

#[test]
fn mistakes_are_named_and_leave_no_files() {
    let folder = folder();
    let bert = format!("{INPUT} --tokenizer_type BertWordPieceLowerCase");
    fails(&folder, &bert, "`--tokenizer_type=BertWordPieceLowerCase` needs `--vocab_file`");
    let bert = format!("{bert} --vocab_file vocab.txt");
    fails(&folder, &format!("{bert} --append_eod"), "has no end of a sequence");
    fails(&folder, &format!("{bert} --punkt_dir absent"), "absent");
    fails(&folder, &format!("{bert} --input absent.jsonl"), "absent.jsonl");
    fails(
        &folder,
        &format!("{bert} --input ."),
        "`--input` is the folder `.`, which has no file with JSON lines",
    );
    fails(&folder, &format!("{bert} --input ."), "found 2 entries: texts, vocab.txt");
    fails(&folder, &format!("{bert} --json_keys body"), "texts/a.jsonl:1: it has no 'body'");
    fails(&folder, &format!("{INPUT} --tokenizer_type GPT2BPETokenizer"), "no byte-level BPE");
    fs::write(folder.path().join("texts/z.jsonl"), "{\"text\": 5}\n").unwrap();
    fails(&folder, &bert, "texts/z.jsonl:1: 'text' is neither a text nor a list of texts");
    let left = fs::read_dir(folder.path()).unwrap().count();
    assert_eq!(left, 2, "texts and the vocabulary");
    fs::create_dir(folder.path().join("out.unfinished")).unwrap();
    let lock = StoragePath::try_from(folder.path()).unwrap().join("out.unfinished/lock");
    let held = lock.try_lock_with("a test").unwrap();
    assert!(matches!(held, Locked::Held(_)));
    fails(
        &folder,
        &bert,
        "files that begin with `out` are being written by a test: wait for its end",
    );
}

#[test]
fn compressed_files_are_read_unless_they_stand_beside_the_plain_ones() {
    let folder = folder();
    let texts = folder.path().join("texts");
    for (name, is_kept) in [("a.jsonl", true), ("b.jsonl", false)] {
        let file = fs::File::create(texts.join(format!("{name}.gz"))).unwrap();
        let mut writer = flate2::write::GzEncoder::new(file, flate2::Compression::default());
        writer.write_all(&fs::read(texts.join(name)).unwrap()).unwrap();
        writer.finish().unwrap();
        if !is_kept {
            fs::remove_file(texts.join(name)).unwrap();
        }
    }
    succeeds(
        &folder,
        &format!("{INPUT} --tokenizer_type BertWordPieceLowerCase --vocab_file vocab.txt"),
    );
    let expected = fs::read(reference("train_text_sentence.bin")).unwrap();
    assert!(read(&folder, "out_text_sentence.bin") == expected);
    fs::write(folder.path().join("latin.json"), b"{\"text\": \"ba\"}\n{\"text\": \"\xe9\"}\n")
        .unwrap();
    let flags = "--input latin.json --output_prefix out --tokenizer_type BertWordPieceCase --vocab_file vocab.txt";
    fails(&folder, flags, "latin.json:2: not UTF-8 at byte 25");
}

/// The files of an earlier run stay whole until the new ones are.
#[test]
fn a_run_that_fails_keeps_the_files_of_an_earlier_one() {
    let folder = folder();
    let flags = format!("{INPUT} --tokenizer_type BertWordPieceLowerCase --vocab_file vocab.txt");
    succeeds(&folder, &flags);
    let before = read(&folder, "out_text_sentence.idx");
    let again = succeeds(&folder, &flags);
    assert!(
        again.contains("`out_text_sentence.bin` is there, and is replaced when all"),
        "{again}"
    );
    fs::write(folder.path().join("texts/z.jsonl"), "{\"text\": \"ba\"}\nno JSON\n").unwrap();
    fails(&folder, &flags, "texts/z.jsonl:2: ");
    fs::write(folder.path().join("empty.json"), "{\"text\": \" \"}\n").unwrap();
    let expected = "none of 1 documents has tokens under 'text', expected texts; they are those of 1 files from `empty.json` on";
    fails(&folder, &flags.replace("--input texts", "--input empty.json"), expected);
    assert_eq!(read(&folder, "out_text_sentence.idx"), before);
}

/// Converts the files of a folder, recording the work whenever a thread has delivered some.
fn convert(folder: &Path, prefix: &str, report: impl FnMut(Conversions)) -> Result<(), DataError> {
    let path = |name: &str| StoragePath::try_from(&*folder.join(name)).unwrap();
    let files = ["a.jsonl", "b.jsonl.gz", "c.jsonl"].map(path);
    let indexing = Indexing {
        keys: &["text".to_string(), "title".to_string()],
        punkt: None,
        encode: &|text| text.bytes().map(i32::from).collect(),
        end: Some(7),
        vocab_size: 256,
        format: IndexFormat::Lazy,
        num_threads: 3,
        settings: &BTreeMap::new(),
        settings_files: &[],
        record_period: Duration::ZERO,
    };
    write_indexes(&files, path(prefix).as_str(), indexing, report)
}

#[test]
#[ignore = "a child of another test"]
fn child_converts_until_it_is_killed() {
    let folder = PathBuf::from(child::task());
    let lifetime: u64 = std::env::var(LIFETIME).unwrap().parse().unwrap();
    match lifetime {
        0 => {
            let limit = libc::rlimit { rlim_cur: LIMIT, rlim_max: libc::RLIM_INFINITY };
            // SAFETY: plain system calls; a file that grows beyond the limit then fails as on a full disk.
            unsafe {
                libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
                assert_eq!(libc::setrlimit(libc::RLIMIT_FSIZE, &raw const limit), 0);
            }
        }
        _ => drop(std::thread::spawn(move || {
            std::thread::sleep(Duration::from_micros(lifetime));
            // SAFETY: ends this process as `kill -9` does.
            unsafe { libc::kill(libc::getpid(), libc::SIGKILL) }
        })),
    }
    convert(&folder, "killed", |_| ()).map_err(|error| error.to_string()).unwrap();
}

/// Writes three files of texts, of which the second is compressed.
fn write_texts(folder: &Path) {
    let line = |number: usize| {
        let text = "word ".repeat(number * 7919 % 23);
        format!("{{\"text\": \"{number} {text}\", \"title\": \"title {number}\"}}\n")
    };
    for (name, numbers) in [("a.jsonl", 0..450), ("c.jsonl", 1000..1601)] {
        fs::write(folder.join(name), numbers.map(line).collect::<String>()).unwrap();
    }
    let file = fs::File::create(folder.join("b.jsonl.gz")).unwrap();
    let mut writer = flate2::write::GzEncoder::new(file, flate2::Compression::default());
    (450..1000).for_each(|number| writer.write_all(line(number).as_bytes()).unwrap());
    writer.finish().unwrap();
}

#[test]
fn a_conversion_that_was_killed_again_and_again_ends_with_the_files_of_an_undisturbed_one() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path();
    write_texts(folder);
    let start = Instant::now();
    convert(folder, "whole", |_| ()).unwrap();
    let whole_time = start.elapsed().as_micros() as u64;
    let kills = std::env::var(KILLS_VARIABLE).map_or(KILLS, |kills| kills.parse().unwrap());
    let mut random = StdRng::seed_from_u64(23);
    let folder_name = folder.to_str().unwrap();
    let run_child = |lifetime: u64| {
        let test = "megatron_index::child_converts_until_it_is_killed";
        let mut child = child::command(test, folder_name);
        child.env(LIFETIME, lifetime.to_string()).output().unwrap()
    };
    let full = run_child(0);
    let said = String::from_utf8_lossy(&full.stderr).into_owned();
    assert!(said.contains("cannot write `") && !full.status.success(), "{said}");
    let recorded = || -> u64 {
        let record = fs::read(folder.join("killed.unfinished/progress.json")).unwrap_or_default();
        let record: serde_json::Value = serde_json::from_slice(&record).unwrap_or_default();
        record["documents"].as_u64().unwrap_or(0)
    };
    assert!(recorded() > 0);
    let mut num_ended = 0;
    for _ in 0..kills.min(MOST_KILLS) {
        let ended = run_child(1 + random.random_range(0..whole_time / 2));
        num_ended += u64::from(ended.status.success());
        let is_killed = ended.status.signal() == Some(libc::SIGKILL);
        assert!(is_killed || ended.status.success(), "{ended:?}");
    }
    let (begin, mut numbers) = (recorded(), Vec::new());
    convert(folder, "killed", |counts| numbers.push(counts.documents)).unwrap();
    eprintln!("{num_ended} of {kills} ended; the last began after {begin} documents");
    assert!(numbers.into_iter().eq(begin + 1..=1601));
    for name in
        ["text_document.bin", "text_document.idx", "title_document.bin", "title_document.idx"]
    {
        let [killed, whole] = ["killed", "whole"]
            .map(|prefix| fs::read(folder.join(format!("{prefix}_{name}"))).unwrap());
        assert!(killed == whole, "{name}");
    }
    assert!(!folder.join("killed.unfinished").exists());
}
