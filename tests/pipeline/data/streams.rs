//! The batch at a step is the same on any number of hosts and threads.

use gimlet::data::{
    AppendEos, DatasetOptions, DatasetState, FilterByStringLength, Mixture, MixtureEntries,
    MixtureEntry, Rate, Rekey, Tokenize, get_dataset,
};
use gimlet::vocab::ByteVocabulary;

use super::*;
use crate::storage::server::{Reply, Server};
use crate::storage::{environment, limits};

const STEPS: usize = 6;

/// Creates files of 320 KiB, enough for a stream each.
fn folder_of_text(num_files: usize) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for file in 0..num_files {
        let line = |i: usize| format!("{file} {i} {}\n", "x".repeat(i % 90));
        let text: String = (0..6400).map(line).collect();
        std::fs::write(folder.path().join(format!("{file}.txt")), text).unwrap();
    }
    folder
}

fn text_task(folder: &tempfile::TempDir) -> Task {
    let vocabulary = VocabularySpec::Byte(ByteVocabulary::of(0));
    let from_text = |name: &str| (name.to_string(), Some("text".to_string()));
    let preprocessors = vec![
        Preprocessor::Rekey(Rekey { key_map: ["inputs", "targets"].map(from_text).into() }),
        Preprocessor::Tokenize(Tokenize { copy_pretokenized: false, with_eos: false }),
        Preprocessor::AppendEos(AppendEos {}),
    ];
    let source = text_source(&format!("{}/*.txt", folder.path().display()));
    task("text", source, preprocessors, features(&vocabulary, &["inputs", "targets"]))
}

fn shuffled(batch_size: usize, threads: usize) -> DatasetConfig {
    DatasetConfig {
        batch_size,
        shuffle: true,
        pack: true,
        num_prefetch_threads: Some(threads),
        ..config("text", (128, 128))
    }
}

/// Rows in the order of the source, one for each line.
fn in_order(batch_size: usize, threads: usize) -> DatasetConfig {
    DatasetConfig { shuffle: false, pack: false, ..shuffled(batch_size, threads) }
}

fn start(
    config: &DatasetConfig,
    tasks: &Tasks,
    (shard_index, num_shards): (usize, usize),
    resume: Option<DatasetState>,
) -> BatchIterator {
    let options = DatasetOptions { shard_index, num_shards, resume, ..DatasetOptions::default() };
    get_dataset(config, tasks, options).unwrap()
}

fn rows(batch: &Batch) -> Vec<Vec<i32>> {
    batch.rows_of("encoder_input_tokens").map(<[i32]>::to_vec).collect()
}

/// The rows of each global batch, and the position after the last.
fn global(
    config: &DatasetConfig,
    tasks: &Tasks,
    num_hosts: usize,
    resume: Option<&DatasetState>,
) -> (Vec<Vec<Vec<i32>>>, DatasetState) {
    let mut steps = vec![Vec::new(); STEPS];
    let mut states = Vec::new();
    for host in 0..num_hosts {
        let mut batches = start(config, tasks, (host, num_hosts), resume.cloned());
        for step in &mut steps {
            let batch = batches.next_batch().unwrap().expect("data repeat");
            assert_eq!(batch.rows, config.batch_size / num_hosts);
            step.extend(rows(&batch));
        }
        states.push(batches.state());
    }
    (steps, DatasetState::merged(states).unwrap())
}

#[test]
fn any_number_of_hosts_and_threads_reads_the_same_global_batches() {
    for config in [shuffled, in_order] {
        for num_files in [1, 5] {
            let folder = folder_of_text(num_files);
            let tasks = tasks([text_task(&folder)]);
            let (expected, state) = global(&config(12, 0), &tasks, 1, None);
            assert_eq!(state.positions.len(), if num_files == 1 { 1 } else { 4 });
            for (num_hosts, threads) in [(1, 2), (1, 9), (2, 0), (3, 2), (4, 1), (6, 0), (12, 0)] {
                let (found, _) = global(&config(12, threads), &tasks, num_hosts, None);
                assert_eq!(found, expected, "{num_hosts} hosts, {threads} threads");
            }
        }
    }
}

#[test]
fn another_number_of_hosts_goes_on_where_the_others_were() {
    let folder = folder_of_text(5);
    let tasks = tasks([text_task(&folder)]);
    for config in [shuffled(8, 2), in_order(8, 2)] {
        let (_, half_way) = global(&config, &tasks, 4, None);
        let (expected, end) = global(&config, &tasks, 1, Some(&half_way));
        for num_hosts in [2, 8] {
            let (found, merged) = global(&config, &tasks, num_hosts, Some(&half_way));
            assert_eq!((found, merged), (expected.clone(), end.clone()), "{num_hosts} hosts");
        }
    }
}

/// Returns a mixture of a task that has a part for each stream, of one of three lines, and of one
/// whose filter keeps a single line of its files. The folders are the three tasks'.
fn mixture_of_uneven_tasks() -> ([tempfile::TempDir; 3], Tasks) {
    let folders = [folder_of_text(5), tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    std::fs::write(folders[1].path().join("0.txt"), "few one\nfew two\nfew three\n").unwrap();
    for file in 0..6 {
        let last = if file == 4 { "the only long line\n" } else { "" };
        // The fourth is alone in its group.
        let num_short = if file == 3 { 0 } else { file };
        let text = "short\n".repeat(num_short) + last;
        std::fs::write(folders[2].path().join(format!("{file}.txt")), text).unwrap();
    }
    let named = |name: &str, folder| Task { name: Some(name.to_string()), ..text_task(folder) };
    let mut rare = named("rare", &folders[2]);
    let (feature_key, max_length) = ("text".to_string(), 100);
    let filter = FilterByStringLength { feature_key, min_length: 10, max_length };
    rare.preprocessors.insert(0, Preprocessor::FilterByStringLength(filter));
    let mut tasks = tasks([text_task(&folders[0]), named("few", &folders[1]), rare]);
    let entry = |name: &str| MixtureEntry { name: name.to_string(), rate: Some(Rate::Number(1.0)) };
    let mixture = Mixture {
        scope: "uneven".to_string(),
        name: None,
        tasks: MixtureEntries(["text", "few", "rare"].map(entry).into()),
        default_rate: None,
        sample_fn: None,
    };
    tasks.insert("uneven".to_string(), TaskOrMixture::Mixture(Arc::new(mixture)));
    (folders, tasks)
}

#[test]
fn each_task_of_a_mixture_is_dealt_out_by_itself() {
    let (_folders, tasks) = mixture_of_uneven_tasks();
    for config in [shuffled, in_order] {
        let config = |threads| DatasetConfig {
            mixture_or_task_name: "uneven".to_string(),
            ..config(8, threads)
        };
        let (expected, half_way) = global(&config(0), &tasks, 1, None);
        assert_eq!(half_way.positions.len(), 4);
        let (then, end) = global(&config(0), &tasks, 1, Some(&half_way));
        for (num_hosts, threads) in [(1, 2), (2, 0), (4, 2), (8, 0)] {
            let (found, state) = global(&config(threads), &tasks, num_hosts, None);
            assert_eq!((&found, &state), (&expected, &half_way), "{num_hosts} hosts");
            let (found, state) = global(&config(threads), &tasks, num_hosts, Some(&state));
            assert_eq!((&found, &state), (&then, &end), "{num_hosts} hosts, resumed");
        }
    }
}

#[test]
fn every_stream_draws_from_every_task() {
    let (_folders, tasks) = mixture_of_uneven_tasks();
    let config = DatasetConfig { mixture_or_task_name: "uneven".to_string(), ..in_order(8, 0) };
    for host in 0..4 {
        let mut batches = start(&config, &tasks, (host, 4), None);
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        for row in take(&mut batches, 150).iter().flat_map(rows) {
            let text: String = row.iter().map(|&id| char::from((id - 3).max(0) as u8)).collect();
            let first = text.split(' ').next().unwrap().to_string();
            *counts.entry(first).or_default() += 1;
        }
        // A third of 300 each: five standard deviations are 41.
        assert!((60..140).contains(&counts["few"]), "host {host}: {counts:?}");
        assert!((60..140).contains(&counts["the"]), "host {host}: {counts:?}");
        // Only the host's own files in the first epoch.
        let files = counts.keys().filter(|first| first.parse::<u8>().is_ok()).count();
        assert_eq!(files, if host == 0 { 2 } else { 1 }, "host {host}: {counts:?}");
    }
}

#[test]
fn a_host_opens_its_own_files_only() {
    let folder = folder_of_text(4);
    let tasks = tasks([text_task(&folder)]);
    let config = shuffled(4, 0);
    let mut seen: Vec<i32> = Vec::new();
    for host in 0..4 {
        let mut batches = start(&config, &tasks, (host, 4), None);
        // The first byte of each line is its file's number.
        let first = |row: &Vec<i32>| row[0];
        let mut files: Vec<i32> =
            take(&mut batches, 50).iter().flat_map(rows).map(|row| first(&row)).collect();
        files.sort_unstable();
        files.dedup();
        assert_eq!(files.len(), 1, "host {host}");
        seen.extend(files);
    }
    seen.sort_unstable();
    seen.dedup();
    assert_eq!(seen.len(), 4);
}

#[test]
fn hosts_share_unshuffled_files_and_open_no_others() {
    let folder = folder_of_text(4);
    // Each line once: a quarter of a batch belongs to a host, and its file has 6400 lines.
    let (config, batches) = (in_order(256, 0), 6400 / 64);
    for host in 0..4 {
        let mine = tempfile::tempdir().unwrap();
        for file in 0..4 {
            let name = format!("{file}.txt");
            let mut bytes = std::fs::read(folder.path().join(&name)).unwrap();
            if file != host {
                // The beginning of gzip, so that opening the file is an error.
                bytes[..4].copy_from_slice(&[0x1f, 0x8b, 0xff, 0xff]);
            }
            std::fs::write(mine.path().join(name), bytes).unwrap();
        }
        let tasks = tasks([text_task(&mine)]);
        let mut iterator = start(&config, &tasks, (host, 4), None);
        let found = take(&mut iterator, batches);
        let found: Vec<Vec<i32>> = found.iter().flat_map(rows).collect();
        let text = std::fs::read_to_string(folder.path().join(format!("{host}.txt"))).unwrap();
        assert_eq!(found.len(), text.lines().count());
        for (row, line) in found.iter().zip(text.lines()) {
            // Bytes count from 3.
            let bytes: Vec<i32> = line.bytes().map(|byte| i32::from(byte) + 3).collect();
            assert_eq!(row[..bytes.len()], bytes, "host {host}");
        }
    }
}

#[test]
fn an_unshuffled_batch_of_one_file_holds_its_next_records() {
    let folder = folder_of_text(3);
    for file in [1, 2] {
        // Of a size that suffices for two streams.
        let more = std::fs::read(folder.path().join(format!("{file}.txt"))).unwrap();
        let mut whole = std::fs::OpenOptions::new();
        let mut whole = whole.append(true).open(folder.path().join("0.txt")).unwrap();
        std::io::Write::write_all(&mut whole, &more).unwrap();
        std::fs::remove_file(folder.path().join(format!("{file}.txt"))).unwrap();
    }
    let tasks = tasks([text_task(&folder)]);
    let (steps, state) = global(&in_order(8, 0), &tasks, 2, None);
    assert_eq!(state.positions.len(), 2);
    for (step, rows) in steps.iter().enumerate() {
        let number = |row: &Vec<i32>| -> usize {
            let text: String = row.iter().map(|&id| char::from((id - 3).max(0) as u8)).collect();
            text.split(' ').nth(1).unwrap().parse().unwrap()
        };
        let mut numbers: Vec<usize> = rows.iter().map(number).collect();
        numbers.sort_unstable();
        assert_eq!(numbers, (8 * step..8 * step + 8).collect::<Vec<_>>());
    }
}

/// Returns lines that compress to half their size, of very different lengths: 190 bytes on average.
fn noise(num_lines: u64) -> String {
    let word = |i: u64| format!("{:x} ", i.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let line = |i: u64| (0..i * i % 23).map(|j| word(i * 23 + j)).collect::<String>() + "|\n";
    (0..num_lines).map(line).collect()
}

/// Creates one file of noise, in which 4 streams begin, and which they share.
fn one_file(name: &str, compress: impl Fn(&[u8]) -> Vec<u8>) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join(name), compress(noise(16_000).as_bytes())).unwrap();
    folder
}

#[test]
fn streams_that_share_a_file_make_the_same_batches_as_those_that_read_alone() {
    let gzip = |text: &[u8]| {
        let mut bytes = Vec::new();
        let mut encoder = flate2::read::GzEncoder::new(text, flate2::Compression::fast());
        std::io::copy(&mut encoder, &mut bytes).unwrap();
        bytes
    };
    let plain = one_file("0.txt", <[u8]>::to_vec);
    let gzip = one_file("0.txt", gzip);
    let zstd = one_file("0.txt", |text| zstd::encode_all(text, 3).unwrap());
    let configs: [fn(usize, usize) -> DatasetConfig; 2] = [shuffled, in_order];
    for (folder, configs) in [(plain, &configs[..]), (gzip, &configs[..1]), (zstd, &configs[..1])] {
        let tasks = tasks([text_task(&folder)]);
        for config in configs {
            // Each host has one of the streams, which reads the file for itself.
            let (expected, half_way) = global(&config(4, 0), &tasks, 4, None);
            assert_eq!(half_way.positions.len(), 4);
            let (then, end) = global(&config(4, 0), &tasks, 4, Some(&half_way));
            for (num_hosts, threads) in [(1, 0), (1, 2), (1, 4), (2, 2)] {
                let (found, state) = global(&config(4, threads), &tasks, num_hosts, None);
                assert_eq!((&found, &state), (&expected, &half_way), "{num_hosts} {threads}");
                // The streams have reached different records.
                let (found, state) = global(&config(4, threads), &tasks, num_hosts, Some(&state));
                assert_eq!((&found, &state), (&then, &end), "{num_hosts} {threads}, resumed");
            }
        }
    }
}

#[test]
fn a_host_reads_each_byte_of_a_shared_file_once_an_epoch() {
    limits();
    let _held = environment(&[]);
    let text = noise(8000);
    let served = text.clone().into_bytes();
    let server = Server::start(move |request| Reply::file(request, &served));
    let source = text_source(&server.url("/0.txt"));
    let folder = tempfile::tempdir().unwrap();
    let tasks = tasks([Task { source, ..text_task(&folder) }]);
    for threads in [0, 2] {
        let before = server.requests().len();
        let mut batches = start(&in_order(4, threads), &tasks, (0, 1), None);
        // Two epochs of a row for each line.
        take(&mut batches, 2 * 8000 / 4);
        drop(batches);
        let length = |(first, last): (usize, usize)| last.min(text.len() - 1) + 1 - first;
        let requests = server.requests().split_off(before);
        let gets = requests.iter().filter(|request| request.method == "GET");
        let bytes: usize = gets.filter_map(|request| request.range()).map(length).sum();
        // Some more to detect the file's format, and some of the following ones.
        let epochs = bytes as f64 / text.len() as f64;
        assert!((2.0..2.7).contains(&epochs), "{threads} threads read the file {epochs} times");
    }
}

#[test]
fn a_run_goes_on_with_as_many_streams_as_it_began_with() {
    let folder = folder_of_text(1);
    let tasks = tasks([text_task(&folder)]);
    let config = in_order(4, 0);
    let (_, before) = global(&config, &tasks, 1, None);
    let path = folder.path().join("0.txt");
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, text.repeat(5)).unwrap();
    let streams = |resume| global(&config, &tasks, 2, resume).1.positions.len();
    assert_eq!((streams(None), streams(Some(&before))), (4, 1));
}

#[test]
fn empty_files_and_few_records_leave_no_stream_without_rows() {
    let read = |folder: &tempfile::TempDir| {
        let tasks = tasks([text_task(folder)]);
        global(&shuffled(4, 0), &tasks, 1, None).1.positions.len()
    };
    let folder = folder_of_text(4);
    std::fs::write(folder.path().join("1.txt"), "").unwrap();
    assert_eq!(read(&folder), 2);
    for file in 1..4 {
        std::fs::remove_file(folder.path().join(format!("{file}.txt"))).unwrap();
    }
    // A megabyte of three records.
    let text = format!("{}\n", "long ".repeat(80_000)).repeat(3);
    std::fs::write(folder.path().join("0.txt"), text).unwrap();
    assert_eq!(read(&folder), 4);
}

#[test]
fn positions_are_small_whatever_the_buffers_hold() {
    let folder = folder_of_text(5);
    let tasks = tasks([text_task(&folder)]);
    let mut batches = start(&shuffled(4, 2), &tasks, (0, 1), None);
    take(&mut batches, 20);
    let json = serde_json::to_string(&batches.state()).unwrap();
    assert!(json.len() < 8000, "{} bytes", json.len());
}

#[test]
fn positions_that_do_not_belong_together_are_refused() {
    let folder = folder_of_text(4);
    let tasks = tasks([text_task(&folder)]);
    let config = shuffled(4, 0);
    let mut hosts = [0, 1].map(|host| start(&config, &tasks, (host, 2), None));
    take(&mut hosts[0], 2);
    take(&mut hosts[1], 3);
    let [a, b] = hosts.map(|host| host.state());
    let error = DatasetState::merged([a.clone(), b]).unwrap_err().to_string();
    assert!(error.contains("after 2 and after 3 batches"), "{error}");
    let options = DatasetOptions { resume: Some(a), ..DatasetOptions::default() };
    let error = get_dataset(&config, &tasks, options).err().unwrap().to_string();
    assert!(error.contains("stream 2 is not in it"), "{error}");
}

/// Returns the first rows of each stream, from whole batches of four streams.
fn of_streams(batches: &[Vec<Vec<i32>>], rows_per_stream: usize) -> Vec<Vec<i32>> {
    let of_stream = |stream: usize| {
        let share = move |batch: &Vec<Vec<i32>>| {
            let size = batch.len() / 4;
            batch[stream * size..(stream + 1) * size].to_vec()
        };
        batches.iter().flat_map(share).take(rows_per_stream)
    };
    sorted((0..4).flat_map(of_stream))
}

fn sorted(rows: impl Iterator<Item = Vec<i32>>) -> Vec<Vec<i32>> {
    let mut rows: Vec<Vec<i32>> = rows.collect();
    rows.sort();
    rows
}

#[test]
fn another_batch_size_continues_at_the_same_examples() {
    let folder = folder_of_text(5);
    let tasks = tasks([text_task(&folder)]);
    for config in [shuffled, in_order] {
        let (_, half_way) = global(&config(12, 2), &tasks, 1, None);
        assert_eq!(half_way.positions.len(), 4);
        let (expected, _) = global(&config(12, 0), &tasks, 1, Some(&half_way));
        // The four streams divide 8 and 4; of 6 and 2, and of fewer rows than streams, they take turns.
        for batch_size in [8, 4, 6, 2] {
            let (found, end) = global(&config(batch_size, 2), &tasks, 1, Some(&half_way));
            let rows_per_stream = STEPS * batch_size / 4;
            let found_rows = sorted(found.iter().flatten().cloned());
            assert_eq!(found_rows, of_streams(&expected, rows_per_stream), "{batch_size}");
            let (of_hosts, merged) = global(&config(batch_size, 0), &tasks, 2, Some(&half_way));
            assert_eq!((of_hosts, merged), (found, end), "{batch_size}");
        }
    }
}

#[test]
fn a_batch_size_that_streams_do_not_divide_can_be_left_again() {
    let folder = folder_of_text(5);
    let tasks = tasks([text_task(&folder)]);
    let (_, half_way) = global(&shuffled(12, 0), &tasks, 1, None);
    let (expected, _) = global(&shuffled(12, 0), &tasks, 1, Some(&half_way));
    let mut odd = start(&shuffled(6, 0), &tasks, (0, 1), Some(half_way));
    let mut found = rows(&odd.next_batch().unwrap().unwrap());
    // Saved in the middle of a round: two streams have returned one row more than the others.
    let saved = serde_json::to_string(&odd.state()).unwrap();
    let saved: DatasetState = serde_json::from_str(&saved).unwrap();
    assert_eq!(saved.next_stream, 2);
    let mut even = start(&shuffled(2, 0), &tasks, (0, 1), Some(saved));
    found.extend(rows(&even.next_batch().unwrap().unwrap()));
    assert_eq!(even.state().next_stream, 0);
    assert_eq!(sorted(found.into_iter()), of_streams(&expected, 2));
}

#[test]
fn what_follows_from_another_batch_size_is_told_once() {
    let folder = folder_of_text(1);
    let tasks = tasks([text_task(&folder)]);
    let mut first = start(&shuffled(12, 0), &tasks, (0, 1), None);
    first.next_batch().unwrap();
    let mut second = start(&shuffled(8, 0), &tasks, (0, 1), Some(first.state()));
    let notice = "BATCH_SIZE was 12 and is 8: the data continue at the example that would have been \
                  next, and steps keep their numbers";
    assert_eq!(second.notices(), [notice]);
    second.next_batch().unwrap();
    let third = start(&shuffled(8, 0), &tasks, (0, 1), Some(second.state()));
    assert!(third.notices().is_empty());
}
