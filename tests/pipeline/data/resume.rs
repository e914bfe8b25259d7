//! A resumed data set continues with the same batches as an uninterrupted one.

use gimlet::data::{
    AppendEos, BatchIterator, DatasetOptions, DatasetState, Mixture, MixtureEntries, MixtureEntry,
    Rate, SpanCorruption, TaskProvider, Tokenize, TriviaQa, get_dataset,
};
use gimlet::vocab::ByteVocabulary;

use super::*;

const BATCHES: usize = 45;

/// Starts at a state that was converted to JSON and back, as in a checkpoint.
fn start(
    config: &DatasetConfig,
    tasks: &dyn TaskProvider,
    resume: Option<&DatasetState>,
) -> BatchIterator {
    let through_json = |state: &DatasetState| {
        serde_json::from_str(&serde_json::to_string(state).unwrap()).unwrap()
    };
    let options = DatasetOptions { resume: resume.map(through_json), ..DatasetOptions::default() };
    get_dataset(config, tasks, options).unwrap()
}

/// Resumes after every batch and compares the next batches; every third time on other threads.
pub fn check(config: &DatasetConfig, tasks: &dyn TaskProvider) {
    let mut whole = start(config, tasks, None);
    let mut states = vec![whole.state()];
    let mut batches = Vec::new();
    for _ in 0..BATCHES {
        batches.push(whole.next_batch().unwrap().expect("data repeat"));
        states.push(whole.state());
    }
    for (done, state) in states.iter().enumerate().take(BATCHES - 3) {
        let threads = if done % 3 == 0 { 0 } else { 2 };
        let config = DatasetConfig { num_prefetch_threads: Some(threads), ..config.clone() };
        let mut resumed = start(&config, tasks, Some(state));
        assert_eq!(resumed.state(), *state, "nothing is handed out yet");
        assert_eq!(take(&mut resumed, 3), batches[done..done + 3], "after {done} batches");
    }
    // A resumed run can be resumed again.
    let mut second = start(config, tasks, Some(&states[5]));
    take(&mut second, 6);
    let mut third = start(config, tasks, Some(&second.state()));
    assert_eq!(take(&mut third, 4), batches[11..15]);
}

/// Documents of made-up words, some empty, some longer than an example.
fn folder_of_text() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for file in 0..4 {
        let document = |i: usize| "word ".repeat((i * 7 + file) % 23) + &"x".repeat(i % 5) + "\n";
        let text: String = (0..90).map(document).collect();
        std::fs::write(folder.path().join(format!("{file}.txt")), text).unwrap();
    }
    folder
}

fn span_corruption_task(folder: &tempfile::TempDir) -> Task {
    let source = text_source(&format!("{}/*.txt", folder.path().display()));
    let vocabulary = VocabularySpec::Byte(ByteVocabulary::of(100));
    let preprocessors = vec![
        Preprocessor::Rekey(gimlet::data::Rekey {
            key_map: BTreeMap::from([("targets".to_string(), Some("text".to_string()))]),
        }),
        Preprocessor::Tokenize(Tokenize { copy_pretokenized: true, with_eos: false }),
        Preprocessor::SpanCorruption(SpanCorruption {
            reserved_for_packing: Some(40),
            ..SpanCorruption::default()
        }),
        Preprocessor::AppendEos(AppendEos {}),
    ];
    task("spans", source, preprocessors, features(&vocabulary, &["inputs", "targets"]))
}

/// Each line as bytes.
fn text_task(folder: &tempfile::TempDir) -> Task {
    let source = text_source(&format!("{}/*.txt", folder.path().display()));
    let vocabulary = VocabularySpec::Byte(ByteVocabulary::of(0));
    let from_text = |name: &str| (name.to_string(), Some("text".to_string()));
    let key_map = ["inputs", "targets"].map(from_text).into();
    let preprocessors = vec![
        Preprocessor::Rekey(gimlet::data::Rekey { key_map }),
        Preprocessor::Tokenize(Tokenize { copy_pretokenized: false, with_eos: false }),
    ];
    task("lines", source, preprocessors, features(&vocabulary, &["inputs", "targets"]))
}

/// Returns questions with no, one or several examples each, which are made before the texts become
/// bytes.
fn questions_task(folder: &tempfile::TempDir) -> Task {
    for file in 0..2 {
        let line = |i: usize| {
            let contexts = vec![format!("\"the {i} of {file}\""); i % 4].join(", ");
            format!(
                "{{\"question\": \"which\", \"answer/normalized_aliases\": [\"the\", \"{i}\"], \
                 \"entity_pages/wiki_context\": [{contexts}]}}\n"
            )
        };
        let text: String = (0..40).map(line).collect();
        std::fs::write(folder.path().join(format!("{file}.jsonl")), text).unwrap();
    }
    let source = json_source(&format!("{}/*.jsonl", folder.path().display()));
    let vocabulary = VocabularySpec::Byte(ByteVocabulary::of(0));
    let preprocessors = vec![
        Preprocessor::TriviaQa(TriviaQa {}),
        Preprocessor::Tokenize(Tokenize { copy_pretokenized: false, with_eos: false }),
    ];
    task("questions", source, preprocessors, features(&vocabulary, &["inputs", "targets"]))
}

#[test]
fn maps_behind_one_that_makes_several_examples() {
    let folder = tempfile::tempdir().unwrap();
    let tasks = tasks([questions_task(&folder)]);
    let config = config("questions", (64, 8));
    check(&config, &tasks);
    check(&DatasetConfig { shuffle: true, pack: true, ..config.clone() }, &tasks);
    // Both the records' maps and those after them run on threads.
    let mut batches = start(&config, &tasks, None);
    take(&mut batches, 1);
    let state = serde_json::to_string(&batches.state()).unwrap();
    assert_eq!(state.matches("parallel_map").count(), 2, "{state}");
}

#[test]
fn plain_rows_in_order() {
    let folder = folder_of_ids(&[20, 30, 10, 25, 15]);
    check(&config("ids", (4, 4)), &tasks([task_of_ids(&folder)]));
}

#[test]
fn packed_and_shuffled_rows() {
    let folder = folder_of_ids(&[20, 30, 10, 25, 15]);
    let config = DatasetConfig { shuffle: true, pack: true, ..config("ids", (12, 8)) };
    check(&config, &tasks([task_of_ids(&folder)]));
}

#[test]
fn batches_that_end_with_a_pass() {
    // A pass of 10 rows ends within a batch, one of 12 at the end of one.
    for lines in [4, 6] {
        let folder = folder_of_ids(&[6, lines]);
        let config =
            DatasetConfig { shuffle: true, ends_batch_with_pass: true, ..config("ids", (4, 4)) };
        check(&config, &tasks([task_of_ids(&folder)]));
    }
}

#[test]
fn parts_of_the_files() {
    let folder = folder_of_ids(&[6, 4, 9, 5, 3]);
    for ends_batch_with_pass in [false, true] {
        let config = DatasetConfig { shuffle: true, ends_batch_with_pass, ..config("ids", (4, 4)) };
        let config = DatasetConfig { file_parts: Some(2), ..config };
        check(&config, &tasks([task_of_ids(&folder)]));
    }
}

#[test]
fn corrupted_spans_packed_and_shuffled() {
    let folder = folder_of_text();
    let config = DatasetConfig { shuffle: true, pack: true, ..config("spans", (64, 32)) };
    check(&config, &tasks([span_corruption_task(&folder)]));
}

#[test]
fn mixtures() {
    let folders = [folder_of_ids(&[20, 30]), folder_of_ids(&[7])];
    let mut other = task_of_ids(&folders[1]);
    other.name = Some("other".to_string());
    let mut tasks = tasks([task_of_ids(&folders[0]), other]);
    let entry =
        |name: &str, rate| MixtureEntry { name: name.to_string(), rate: Some(Rate::Number(rate)) };
    let mixture = Mixture {
        scope: "both".to_string(),
        name: None,
        tasks: MixtureEntries(vec![entry("ids", 2.0), entry("other", 1.0)]),
        default_rate: None,
        sample_fn: None,
    };
    tasks.insert("both".to_string(), TaskOrMixture::Mixture(Arc::new(mixture)));
    let config = DatasetConfig { shuffle: true, ..config("both", (4, 4)) };
    check(&config, &tasks);
}

#[test]
fn gzip_files() {
    let folder = folder_of_ids(&[20, 30]);
    for name in ["part-00.jsonl", "part-01.jsonl"] {
        let path = folder.path().join(name);
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        std::io::Write::write_all(&mut gzip, &std::fs::read(&path).unwrap()).unwrap();
        std::fs::write(&path, gzip.finish().unwrap()).unwrap();
    }
    check(&config("ids", (4, 4)), &tasks([task_of_ids(&folder)]));
}

#[test]
fn a_position_inside_a_gzip_file_needs_nothing_before_its_member() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("0.txt");
    let number = |i: u64| format!("{:016x}", i.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let line = |i: u64| (0..128).map(|j| number(128 * i + j)).collect::<String>() + "\n";
    let text: String = (0..4000).map(line).collect();
    let member = |part: &[u8]| {
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        std::io::Write::write_all(&mut gzip, part).unwrap();
        gzip.finish().unwrap()
    };
    let members: Vec<u8> = text.as_bytes().chunks(100_000).flat_map(member).collect();
    std::fs::write(&path, members).unwrap();
    let tasks = tasks([text_task(&folder)]);
    let config = DatasetConfig { shuffle: true, batch_size: 8, ..config("lines", (32, 32)) };
    let mut whole = start(&config, &tasks, None);
    take(&mut whole, 400);
    let state = whole.state();
    let expected = take(&mut whole, 3);
    let mut bytes = std::fs::read(&path).unwrap();
    // All except the first bytes, which identify the compression.
    let quarter = bytes.len() / 4;
    bytes[12..quarter].fill(0xff);
    std::fs::write(&path, bytes).unwrap();
    assert_eq!(take(&mut start(&config, &tasks, Some(&state)), 3), expected);
}

#[test]
fn a_run_without_a_seed_takes_over_the_saved_one() {
    let folder = folder_of_ids(&[20, 30]);
    let tasks = tasks([task_of_ids(&folder)]);
    let config = DatasetConfig { shuffle: true, seed: None, ..config("ids", (4, 4)) };
    let options = DatasetOptions { seed: Some(123), ..DatasetOptions::default() };
    let mut first = get_dataset(&config, &tasks, options).unwrap();
    take(&mut first, 3);
    let mut resumed = start(&config, &tasks, Some(&first.state()));
    assert_eq!(take(&mut resumed, 3), take(&mut first, 3));
}

#[test]
fn a_position_of_other_data_is_refused() {
    let folder = folder_of_ids(&[20, 30]);
    let tasks = tasks([task_of_ids(&folder)]);
    let state = start(&config("ids", (4, 4)), &tasks, None).state();
    let options = DatasetOptions { resume: Some(state), ..DatasetOptions::default() };
    let other = DatasetConfig { pack: true, ..config("ids", (4, 4)) };
    let error = get_dataset(&other, &tasks, options).err().unwrap().to_string();
    assert!(error.contains("does not fit this run") && error.contains("packed"), "{error}");
}

#[test]
fn another_data_set_begins_anew_and_says_so() {
    let folder = folder_of_text();
    let tasks = tasks([span_corruption_task(&folder), text_task(&folder)]);
    let mut pretrained = start(&config("spans", (64, 32)), &tasks, None);
    take(&mut pretrained, 2);
    let other = config("lines", (64, 32));
    let mut begun = start(&other, &tasks, Some(&pretrained.state()));
    let said = "the saved data position is of `spans train`: `lines train` starts over";
    assert_eq!(begun.notices(), [said]);
    assert_eq!(take(&mut begun, 3), take(&mut start(&other, &tasks, None), 3));
}

#[test]
fn a_position_in_other_files_is_refused_and_in_files_that_grew_taken_up() {
    let folder = folder_of_text();
    let (tasks, config) = (tasks([text_task(&folder)]), config("lines", (64, 32)));
    let mut before = start(&config, &tasks, None);
    take(&mut before, 3);
    let state = before.state();
    let file = folder.path().join("3.txt");
    let text = std::fs::read_to_string(&file).unwrap() + "more\n";
    std::fs::write(&file, text).unwrap();
    take(&mut start(&config, &tasks, Some(&state)), 1);

    std::fs::rename(&file, folder.path().join("4.txt")).unwrap();
    let options = DatasetOptions { resume: Some(state), ..DatasetOptions::default() };
    let error = get_dataset(&config, &tasks, options).err().unwrap().to_string();
    assert!(error.contains("does not fit this run") && error.contains("files 4"), "{error}");
}
