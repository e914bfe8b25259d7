//! Reading of a cache, and the effects of a missing or damaged one.

use gimlet::data::{
    AppendEos, AppendEosAfterTrim, DatasetOptions, MixingRateNumCharacters, MixingRateNumExamples,
    RateFunction, get_dataset,
};

use super::super::resume;
use super::*;

/// A task whose source no longer exists.
fn reference_task() -> Task {
    let vocabulary = VocabularySpec::Byte(ByteVocabulary::of(0));
    let features = features(&vocabulary, &["inputs", "targets"]);
    task("reference:cache", text_source("/gone"), vec![placeholder()], features)
}

fn reference_caches() -> Caches {
    let folders = vec!["/no/caches".to_string(), reference("cache").display().to_string()];
    Caches { folders, ..Caches::default() }
}

fn json_of(value: &Value) -> serde_json::Value {
    serde_json::to_value(value).unwrap()
}

#[test]
fn a_cache_of_seqios_is_read_as_seqio_reads_it() {
    let expected = reference_json("cache.json");
    for split in ["train", "validation"] {
        let options =
            ExampleOptions { split: split.to_string(), ..options(Some(reference_caches())) };
        let found = examples(&reference_task(), options).unwrap();
        let expected = expected[split].as_array().unwrap();
        assert_eq!(found.len(), expected.len());
        for (found, expected) in found.iter().zip(expected) {
            for (name, value) in expected.as_object().unwrap() {
                let found = found.get(name).map(json_of);
                // A truth value is a number here.
                let value = value.as_bool().map_or(value.clone(), |truth| u8::from(truth).into());
                assert_eq!(found, Some(value), "{name} of {expected}");
            }
        }
    }
}

#[test]
fn a_split_that_the_cache_lacks() {
    let options = ExampleOptions { split: "test".to_string(), ..options(Some(reference_caches())) };
    let error = examples(&reference_task(), options).unwrap_err().to_string();
    assert_eq!(error, "`reference:cache` has no split 'test'; it has 'train', 'validation'");
}

#[test]
fn cached_batches_resume() {
    let (texts, folder) = (folder_of_text(&[50, 60, 40]), tempfile::tempdir().unwrap());
    let task = byte_task(source_of(&texts), vec![Preprocessor::AppendEos(AppendEos {})]);
    write(&task, &folder, 5).unwrap();
    let tasks = Cached(tasks([task]), caches(&folder));
    let config = config("texts:bytes", (64, 64));
    let config = DatasetConfig { use_cached: true, shuffle: true, pack: true, ..config };
    resume::check(&config, &tasks);
}

#[test]
fn hosts_share_a_cache() {
    let (texts, folder) = (folder_of_text(&[31]), tempfile::tempdir().unwrap());
    let task = byte_task(source_of(&texts), Vec::new());
    write(&task, &folder, 3).unwrap();
    let whole = examples(&task, options(Some(caches(&folder)))).unwrap();
    for num_shards in [2, 3, 5] {
        let shard = |shard_index| {
            let options = options(Some(caches(&folder)));
            examples(&task, ExampleOptions { shard_index, num_shards, ..options }).unwrap()
        };
        let shards: Vec<Features> = (0..num_shards).flat_map(shard).collect();
        assert_eq!(sorted(shards), sorted(whole.clone()), "{num_shards} hosts");
    }
}

#[test]
fn a_position_in_the_source_is_none_in_the_cache() {
    let (texts, folder) = (folder_of_text(&[50]), tempfile::tempdir().unwrap());
    let task = byte_task(source_of(&texts), Vec::new());
    write(&task, &folder, 1).unwrap();
    let tasks = Cached(tasks([task]), caches(&folder));
    let config = config("texts:bytes", (64, 64));
    let mut batches = get_dataset(&config, &tasks, DatasetOptions::default()).unwrap();
    take(&mut batches, 3);
    let options = DatasetOptions { resume: Some(batches.state()), ..DatasetOptions::default() };
    let cached = DatasetConfig { use_cached: true, ..config };
    let error = get_dataset(&cached, &tasks, options).err().unwrap().to_string();
    assert!(error.contains("does not fit this run") && error.contains("train cached"), "{error}");
}

#[test]
fn damage_is_named_with_file_record_and_byte() {
    let (texts, folder) = (folder_of_text(&[3]), tempfile::tempdir().unwrap());
    let task = byte_task(source_of(&texts), Vec::new());
    write(&task, &folder, 1).unwrap();
    let file = folder.path().join("texts/bytes/train.tfrecord-00000-of-00001");
    let whole = std::fs::read(&file).unwrap();
    let length = u64::from_le_bytes(whole[..8].try_into().unwrap()) as usize;
    let second = 16 + length;
    let flipped = |at: usize| {
        let mut bytes = whole.clone();
        bytes[at] ^= 1;
        bytes
    };
    for (bytes, expected) in [
        (flipped(second), "the checksum of its length is wrong"),
        (flipped(second + 13), "bytes is wrong"),
        (whole[..second + 5].to_vec(), "the file ends 5 bytes into it, its length takes 12"),
        (whole[..second + 20].to_vec(), "the file ends 20 bytes into it, its"),
    ] {
        std::fs::write(&file, bytes).unwrap();
        let error = examples(&task, options(Some(caches(&folder)))).unwrap_err();
        let place = format!("`{}`, record 2 at byte {second}: ", file.display());
        let message = error.to_string();
        assert!(message.starts_with(&place) && message.contains(expected), "{message}");
        assert!(message.ends_with("with `gimlet cache --overwrite`"), "{message}");
        assert!(!error.is_users(), "the disk's fault");
    }
    std::fs::remove_file(&file).unwrap();
    let error = examples(&task, options(Some(caches(&folder)))).unwrap_err().to_string();
    assert!(error.contains("train.tfrecord-00000-of-00001 is missing; make it again"), "{error}");
}

#[test]
fn a_missing_cache_says_how_to_make_it() {
    let texts = folder_of_text(&[3]);
    let task = byte_task(source_of(&texts), Vec::new());
    let error = |caches| examples(&task, options(Some(caches))).unwrap_err().to_string();
    let flags = || vec!["--gin_file=my run.gin".to_string()];
    let folders = ["/no/caches", "/nor here"].map(str::to_string).to_vec();
    assert_eq!(
        error(Caches { folders, task_flags: flags() }),
        "`texts:bytes` is to be read from its cache (`use_cached = True`), and there is none: \
         searched `/no/caches/texts/bytes`, `/nor here/texts/bytes`; cache with `gimlet cache \
         --gin_file='my run.gin' --tasks=texts:bytes --output_cache_dir=/no/caches`, or set \
         `USE_CACHED_TASKS = False` to preprocess on the fly"
    );
    let nowhere = error(Caches { folders: Vec::new(), task_flags: flags() });
    assert!(
        nowhere.contains("no folder was searched; cache with `gimlet cache")
            && nowhere.contains("and give this run `--seqio_additional_cache_dirs=DIR`"),
        "{nowhere}"
    );
}

#[test]
fn all_missing_caches_of_a_mixture_are_told_at_once() {
    let texts = folder_of_text(&[3]);
    let named = |name: &str| Task {
        name: Some(name.to_string()),
        ..byte_task(source_of(&texts), Vec::new())
    };
    let tasks = ["a", "b", "c"].map(named);
    let folder = tempfile::tempdir().unwrap();
    let cache = CacheFolder::of(&Path::try_from(folder.path()).unwrap(), "b");
    write_cache(&tasks[1], &cache, &CacheOptions::default(), &mut |_, _| {}).unwrap();
    let task_flags = vec!["--module_import=mine".to_string()];
    let caches = Caches { task_flags, ..caches(&folder) };
    assert_eq!(caches.require("mine", [&tasks[1]]).map_err(|error| error.to_string()), Ok(()));
    let error = caches.require("mine", &tasks).unwrap_err().to_string();
    let folder = folder.path().display();
    assert_eq!(
        error,
        format!(
            "`mine` is to be read from caches (`use_cached = True`), and there are none for 2 of its 3 tasks: \
             `a`, `c`: searched `{folder}`; cache with `gimlet cache --module_import=mine --tasks=mine \
             --output_cache_dir={folder}`, or set `USE_CACHED_TASKS = False` to preprocess on the fly"
        )
    );
}

#[test]
fn a_cache_step_stands_once_and_before_what_depends_on_lengths() {
    let texts = folder_of_text(&[3]);
    let error = |after| {
        let task = byte_task(source_of(&texts), after);
        examples(&task, options(None)).unwrap_err().to_string()
    };
    let trim = Preprocessor::AppendEosAfterTrim(AppendEosAfterTrim {});
    assert!(error(vec![placeholder()]).contains("has 2 steps `CacheDatasetPlaceholder`"));
    let mut task = byte_task(source_of(&texts), Vec::new());
    task.preprocessors.insert(0, trim);
    let error = examples(&task, options(None)).unwrap_err().to_string();
    assert!(error.contains("`append_eos_after_trim` depends on `task_feature_lengths`"), "{error}");
}

/// Copies SeqIO's cache with statistics that also count characters, as with `--enable_char_counts`.
fn caches_with_characters() -> (tempfile::TempDir, Caches) {
    let folder = tempfile::tempdir().unwrap();
    let copy = folder.path().join("reference/cache");
    std::fs::create_dir_all(&copy).unwrap();
    for file in std::fs::read_dir(reference("cache/reference/cache")).unwrap() {
        let file = file.unwrap();
        std::fs::copy(file.path(), copy.join(file.file_name())).unwrap();
    }
    let stats = copy.join("stats.train.json");
    let text = std::fs::read_to_string(&stats).unwrap().replacen('{', "{\"text_chars\": 400,", 1);
    std::fs::write(&stats, text).unwrap();
    let caches = caches(&folder);
    (folder, caches)
}

#[test]
fn rates_by_characters_come_from_the_cache() {
    let (_folder, caches) = caches_with_characters();
    let rate = |char_count_name: &str, temperature| {
        let char_count_name = char_count_name.to_string();
        let spec = MixingRateNumCharacters { temperature, char_count_name };
        RateFunction::MixingRateNumCharacters(spec).rate(&reference_task(), &caches)
    };
    assert_eq!(rate("text_chars", 1.0).unwrap(), 400.0);
    assert_eq!(rate("text_chars", 2.0).unwrap(), 20.0);
    assert_eq!(rate("inputs_tokens", 1.0).unwrap(), 70.0);
    let error = rate("targets_chars", 1.0).unwrap_err().to_string();
    assert!(error.contains("has no 'targets_chars' in stats.train.json"), "{error}");
}

#[test]
fn rates_by_examples_come_from_the_cache_first() {
    let rate = |folders: Vec<String>, change: fn(&mut MixingRateNumExamples)| {
        let mut spec = MixingRateNumExamples {
            maximum: None,
            scale: 1.0,
            temperature: 1.0,
            fallback_to_num_input_examples: true,
            split: "train".to_string(),
        };
        change(&mut spec);
        let mut task = reference_task();
        let DataSource::TextLineDataSource(source) = &mut task.source else { panic!("text") };
        source.reading.num_input_examples = Some(BTreeMap::from([("train".to_string(), 9)]));
        let caches = Caches { folders, ..Caches::default() };
        RateFunction::MixingRateNumExamples(spec).rate(&task, &caches).map_err(|e| e.to_string())
    };
    let cached = || reference_caches().folders;
    assert_eq!(rate(cached(), |_| {}), Ok(20.0));
    assert_eq!(rate(cached(), |spec| spec.split = "validation".to_string()), Ok(3.0));
    assert_eq!(rate(cached(), |spec| (spec.scale, spec.maximum) = (0.5, Some(16.0))), Ok(10.0));
    assert_eq!(
        rate(cached(), |spec| (spec.temperature, spec.maximum) = (2.0, Some(16.0))),
        Ok(4.0)
    );
    assert_eq!(rate(Vec::new(), |_| {}), Ok(9.0));
    let error = rate(Vec::new(), |spec| spec.fallback_to_num_input_examples = false).unwrap_err();
    assert!(error.contains("is to be read from its cache"), "{error}");
}
