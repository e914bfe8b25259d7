//! Tests of shards that read together, compared with shards that read alone.

#![cfg(test)]

use std::sync::atomic::AtomicU64;

use proptest::prelude::*;

use super::super::bad::BadRecordGuard;
use super::super::deal::Deal;
use super::super::file::{Format, SourceFile};
use super::super::read::Body;
use super::*;
use crate::random::StageSeed;
use gimlet_storage::Path;

const SHARDS: usize = 4;

/// Files, and the maximum number of groups of shards among which they are divided.
type Dealt = (Arc<[Arc<SourceFile>]>, usize);

/// Files of lines, the first ones compressed with gzip; all shards share their records.
fn files(lines: &[u32], num_gzip: usize) -> (tempfile::TempDir, Dealt) {
    let folder = tempfile::tempdir().unwrap();
    let file = |(i, lines): (usize, &u32)| {
        let line = |j: u32| format!("{i} {j} {}\n", "word ".repeat(j as usize % 7));
        let text: String = (0..*lines).map(line).collect();
        let path = Path::try_from(folder.path()).unwrap().join(&i.to_string());
        let compressed = || {
            let mut bytes = Vec::new();
            let mut gzip =
                flate2::read::GzEncoder::new(text.as_bytes(), flate2::Compression::fast());
            std::io::copy(&mut gzip, &mut bytes).unwrap();
            bytes
        };
        let bytes = if i < num_gzip { compressed() } else { text.clone().into_bytes() };
        path.write_atomic(&bytes).unwrap();
        Arc::new(SourceFile::new(path, Format::Text))
    };
    let files = lines.iter().enumerate().map(file).collect();
    (folder, (files, 1))
}

fn plan(files: &Arc<[Arc<SourceFile>]>, deal: Deal) -> ReadPlan {
    ReadPlan {
        task: "task".to_string(),
        split: "train".to_string(),
        files: files.clone(),
        most: None,
        cycle_length: 2,
        block_length: 3,
        skip_header_lines: 0,
        shuffle: Some(StageSeed::new(0, "files")),
        num_epochs: None,
        deal,
        produced: Arc::new(AtomicU64::new(0)),
        bad_records: BadRecordGuard::default(),
    }
}

/// A reader for each of these shards, starting from their states, and the group of the readers.
fn readers(files: &Dealt, shards: &[usize], states: &[StageState]) -> (Vec<Reader>, SharedReads) {
    let shared = SharedReads::default();
    let reader = |shard: &usize| {
        Reader::new(plan(&files.0, Deal::new(*shard, SHARDS, files.1)), "task".to_string(), &shared)
    };
    let mut readers: Vec<Reader> = shards.iter().map(reader).collect();
    for (reader, state) in readers.iter_mut().zip(states) {
        reader.restore(state).unwrap();
    }
    (readers, shared)
}

fn line(reader: &mut Reader) -> String {
    let record = reader.pull().unwrap().expect("the files are repeated");
    let Body::Bytes(line) = record.body else { panic!("no line") };
    format!("{} {} {}", record.number, record.offset, String::from_utf8(line).unwrap())
}

fn member<T>(reader: &Reader, of: impl FnOnce(&Member) -> T) -> T {
    of(&lock(&reader.group).members[&reader.plan.deal.member()])
}

/// Checks that shards which take turns in this order read the same together as alone; returns the
/// number of shards that read alone in the end.
fn check(files: &Dealt, shards: &[usize], turns: &[usize], most_kept: usize) -> usize {
    let (mut alone, _) = readers(files, shards, &[]);
    let (mut together, _) = readers(files, shards, &[]);
    for (i, turn) in turns.iter().enumerate() {
        if i % 100 == 0 {
            // Continues from the state of each reader.
            let states: Vec<StageState> = together.iter().map(Reader::save).collect();
            let (next, shared) = readers(files, shards, &states);
            together = next;
            together.iter().for_each(|reader| lock(&reader.group).most_kept = most_kept);
            shared.begin();
        }
        let turn = turn % shards.len();
        assert_eq!(line(&mut together[turn]), line(&mut alone[turn]), "turn {i}");
        assert_eq!(together[turn].save(), alone[turn].save(), "turn {i}");
    }
    for (one, other) in together.iter().zip(&alone) {
        assert_eq!(one.save(), other.save());
    }
    together.iter().filter(|reader| member(reader, |member| member.own.is_some())).count()
}

#[test]
fn shards_read_the_same_together_as_alone() {
    let (_folder, files) = files(&[50, 20, 33], 0);
    let in_turn: Vec<usize> = (0..500).collect();
    assert_eq!(check(&files, &[0, 1, 2, 3], &in_turn, MOST_KEPT), 0);
    assert_eq!(check(&files, &[1, 2], &in_turn, MOST_KEPT), 0);
    // One shard after the other, through several epochs.
    let one_by_one: Vec<usize> = (0..400).map(|i| i / 95).collect();
    assert_eq!(check(&files, &[0, 1, 2, 3], &one_by_one, MOST_KEPT), 0);
}

#[test]
fn only_many_records_without_an_example_end_a_run() {
    let (_folder, files) = files(&[2000], 0);
    let (mut readers, _) = readers(&files, &[0], &[]);
    (0..BARREN).for_each(|_| drop(line(&mut readers[0])));
    let error = readers[0].pull().err().expect("no example was made").to_string();
    assert!(error.contains("its preprocessors drop every one"), "{error}");
}

#[test]
fn those_far_behind_read_alone() {
    let (_folder, files) = files(&[70, 41], 1);
    // Two of the shards wait, the others continue.
    let turns: Vec<usize> = (0..450).map(|i| if i < 300 { i % 2 } else { i }).collect();
    assert_eq!(check(&files, &[0, 1, 2, 3], &turns, 2000), 2);
}

#[test]
fn all_records_of_an_epoch_are_read_once() {
    let (_folder, files) = files(&[50, 20, 33], 1);
    let (mut together, shared) = readers(&files, &[0, 1, 2, 3], &[]);
    shared.begin();
    let mut found: Vec<String> = (0..103).map(|i| line(&mut together[i % SHARDS])).collect();
    found.sort_unstable();
    found.dedup();
    assert_eq!(found.len(), 103);
}

#[test]
fn groups_of_shards_read_all_records_of_each_epoch_once() {
    let (_folder, (files, _)) = files(&[50, 20, 33], 1);
    // Two groups of two shards.
    let (mut together, shared) = readers(&(files, 3), &[0, 1, 2, 3], &[]);
    shared.begin();
    let mut found: BTreeMap<u64, Vec<String>> = BTreeMap::new();
    for reader in &mut together {
        loop {
            let line = line(reader);
            let epoch = member(reader, Member::place).epoch;
            if epoch == 8 {
                break;
            }
            found.entry(epoch).or_default().push(line);
        }
    }
    assert_eq!(found.len(), 8);
    for (epoch, mut lines) in found {
        assert_eq!(lines.len(), 103, "epoch {epoch}");
        lines.sort_unstable();
        lines.dedup();
        assert_eq!(lines.len(), 103, "epoch {epoch}");
    }
}

#[test]
fn an_error_is_found_by_each_where_it_comes_to_it() {
    let (folder, files) = files(&[400], 1);
    let path = folder.path().join("0");
    let bytes = std::fs::read(&path).unwrap();
    std::fs::write(&path, &bytes[..bytes.len() / 2]).unwrap();
    let until_error = |begin: bool| {
        let (mut readers, shared) = readers(&files, &[0, 1, 2, 3], &[]);
        if begin {
            shared.begin();
        }
        let found = |reader: &mut Reader| {
            let mut count = 0;
            loop {
                match reader.pull() {
                    Ok(_) => count += 1,
                    Err(error) => return (count, error.to_string()),
                }
            }
        };
        readers.iter_mut().map(found).collect::<Vec<_>>()
    };
    assert_eq!(until_error(true), until_error(false));
}

#[test]
fn frames_of_compressed_files_are_saved() {
    let (_folder, files) = files(&[40_000], 1);
    let path = &files.0[0].path;
    // The same text twice, in two members.
    path.write_atomic(&path.read().unwrap().repeat(2)).unwrap();
    let (mut together, shared) = readers(&files, &[0, 2], &[]);
    shared.begin();
    (0..15_000).for_each(|_| drop(line(&mut together[0])));
    let has_frames = |reader: &Reader| !reader.save().frames.is_empty();
    assert!(has_frames(&together[0]) && !has_frames(&together[1]));
    let mut state = together[0].save();
    let next = line(&mut together[0]);
    let resumed = |state| line(&mut readers(&files, &[0], &[state]).0[0]);
    assert_eq!(resumed(state.clone()), next);
    // A position of an older version.
    state.frames.clear();
    assert_eq!(resumed(state), next);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn shards_read_the_same_in_any_order(
        turns in prop::collection::vec(0..40_usize, 0..600),
        favoured in 0..4_usize,
        most_kept in prop_oneof![Just(3000_usize), Just(1 << 20)],
        lines in prop::collection::vec(5..60_u32, 1..4),
        dealt in 1..4_usize,
    ) {
        let (_folder, (files, _)) = files(&lines, 1);
        let files = (files, dealt.min(lines.len()));
        let turns: Vec<usize> =
            turns.iter().map(|turn| if *turn < 16 { favoured } else { *turn }).collect();
        check(&files, &[0, 1, 2, 3], &turns, most_kept);
    }
}
