//! Functions of the user's Python within tasks, with plain python3, and tasks imported from it.

use std::path::Path;

use assert_cmd::Command;
use gimlet::data::postprocess::PythonPostprocessor;
use gimlet::data::{
    DataError, ExampleFeatures, ExampleOptions, FunctionDataSource, Postprocessor, PythonOver,
    PythonPreprocessor, Tokenize, Value, task_examples,
};
use gimlet::gin::ValueKind;
use gimlet::metrics::{MetricFn, ModelOutput, PythonMetric};
use gimlet::python::PythonWorkers;
use gimlet::vocab::ByteVocabulary;
use serde_json::json;

use super::*;

fn folder_of(name: &str) -> String {
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/pipeline/data/python");
    here.join(name).display().to_string()
}

/// Returns workers that find the test's modules, and its replacements for SeqIO and TensorFlow.
fn workers() -> PythonWorkers {
    PythonWorkers {
        python: None,
        imported_with: None,
        python_path: vec![folder_of("modules"), folder_of("fakes")],
        num_workers: 2,
    }
}

fn kwargs(entries: &[(&str, ValueKind)]) -> BTreeMap<String, gimlet::gin::Value> {
    let value = |kind: &ValueKind| gimlet::gin::Value::unplaced(kind.clone());
    entries.iter().map(|(name, kind)| (name.to_string(), value(kind))).collect()
}

/// A step of `steps.py`, in small batches.
fn step(function: &str) -> PythonPreprocessor {
    PythonPreprocessor {
        module: "steps".to_string(),
        function: Some(function.to_string()),
        task: None,
        step: 0,
        kwargs: BTreeMap::new(),
        over: PythonOver::Records,
        element: None,
        batch_size: 3,
        workers: workers(),
    }
}

/// Returns a task of texts of JSON lines with these steps, and without ids: features are not read.
fn texts(folder: &tempfile::TempDir, targets: &[&str], steps: Vec<PythonPreprocessor>) -> Task {
    let lines: String = targets
        .iter()
        .map(|text| json!({"inputs": text, "targets": text}).to_string() + "\n")
        .collect();
    std::fs::write(folder.path().join("a.jsonl"), lines).unwrap();
    let source = json_source(&format!("{}/a.jsonl", folder.path().display()));
    let steps = steps.into_iter().map(Preprocessor::PythonPreprocessor).collect();
    task("it", source, steps, BTreeMap::new())
}

fn read(task: &Task) -> Result<Vec<String>, DataError> {
    let options = ExampleOptions { split: "train".to_string(), ..ExampleOptions::default() };
    let examples = task_examples(task, &options)?;
    examples.map(|example| Ok(example?.text("targets").unwrap_or("no text").to_string())).collect()
}

#[test]
fn programs_that_a_function_starts_find_no_requests_on_their_standard_input() {
    let folder = tempfile::tempdir().unwrap();
    let read = read(&texts(&folder, &["a", "b"], vec![step("piped")])).unwrap();
    assert_eq!(read, ["a", "b"]);
}

#[test]
fn a_function_changes_drops_and_multiplies_records_in_their_order() {
    let folder = tempfile::tempdir().unwrap();
    let mark = PythonPreprocessor {
        kwargs: kwargs(&[("mark", ValueKind::Str("?".to_string()))]),
        ..step("shout")
    };
    let targets = ["a", "bc", "def", "g", "", "hi", "jklm"];
    let task = texts(&folder, &targets, vec![step("none_or_several"), mark]);
    let expected = ["A0?", "BC0?", "BC1?", "G0?", "HI0?", "HI1?", "JKLM0?"];
    assert_eq!(read(&task).unwrap(), expected);
}

#[test]
fn seeds_are_those_of_the_records_whatever_the_batch() {
    let folder = tempfile::tempdir().unwrap();
    let targets = ["a", "b", "c", "d", "e"];
    let noise = |batch_size| {
        read(&texts(&folder, &targets, vec![PythonPreprocessor { batch_size, ..step("noisy") }]))
            .unwrap()
    };
    let made = noise(2);
    assert_eq!(made, noise(5));
    let distinct: std::collections::BTreeSet<&str> =
        made.iter().map(|text| text.split_once(' ').unwrap().1).collect();
    assert_eq!(distinct.len(), 5, "{made:?}");
}

#[test]
fn functions_are_told_lengths_and_features_if_they_ask() {
    let folder = tempfile::tempdir().unwrap();
    let mut task = texts(&folder, &["a"], vec![step("told")]);
    task.output_features = features(&ids_vocabulary(), &["other"]);
    task.output_features.get_mut("other").unwrap().required = false;
    let lengths = Some(BTreeMap::from([("other".to_string(), 7)]));
    let options = ExampleOptions { split: "train".into(), lengths, ..ExampleOptions::default() };
    let example = task_examples(&task, &options).unwrap().next().unwrap().unwrap();
    assert_eq!(example.text("targets"), Some("{'other': 7} PassThroughVocabulary int32 1"));
}

#[test]
fn an_exception_is_told_with_its_record_and_traceback() {
    let folder = tempfile::tempdir().unwrap();
    let task = texts(&folder, &["a", "b", "c", "d", "bad"], vec![step("picky")]);
    let error = read(&task).unwrap_err().to_string();
    for part in [
        "task `it`, ",
        "a.jsonl:5 at byte",
        "`steps:picky` raised",
        "steps.py",
        "in picky",
        "ValueError: this record is bad",
    ] {
        assert!(error.contains(part), "no {part} in {error}");
    }
    assert!(!error.contains("gimlet_worker"), "{error}");
    let error = read(&texts(&folder, &["a"], vec![step("wrong")])).unwrap_err().to_string();
    assert!(
        error.contains("a.jsonl:1 at byte 0: `steps:wrong`: it gave: feature 'targets' is None"),
        "{error}"
    );
}

#[test]
fn functions_modules_and_interpreters_that_are_not_there_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let check = |step: PythonPreprocessor, expected: &str| {
        let error = read(&texts(&folder, &["a"], vec![step])).unwrap_err().to_string();
        assert!(error.contains(expected), "no {expected} in {error}");
    };
    check(step("nothing"), "has no attribute 'nothing'");
    let elsewhere = PythonPreprocessor { module: "no.module".into(), ..step("f") };
    check(elsewhere.clone(), "No module named 'no'");
    check(
        elsewhere,
        "\nname the Python that has your modules with the environment variable GIMLET_PYTHON or with \
         `gimlet.PythonWorkers.python`",
    );
    let python = PythonWorkers { python: Some("/no/python".to_string()), ..workers() };
    check(
        PythonPreprocessor { workers: python, ..step("shout") },
        "cannot start `/no/python` (of `gimlet.PythonWorkers.python`)",
    );
    check(PythonPreprocessor { function: None, ..step("") }, "exactly one of them");
}

#[test]
fn a_killed_worker_is_started_again_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = ValueKind::Str(folder.path().display().to_string());
    let mortal = PythonPreprocessor { kwargs: kwargs(&[("folder", path)]), ..step("mortal") };
    assert_eq!(read(&texts(&folder, &["a", "b"], vec![mortal])).unwrap(), ["a", "b"]);
    let error = read(&texts(&folder, &["a"], vec![step("deadly")])).unwrap_err().to_string();
    assert!(
        error.contains(
            "`steps:deadly` ended its process of `python3` (of the PATH) (exit status: 3)"
        ),
        "{error}"
    );
}

/// Returns a task of bytes of JSON lines through Python, and through another step after it.
fn byte_task(folder: &tempfile::TempDir) -> Task {
    let targets: Vec<String> = (0..70).map(|i| "x".repeat(i % 9)).collect();
    let targets: Vec<&str> = targets.iter().map(String::as_str).collect();
    let mut task = texts(folder, &targets, vec![step("none_or_several"), step("noisy")]);
    task.preprocessors
        .push(Preprocessor::Tokenize(Tokenize { copy_pretokenized: false, with_eos: false }));
    task.output_features =
        features(&VocabularySpec::Byte(ByteVocabulary::of(0)), &["inputs", "targets"]);
    task
}

#[test]
fn a_resumed_run_goes_on_behind_python_where_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let all = tasks([byte_task(&folder)]);
    let config = DatasetConfig { batch_size: 4, ..config("it", (8, 48)) };
    super::resume::check(&config, &all);
}

fn function_source(function: &str) -> FunctionDataSource {
    FunctionDataSource {
        module: Some("steps".to_string()),
        dataset_fn: Some(function.to_string()),
        task: None,
        splits: vec!["train".to_string()],
        num_input_examples: None,
        kwargs: kwargs(&[("count", ValueKind::from(700))]),
        workers: workers(),
    }
}

#[test]
fn a_source_is_read_and_resumed_by_record() {
    let source = DataSource::FunctionDataSource(function_source("made"));
    let mut task = task("it", source, Vec::new(), BTreeMap::new());
    let numbers: Vec<String> = (0..700).map(|number| number.to_string()).collect();
    assert_eq!(read(&task).unwrap(), numbers);
    let options = ExampleOptions { split: "train".to_string(), ..ExampleOptions::default() };
    let first = task_examples(&task, &options).unwrap().next().unwrap().unwrap();
    assert_eq!(first.get("from/split"), Some(&Value::Text("train".to_string())));
    task.preprocessors
        .push(Preprocessor::Tokenize(Tokenize { copy_pretokenized: false, with_eos: false }));
    task.output_features =
        features(&VocabularySpec::Byte(ByteVocabulary::of(0)), &["inputs", "targets"]);
    let all = tasks([task]);
    super::resume::check(&DatasetConfig { batch_size: 8, ..config("it", (8, 8)) }, &all);
}

#[test]
fn processes_stay_from_epoch_to_epoch() {
    let folder = tempfile::tempdir().unwrap();
    let path = || kwargs(&[("folder", ValueKind::Str(folder.path().display().to_string()))]);
    // Workers of its own: other tests of this program leave processes, which a source would take.
    let here = folder.path().display().to_string();
    let python_path = [workers().python_path, vec![here]].concat();
    let own = PythonWorkers { python_path, ..workers() };
    let source = function_source("counted_source");
    let source = FunctionDataSource { kwargs: path(), workers: own.clone(), ..source };
    let counted = PythonPreprocessor { kwargs: path(), workers: own, ..step("counted") };
    let tokenize = Tokenize { copy_pretokenized: false, with_eos: false };
    let steps = vec![Preprocessor::PythonPreprocessor(counted), Preprocessor::Tokenize(tokenize)];
    let source = DataSource::FunctionDataSource(source);
    let bytes = VocabularySpec::Byte(ByteVocabulary::of(0));
    let task = task("it", source, steps, features(&bytes, &["inputs", "targets"]));
    let config = DatasetConfig { batch_size: 8, ..config("it", (8, 8)) };
    let options = gimlet::data::DatasetOptions::default();
    let mut batches = gimlet::data::get_dataset(&config, &tasks([task]), options).unwrap();
    for _ in 0..20 {
        batches.next_batch().unwrap().expect("data repeat");
    }
    drop(batches);
    let names = std::fs::read_dir(folder.path()).unwrap();
    let names: Vec<String> =
        names.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    let count = |prefix: &str| names.iter().filter(|name| name.starts_with(prefix)).count();
    assert!(count("epoch-") >= 4, "{names:?}");
    assert_eq!(count("source-"), 1, "{names:?}");
    assert!((1..=2).contains(&count("step-")), "{names:?}");
}

#[test]
fn a_source_without_its_split_says_so() {
    let source = DataSource::FunctionDataSource(function_source("made"));
    let task = task("it", source, Vec::new(), BTreeMap::new());
    let options = ExampleOptions { split: "test".to_string(), ..ExampleOptions::default() };
    let error = task_examples(&task, &options).err().unwrap().to_string();
    assert_eq!(error, "`it` has no split 'test'; it has 'train'");
}

#[test]
fn metrics_and_postprocessors_run_in_python() {
    let metric = MetricFn::PythonMetric(PythonMetric {
        module: "steps".to_string(),
        function: Some("shares".to_string()),
        task: None,
        index: 0,
        kwargs: kwargs(&[("times", ValueKind::from(100))]),
        model_output: ModelOutput::Prediction,
        workers: workers(),
    });
    let found = metric.compute(&[json!("a"), json!({"b": [1]})], &[json!("a"), json!({"b": [2]})]);
    let found = found.unwrap();
    assert_eq!(found["right"], 50.0);
    assert!(found["none"].is_nan());
    let postprocess = Postprocessor::PythonPostprocessor(PythonPostprocessor {
        module: "steps".to_string(),
        function: Some("label".to_string()),
        task: None,
        kwargs: BTreeMap::new(),
        as_numpy: false,
        workers: workers(),
    });
    let example = json!({"answers": ["x", "y"]}).as_object().unwrap().clone();
    let made = |is_target| postprocess.apply("é", &example, is_target).unwrap();
    assert_eq!(made(true), json!({"text": "é", "answers": ["x", "y"]}));
    assert_eq!(made(false), json!({"text": "é", "answers": []}));
    let error = postprocess.apply("x", &ExampleFeatures::default(), true).unwrap_err();
    assert!(error.contains("KeyError: 'answers'"), "{error}");
}

/// Runs `gimlet` with the replacements and a cache of its own; returns status, standard output and standard error.
fn gimlet(folder: &Path, words: &[&str]) -> (i32, String, String) {
    gimlet_with(folder, words, &[])
}

fn gimlet_with(folder: &Path, words: &[&str], variables: &[(&str, &str)]) -> (i32, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gimlet"));
    let path = std::env::join_paths([folder_of("modules"), folder_of("fakes")]).unwrap();
    command.env("PYTHONPATH", path).env("XDG_CACHE_HOME", folder.join("cache"));
    command.envs(variables.iter().copied());
    let output = command.current_dir(folder).args(words).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

#[test]
fn registered_tasks_become_a_task_file_that_checks() {
    let folder = tempfile::tempdir().unwrap();
    let (status, out, error) = gimlet(folder.path(), &["task", "import", "lab.tasks"]);
    assert_eq!(status, 0, "{error}");
    assert!(
        out.starts_with("wrote lab/tasks.gin: 3 tasks and 1 mixture; 8 functions run in Python\n"),
        "{out}"
    );
    assert!(error.contains("`lab.summaries`, step 1: lab.tasks:tag (tasks.py:20): "), "{error}");
    let written = std::fs::read_to_string(folder.path().join("lab/tasks.gin")).unwrap();
    let golden = folder_of("lab_tasks.golden");
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&golden, &written).unwrap();
    }
    assert_eq!(written, std::fs::read_to_string(golden).unwrap());
    let check = ["task", "check", "--offline", "--module_import=lab.tasks"];
    let (status, out, error) = gimlet(folder.path(), &check);
    assert_eq!((status, &out[..]), (0, "3 tasks and 1 mixture: no mistakes\n"), "{error}");
    // A file is not replaced by accident.
    let (status, _, error) = gimlet(folder.path(), &["task", "import", "lab.tasks"]);
    assert!(status == 2 && error.contains("`lab/tasks.gin` exists already"), "{error}");
}

/// Returns the task `lab_made` of `lab/tasks.py`, whose source and first step run in Python by its
/// name.
fn lab_made() -> Task {
    let source = FunctionDataSource {
        module: Some("lab.tasks".to_string()),
        dataset_fn: None,
        task: Some("lab_made".to_string()),
        kwargs: BTreeMap::new(),
        ..function_source("")
    };
    let step = PythonPreprocessor {
        module: "lab.tasks".to_string(),
        function: None,
        task: Some("lab_made".to_string()),
        over: PythonOver::Dataset,
        ..step("")
    };
    let steps = vec![Preprocessor::PythonPreprocessor(step)];
    task("lab_made", DataSource::FunctionDataSource(source), steps, BTreeMap::new())
}

#[test]
fn parts_of_registered_tasks_run_by_the_name_of_their_task() {
    let expected: Vec<String> = (0..6).map(|number| format!("made train{number}")).collect();
    assert_eq!(read(&lab_made()).unwrap(), expected);
}

#[test]
fn a_dataset_of_bare_values_is_given_to_a_function_that_takes_them() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("a.txt"), "one\ntwo\n").unwrap();
    let source = text_source(&format!("{}/a.txt", folder.path().display()));
    let lines = PythonPreprocessor {
        module: "lab.tasks".to_string(),
        over: PythonOver::Dataset,
        element: Some("text".to_string()),
        ..step("as_targets")
    };
    let steps = vec![Preprocessor::PythonPreprocessor(lines)];
    assert_eq!(read(&task("it", source, steps, BTreeMap::new())).unwrap(), ["one", "two"]);
}

#[test]
fn what_python_made_is_cached() {
    let folder = tempfile::tempdir().unwrap();
    let mut task = lab_made();
    let placeholder = gimlet::data::CacheDatasetPlaceholder { required: true };
    task.preprocessors.push(Preprocessor::CacheDatasetPlaceholder(placeholder));
    let place = gimlet::storage::Path::try_from(folder.path()).unwrap();
    let cache = gimlet::data::CacheFolder::of(&place, "lab_made");
    let options = gimlet::data::CacheOptions::default();
    gimlet::data::write_cache(&task, &cache, &options, &mut |_, _| {}).unwrap();
    let caches = gimlet::data::Caches {
        folders: vec![folder.path().display().to_string()],
        ..gimlet::data::Caches::default()
    };
    let options = ExampleOptions {
        split: "train".to_string(),
        cache: Some(caches),
        ..ExampleOptions::default()
    };
    // Its Python is no longer called.
    let Preprocessor::PythonPreprocessor(step) = &mut task.preprocessors[0] else { unreachable!() };
    step.module = "gone".to_string();
    assert_eq!(task_examples(&task, &options).unwrap().map(Result::unwrap).count(), 6);
}

#[test]
fn modules_without_tasks_and_mistakes_of_python_are_told() {
    let folder = tempfile::tempdir().unwrap();
    let import = |words: &[&str]| gimlet(folder.path(), &[&["task", "import"], words].concat());
    let (status, _, error) = import(&["steps"]);
    assert!(status == 2 && error.contains("`steps` registers no tasks or mixtures"), "{error}");
    let (status, _, error) = import(&["nowhere.tasks"]);
    assert!(status == 2 && error.contains("No module named 'nowhere'"), "{error}");
    let (status, _, error) = import(&["lab.tasks", "no_such"]);
    assert!(
        status == 2 && error.contains("`lab.tasks` registers no task or mixture `no_such`"),
        "{error}"
    );
}

/// A module `mine` with one task, and a file that imports it.
fn mine() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    write("words.py", "SPLIT = 'train'\n");
    write(
        "mine.py",
        "import seqio\nfrom lab import tasks\nfrom words import SPLIT\nseqio.TaskRegistry.add(\n    'my_task', \
         source=seqio.TextLineDataSource({SPLIT: 'a.txt'}),\n    preprocessors=[tasks.as_targets, *tasks.END], \
         output_features=tasks.FEATURES, metric_fns=[])\n",
    );
    write("run.gin", "import mine\n");
    folder
}

#[test]
fn a_run_imports_a_module_that_is_only_python_and_keeps_its_tasks() {
    let folder = mine();
    let list = || {
        let (status, out, error) = gimlet(folder.path(), &["task", "list", "--gin_file=run.gin"]);
        assert_eq!(status, 0, "{error}");
        assert!(out.contains("my_task") && out.contains("lab_made"), "{out}");
        error
    };
    let said = list();
    let notice = "imported mine.py with `python3` (of the PATH) and SeqIO 0.0.20: 1 task; 1 function runs in \
                  Python; `gimlet task import mine` writes it as a task file";
    assert_eq!(said.matches(notice).count(), 1, "{said}");
    // The module itself imports `lab.tasks`, whose tasks come with it.
    assert_eq!(said.matches("tasks.py with `python3`").count(), 1, "{said}");
    assert_eq!(list(), "");
    // Another file of Python changes.
    std::fs::write(folder.path().join("words.py"), "SPLIT = 'validation'\n").unwrap();
    assert_eq!(list().matches("imported mine.py").count(), 1);
    // Tools that only read text start no Python.
    let (status, _, error) = gimlet(folder.path(), &["gin", "check", "run.gin"]);
    assert_eq!(status, 1, "{error}");
    assert!(error.contains("`gimlet task import mine`"), "{error}");
}

#[test]
fn a_module_that_a_run_cannot_import_is_an_error_at_its_import() {
    let folder = mine();
    let fails = |variables: &[(&str, &str)], expected: &[&str]| {
        let run = ["task", "list", "--gin_file=run.gin"];
        let (status, _, error) = gimlet_with(folder.path(), &run, variables);
        assert_eq!(status, 2, "{error}");
        for part in [&["run.gin:1:8", "GIMLET_PYTHON"], expected].concat() {
            assert!(error.contains(part), "{part}\n{error}");
        }
    };
    fails(&[("GIMLET_PYTHON", "/no/python")], &["cannot start `/no/python` (of GIMLET_PYTHON)"]);
    // The interpreter that the run binds is asked.
    let bound = "import mine\ngimlet.PythonWorkers.python = '/no/bound'\n";
    std::fs::write(folder.path().join("run.gin"), bound).unwrap();
    fails(&[], &["cannot start `/no/bound` (of `gimlet.PythonWorkers.python`)"]);
    std::fs::write(folder.path().join("run.gin"), "import mine\n").unwrap();
    fails(
        &[("PYTHONPATH", "")],
        &["`python3` (of the PATH) has no `seqio`", "-m pip install seqio"],
    );
    std::fs::write(folder.path().join("words.py"), "import nowhere\n").unwrap();
    fails(&[], &["words.py\", line 1", "No module named 'nowhere'"]);
}

#[test]
fn functions_run_in_the_interpreter_that_imported_them() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let module = "import seqio\nfrom lab import tasks\nseqio.TaskRegistry.add(\n    'local', \
                  source=seqio.FunctionDataSource(tasks.examples, splits=('train',)),\n    \
                  preprocessors=[tasks.as_targets, seqio.preprocessors.tokenize], metric_fns=[],\n    \
                  output_features={'targets': seqio.Feature(vocabulary=seqio.ByteVocabulary())})\n";
    std::fs::write(folder.path().join("local.py"), module).unwrap();
    let python = folder.path().join("my_python");
    std::fs::write(&python, "#!/bin/sh\necho used >>used\nexec python3 \"$@\"\n").unwrap();
    std::fs::set_permissions(&python, std::fs::Permissions::from_mode(0o755)).unwrap();
    let used =
        || std::fs::read_to_string(folder.path().join("used")).unwrap_or_default().lines().count();
    let import = ["task", "import", "local", "--python", "./my_python"];
    let (status, _, error) = gimlet(folder.path(), &import);
    assert_eq!((status, used()), (0, 1), "{error}");
    let show = ["task", "show", "local", "--module_import=local", "--num_examples=1"];
    let show = [&show[..], &["--task_feature_lengths=targets=8"]].concat();
    let (status, _, error) = gimlet_with(folder.path(), &show, &[("GIMLET_PYTHON", "python3")]);
    assert_eq!((status, used()), (0, 1), "{error}");
    let (status, _, error) = gimlet(folder.path(), &show);
    assert!(status == 0 && used() > 1, "{error}");
}
