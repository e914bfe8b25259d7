//! Several processes write the cache of one, byte for byte.

use gimlet::data::{CacheProcess, ReduceConcatTokens};

use super::writing::{ids_task, write_ids};
use super::*;

fn options_of(rank: usize, count: usize, timeout_secs: u64) -> CacheOptions {
    CacheOptions {
        min_shards: 5,
        flush_bytes: 50_000,
        process: Some(CacheProcess { rank, count, is_on_one_host: true, timeout_secs }),
        ..CacheOptions::default()
    }
}

/// Writes a cache by so many processes, which are threads here: they share nothing but the folder.
fn write_together(
    task: &Task,
    folder: &tempfile::TempDir,
    count: usize,
) -> BTreeMap<String, Vec<u8>> {
    let cache = cache_in(folder, task);
    std::thread::scope(|scope| {
        let writers = (0..count).map(|rank| {
            let cache = &cache;
            scope.spawn(move || {
                write_cache(task, cache, &options_of(rank, count, 60), &mut |_, _| {})
            })
        });
        let writers: Vec<_> = writers.collect();
        writers.into_iter().for_each(|writer| writer.join().unwrap().unwrap());
    });
    contents(&cache.path().local().unwrap())
}

fn written_alone(task: &Task) -> BTreeMap<String, Vec<u8>> {
    let folder = tempfile::tempdir().unwrap();
    let options = CacheOptions { process: None, ..options_of(0, 1, 0) };
    write_cache(task, &cache_in(&folder, task), &options, &mut |_, _| {}).unwrap();
    contents(&cache_in(&folder, task).path().local().unwrap())
}

#[test]
fn several_processes_write_the_files_of_one() {
    // Enough records for several blocks, in files that end within blocks.
    let (texts, folder) = (folder_of_text(&[5000, 0, 4000]), tempfile::tempdir().unwrap());
    let task = byte_task(source_of(&texts), Vec::new());
    let alone = written_alone(&task);
    assert_eq!(alone.len(), 9, "five shards, two descriptions, the values, a mark");
    assert_eq!(write_together(&task, &folder, 3), alone);
}

#[test]
fn a_split_whose_steps_join_examples_is_made_by_one_process() {
    let (texts, folder) = (folder_of_text(&[300]), tempfile::tempdir().unwrap());
    let mut task = byte_task(source_of(&texts), Vec::new());
    let join = ReduceConcatTokens { feature_key: "targets".to_string(), batch_size: 4 };
    task.preprocessors.insert(2, Preprocessor::ReduceConcatTokens(join));
    assert_eq!(write_together(&task, &folder, 2), written_alone(&task));
}

#[test]
fn a_cache_of_killed_processes_is_not_complete_and_the_same_command_continues() {
    let [lines, folder] = std::array::from_fn(|_| tempfile::tempdir().unwrap());
    let task = ids_task(&lines);
    let cache = cache_in(&folder, &task);
    let written = |rank: usize| {
        write_cache(&task, &cache, &options_of(rank, 2, 0), &mut |_, _| {}).unwrap_err().to_string()
    };
    // Malformed JSON ends a process as a signal would; the other one waits for it in vain.
    write_ids(&lines, true);
    written(0);
    let error = written(1);
    assert!(error.contains("process 0 of 2 has written nothing into"), "{error}");
    assert!(!cache.is_complete().unwrap());
    let part = folder.path().join("ids/.part.train-00000-of-00002");
    let mut bytes = std::fs::read(&part).unwrap();
    assert!(!bytes.is_empty(), "something was written");
    bytes.extend(b"half a rec");
    std::fs::write(&part, bytes).unwrap();
    write_ids(&lines, false);
    assert_eq!(write_together(&task, &folder, 2), written_alone(&task));
    // Another number of processes and an unfinished cache begin anew, over the same folder.
    cache.clear().unwrap();
    write_ids(&lines, true);
    write(&task, &folder, 5).unwrap_err();
    write_ids(&lines, false);
    assert_eq!(write_together(&task, &folder, 3), written_alone(&task));
}
