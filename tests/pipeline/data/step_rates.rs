//! Rates of a mixture that change with the training step.

use gimlet::data::{DatasetOptions, DatasetState, TaskProvider, get_dataset};
use gimlet::run::{GinTasks, registry};

use super::*;

/// Three tasks, whose examples tell them apart, and mixtures of them.
const TASKS: &str = "
seqio.PassThroughVocabulary.size = 1000
seqio.PassThroughVocabulary.eos_id = 1
seqio.Feature.vocabulary = @seqio.PassThroughVocabulary()
a/seqio.JsonLinesDataSource.split_to_filepattern = {'train': 'A/*.jsonl'}
b/seqio.JsonLinesDataSource.split_to_filepattern = {'train': 'B/*.jsonl'}
c/seqio.JsonLinesDataSource.split_to_filepattern = {'train': 'C/*.jsonl', 'other': 'C/*.jsonl'}
a/seqio.Task.source = @a/seqio.JsonLinesDataSource()
b/seqio.Task.source = @b/seqio.JsonLinesDataSource()
c/seqio.Task.source = @c/seqio.JsonLinesDataSource()
seqio.Task.output_features = {'inputs': @seqio.Feature(), 'targets': @seqio.Feature()}
stages/seqio.Mixture.tasks = [('a', {0: 3.0, 100: 1.0, 200: 0.0}), ('b', 1), ('c', {0: 0.0, 200: 1.0})]
short/seqio.Mixture.tasks = [('a', {0: 3.0, 5: 0.0}), ('b', {0: 1.0, 8: 0.0}), ('c', {0: 0.0, 5: 1.0})]
equal/seqio.Mixture.tasks = [('a', 1), ('b', 1)]
nested/seqio.Mixture.tasks = [('stages', {0: 1.0, 150: 3.0}), ('equal', 1)]
";

/// The folders of the three tasks, each with files for two streams. The first id of an example is 2 and the number of its file:
/// 2 and 3, 4 and 5, 6 and 7.
fn folders() -> [tempfile::TempDir; 3] {
    let folders = [&[9, 7][..], &[0, 0, 8, 5], &[0, 0, 0, 0, 6, 9]].map(folder_of_ids);
    for file in folders.iter().flat_map(|folder| std::fs::read_dir(folder.path()).unwrap()) {
        let file = file.unwrap();
        if file.metadata().unwrap().len() == 0 {
            std::fs::remove_file(file.path()).unwrap();
        }
    }
    folders
}

/// The tasks of a text.
fn loaded(text: &str, folders: &[tempfile::TempDir; 3]) -> Result<GinTasks, String> {
    let mut text = text.to_string();
    for (letter, folder) in ["A", "B", "C"].iter().zip(folders) {
        text = text.replace(&format!("'{letter}/"), &format!("'{}/", folder.path().display()));
    }
    let loaded = load_texts("", &text).map_err(|error| error.render(false))?;
    Ok(GinTasks::new(loaded, registry()))
}

fn tasks(more: &str) -> (GinTasks, [tempfile::TempDir; 3]) {
    let folders = folders();
    (loaded(&format!("{TASKS}{more}"), &folders).unwrap(), folders)
}

/// The tasks of a batch's rows, by number.
fn drawn(batch: &Batch) -> Vec<usize> {
    batch.rows_of("encoder_input_tokens").map(|row| (row[0] as usize - 2) / 2).collect()
}

/// How often each task is drawn from step to step.
fn counts(batches: &[Batch]) -> [usize; 3] {
    let mut counts = [0; 3];
    batches.iter().flat_map(drawn).for_each(|task| counts[task] += 1);
    counts
}

/// Of 400 examples, four standard deviations are at most 40.
fn check(found: [usize; 3], expected: [usize; 3]) {
    for (found, expected) in found.into_iter().zip(expected) {
        let tolerance = if expected == 0 { 0 } else { 40 };
        assert!(found.abs_diff(expected) <= tolerance, "{found}, expected {expected}");
    }
}

fn read(text: &str, name: &str, step: u64, count: usize) -> Vec<Batch> {
    let folders = folders();
    let tasks = loaded(text, &folders).unwrap();
    let options = DatasetOptions { step, ..DatasetOptions::default() };
    take(&mut get_dataset(&config(name, (4, 4)), &tasks, options).unwrap(), count)
}

#[test]
fn each_batch_is_drawn_at_the_rates_of_its_step() {
    let batches = read(TASKS, "stages", 0, 300);
    check(counts(&batches[..100]), [300, 100, 0]);
    check(counts(&batches[100..200]), [200, 200, 0]);
    check(counts(&batches[200..]), [0, 200, 200]);
    // Until they change, rates by step draw as constant ones.
    let constant =
        TASKS.replace("{0: 3.0, 100: 1.0, 200: 0.0}", "3.0").replace("{0: 0.0, 200: 1.0}", "0");
    assert_eq!(read(&constant, "stages", 0, 100), batches[..100]);
}

#[test]
fn data_that_begin_at_a_later_step_begin_at_its_rates() {
    check(counts(&read(TASKS, "stages", 200, 100)), [0, 200, 200]);
    let border = read(TASKS, "short", 4, 2);
    assert!(!drawn(&border[0]).contains(&2) && !drawn(&border[1]).contains(&0));
}

#[test]
fn mixtures_within_mixtures_change_at_the_steps_of_both() {
    let batches = read(TASKS, "nested", 0, 300);
    // Halves of 3 : 1 : 0 and 1 : 1 : 0, and later three quarters of 0 : 1 : 1 and a quarter of the other.
    check(counts(&batches[..100]), [250, 150, 0]);
    check(counts(&batches[200..]), [50, 200, 150]);
}

/// The configurations in which hosts and resumed runs are compared.
fn configs() -> [DatasetConfig; 3] {
    let plain = DatasetConfig { shuffle: true, ..config("short", (4, 4)) };
    let packed = DatasetConfig { pack: true, ..config("short", (12, 12)) };
    let parts = DatasetConfig { file_parts: Some(2), ..packed.clone() };
    [plain, packed, parts]
}

#[test]
fn a_resumed_run_draws_as_if_it_had_not_been_interrupted() {
    let (tasks, _folders) = tasks("");
    for config in configs() {
        let start = |resume: Option<DatasetState>, step| {
            let options = DatasetOptions { resume, step, ..DatasetOptions::default() };
            get_dataset(&config, &tasks, options).unwrap()
        };
        let mut whole = start(None, 0);
        let (mut states, mut batches) = (vec![whole.state()], Vec::new());
        for _ in 0..14 {
            batches.push(whole.next_batch().unwrap().expect("data repeat"));
            states.push(whole.state());
        }
        // Rates change at the steps 5 and 8.
        for (done, state) in states.into_iter().enumerate().take(10) {
            let mut resumed = start(Some(state), done as u64);
            assert_eq!(take(&mut resumed, 4), batches[done..done + 4], "after {done} batches");
        }
    }
}

#[test]
fn two_hosts_draw_as_one_and_one_continues_where_two_were() {
    let (tasks, _folders) = tasks("");
    for config in configs() {
        let read = |(shard_index, num_shards), resume: Option<DatasetState>, step| {
            let options = DatasetOptions {
                shard_index,
                num_shards,
                resume,
                step,
                ..DatasetOptions::default()
            };
            let mut batches = get_dataset(&config, &tasks, options).unwrap();
            let rows =
                |batch: Batch| batch.rows_of("encoder_input_tokens").map(<[i32]>::to_vec).collect();
            let read: Vec<Vec<Vec<i32>>> = take(&mut batches, 7).into_iter().map(rows).collect();
            (read, batches.state())
        };
        let (expected, _) = read((0, 1), None, 0);
        let hosts = [0, 1].map(|host| read((host, 2), None, 0));
        let both =
            hosts[0].0.iter().zip(&hosts[1].0).map(|(one, other)| [&one[..], other].concat());
        assert_eq!(both.collect::<Vec<_>>(), expected);
        let state = DatasetState::merged(hosts.map(|(_, state)| state)).unwrap();
        let (_, alone) = read((0, 1), None, 0);
        assert_eq!(read((0, 1), Some(state), 7).0, read((0, 1), Some(alone), 7).0);
    }
}

#[test]
fn a_mistake_in_rates_by_step_is_told_with_its_place_and_a_remedy() {
    let folders = folders();
    let mistaken = |rates: &str, expected: &[&str]| {
        let text = format!("{TASKS}bad/seqio.Mixture.tasks = [('a', {rates}), ('b', 0)]\n");
        let error = loaded(&text, &folders).err().unwrap_or_else(|| {
            let tasks = loaded(&text, &folders).unwrap();
            let found = get_dataset(&config("bad", (4, 4)), &tasks, DatasetOptions::default());
            tasks.placed("bad", found.err().expect("it is a mistake")).to_string()
        });
        let place = format!("task_file.gin:{}", TASKS.lines().count() + 1);
        for expected in [&place[..]].iter().chain(expected) {
            assert!(error.contains(expected), "{error}, expected {expected}");
        }
    };
    mistaken("{}", &["begin with no rate, expected step 0", "`{0: 0.0, ...}`"]);
    mistaken("{10: 1.0}", &["begin with step 10, expected step 0", "`{0: 0.0, ...}`"]);
    mistaken("{0: 1, 9: 2, 5: 1}", &["step 5 stands after step 9, expected a later step"]);
    mistaken("{-1: 1}", &["expected an int of 0 or more"]);
    mistaken("{0: 'much'}", &["expected a float"]);
    mistaken(
        "{0: 1, 9: -2}",
        &["the rate of `a` from step 9 is -2, expected a number of 0 or more"],
    );
    mistaken(
        "{0: 1, 9: 0}",
        &["all of its rates from step 9 are 0, expected a task with a rate above 0"],
    );
}

#[test]
fn rates_that_change_need_data_in_each_stage_and_no_end_of_passes() {
    let more = "late/seqio.Mixture.tasks = [('a', {0: 0, 3: 1}), ('c', {0: 1, 3: 0})]\n";
    let (tasks, _folders) = tasks(more);
    let error = |config: DatasetConfig| {
        let found = get_dataset(&config, &tasks, DatasetOptions::default());
        found.err().expect("it is a mistake").to_string()
    };
    let other = DatasetConfig { split: "other".to_string(), ..config("late", (4, 4)) };
    let message = error(other);
    let expected = "no task with a rate above 0 from step 3 has the split 'other'";
    assert!(message.contains(expected), "{message}");
    let message = error(DatasetConfig { ends_batch_with_pass: true, ..config("late", (4, 4)) });
    assert!(message.contains("bind `ends_batch_with_pass = False`"), "{message}");
    // Data that are read once have the rates of the first step.
    let options = DatasetOptions { num_epochs: Some(1), step: 5, ..DatasetOptions::default() };
    let batches = take(&mut get_dataset(&config("late", (4, 4)), &tasks, options).unwrap(), 9);
    assert_eq!(counts(&batches), [0, 0, 12]);
}
