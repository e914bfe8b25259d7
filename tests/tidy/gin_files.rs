//! Every shipped gin file resolves: the library, the tasks and the runs.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use gimlet::data::TaskProvider;
use gimlet::eval::Evaluate;
use gimlet::gin::{Diagnostics, Evaluator, Loaded, Request, format, load};
use gimlet::infer::Infer;
use gimlet::partition::{LocalDevice, Process};
use gimlet::precompile::Precompile;
use gimlet::run::{GinTasks, Library, PlannedRun, Root, registry};
use gimlet::storage::set_path_map;
use gimlet::train::Train;

use crate::assert_none;
use crate::run_commands::{RunCommand, command, gin_files, run_commands};

/// Files for inclusion in others, which have no meaning alone.
const PARTS: [&str; 7] = [
    "encoder_decoder.gin",
    "local_tiny.gin",
    "umt5/vocab.gin",
    "umt5/optimizer/adafactor.gin",
    "umt5/optimizer/adafactor_momentum_nofactor.gin",
    "umt5/runs/finetuning_common.gin",
    "umt5/runs/pretraining_common.gin",
];

/// Runs of umT5, which T5X has beside models, by the beginnings of their names.
const UMT5_RUNS: [&str; 2] = ["tydiqa_", "pretrain_"];

/// The bindings that library runs require from their users.
const REQUIRED: [&str; 5] = [
    "import t5.data.mixtures",
    "MIXTURE_OR_TASK_NAME = 'c4_v220_span_corruption'",
    "TASK_FEATURE_LENGTHS = {'inputs': 512, 'targets': 114}",
    "TRAIN_STEPS = 1",
    "DROPOUT_RATE = 0.0",
];

/// The bindings that every run requires.
const PLACES: [&str; 5] = [
    "MODEL_DIR = '/nowhere'",
    "INITIAL_CHECKPOINT_PATH = '/nowhere'",
    "CHECKPOINT_PATH = '/nowhere'",
    "EVAL_OUTPUT_DIR = '/nowhere'",
    "INFER_OUTPUT_DIR = '/nowhere'",
];

/// A small vocabulary in place of those of runs.
const VOCABULARY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/runs/quickstart/data/botchan.model");

/// The vocabularies of runs.
const VOCABULARIES: [&str; 5] = [
    "gs://myv4-bucket/sentencepiece/ro.model",
    "gs://t5-data/vocabs/cc_all.32000/sentencepiece.model",
    "gs://t5-data/vocabs/cc_all.32000.100extra/sentencepiece.model",
    "gs://t5-data/vocabs/mc4.250000.100extra/sentencepiece.model",
    "gs://t5-data/vocabs/umt5.256000/sentencepiece.model",
];

#[test]
fn every_file_is_laid_out() {
    let mut breaches = Vec::new();
    for file in ["gin", "tasks", "runs", "tests/e2e"].into_iter().flat_map(gin_files) {
        let text = fs::read_to_string(&file).expect("gin files are UTF-8");
        if format(&text).as_ref() != Ok(&text) {
            breaches.push(file.display().to_string());
        }
    }
    assert_none("run `gimlet gin fmt FILE`", breaches);
}

#[test]
fn every_library_model_resolves_with_every_library_run() {
    let runs = ["t5x/configs/runs/pretrain.gin", "t5x/configs/runs/finetune.gin"];
    let models: Vec<PathBuf> = gin_files("gin/t5x/examples")
        .into_iter()
        .filter(|path| !PARTS.iter().any(|part| path.ends_with(part)) && !is_run(path))
        .collect();
    assert!(models.len() > 20, "found {} models only", models.len());
    let mut failures = Vec::new();
    let files = |model: &Path, run: &str| vec![model.display().to_string(), run.to_string()];
    for model in &models {
        for run in runs {
            failures.extend(resolve(files(model, run), &REQUIRED, ".", task_of_train).err());
        }
        let evaluation = files(model, "t5x/configs/runs/eval.gin");
        failures.extend(resolve(evaluation, &REQUIRED, ".", task_of_evaluate).err());
    }
    assert_none("these do not resolve", failures);
}

/// Whether it is a whole run among the models, as T5X publishes some.
fn is_run(path: &Path) -> bool {
    path.parent().is_some_and(|folder| folder.ends_with("examples")) || is_run_of_umt5(path)
}

fn is_run_of_umt5(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).expect("files have ASCII names");
    path.parent().is_some_and(|folder| folder.ends_with("umt5"))
        && UMT5_RUNS.iter().any(|start| name.starts_with(start))
}

#[test]
fn every_run_among_the_library_models_resolves() {
    let runs: Vec<PathBuf> =
        gin_files("gin/t5x/examples").into_iter().filter(|path| is_run(path)).collect();
    assert!(runs.len() > 10, "found {} runs only", runs.len());
    let mut failures = Vec::new();
    for run in runs {
        let text = fs::read_to_string(&run).expect("runs are readable");
        let files = vec![run.display().to_string()];
        // Some of them require the task from their users.
        let task = ["import t5.data.mixtures", "MIXTURE_OR_TASK_NAME = 'wmt14_enfr_v003'"];
        let held_out = "TRAIN_EVAL_MIXTURE_OR_TASK_NAME = 'wmt14_enfr_v003'";
        let mut bindings = Vec::new();
        if run.ends_with("base_wmt14enfr_eval.gin") || is_run_of_umt5(&run) {
            bindings.extend(task);
        }
        if text.contains("TRAIN_EVAL_MIXTURE_OR_TASK_NAME") {
            bindings.push(held_out);
        }
        let bindings = &bindings[..];
        failures.extend(if text.contains("eval_script.evaluate:") {
            resolve(files, bindings, ".", task_of_evaluate).err()
        } else if text.contains("runs/infer.gin") {
            resolve(files, bindings, ".", task_of_infer).err()
        } else {
            resolve(files, bindings, ".", task_of_train).err()
        });
    }
    let overlay =
        ["t5_1_1/tiny.gin", "local_tiny.gin"].map(|file| format!("t5x/examples/t5/{file}"));
    let [model, tiny] = overlay;
    let run = "t5x/configs/runs/pretrain.gin".to_string();
    failures.extend(resolve(vec![model, run, tiny], &REQUIRED, ".", task_of_train).err());
    assert_none("these do not resolve", failures);
}

#[test]
fn every_model_of_flaxformers_modules_resolves() {
    let mut failures = Vec::new();
    let models: Vec<PathBuf> = gin_files("gin/flaxformer")
        .into_iter()
        .filter(|path| path.components().any(|part| part.as_os_str() == "models"))
        .collect();
    assert!(models.len() >= 20, "found {} models only", models.len());
    let flash = "flaxformer/t5x/configs/t5/architectures/flash_attention.gin";
    for model in models {
        for other in ["t5x/configs/runs/finetune.gin", flash] {
            let pretrain = "t5x/configs/runs/pretrain.gin";
            let run = if other == flash { [pretrain, flash].to_vec() } else { vec![other] };
            let files = [model.to_str().expect("names are ASCII")].into_iter().chain(run);
            let files = files.map(str::to_string).collect();
            failures.extend(resolve(files, &REQUIRED, ".", task_of_train).err());
        }
    }
    assert_none("these do not resolve", failures);
}

/// The bindings that files of prompts require.
const OF_PROMPTS: [&str; 3] =
    ["CLASS_LABELS = ['a']", "EMBEDDING_FILE = '/nowhere'", "PROMPT_FILE = '/nowhere'"];

#[test]
fn every_file_of_prompt_tuning_resolves() {
    let mut failures = Vec::new();
    let bindings = [&REQUIRED[..], &OF_PROMPTS].concat();
    let folder = "gin/prompt_tuning/configs";
    let files = |part: &str| gin_files(&format!("{folder}/{part}"));
    let is_model = |path: &PathBuf| path.parent().is_some_and(|folder| folder.ends_with("models"));
    let models: Vec<PathBuf> = files("models").into_iter().filter(is_model).collect();
    let model = format!("{folder}/models/t5_1_1_prompt.gin");
    let small = format!("{folder}/models/sizes/small.gin");
    let finetune = "prompt_tuning/configs/runs/prompt_finetune.gin".to_string();
    assert!(models.len() >= 14, "found {} models only", models.len());
    for path in models {
        // A model without a size takes the one that follows it.
        let files = vec![path.display().to_string(), small.clone(), finetune.clone()];
        failures.extend(resolve(files, &bindings, ".", task_of_train).err());
    }
    for path in ["models/decoding", "prompts"].into_iter().flat_map(files) {
        let path = path.display().to_string();
        let files = vec![model.clone(), small.clone(), path, finetune.clone()];
        failures.extend(resolve(files, &bindings, ".", task_of_train).err());
    }
    for path in files("extended/models") {
        let path = path.display().to_string();
        let run = |name: &str| format!("prompt_tuning/configs/extended/runs/{name}_finetune.gin");
        let run = match &path {
            path if path.contains("ia3") => run("ia3"),
            path if path.contains("multi_task") => run("multitask_prompt"),
            _ => finetune.clone(),
        };
        // The length of a text needs the vocabulary itself.
        let bytes = ["VOCABULARY = @seqio.ByteVocabulary()"];
        let bytes = if path.contains("wayward") { &bytes[..] } else { &[] };
        let bindings = [&bindings, bytes].concat();
        let files = vec![path, small.clone(), run];
        failures.extend(resolve(files, &bindings, ".", task_of_train).err());
    }
    for path in gin_files("gin/prompt_tuning/extended/perceptron/configs/models") {
        let files = vec![path.display().to_string(), small.clone(), finetune.clone()];
        failures.extend(resolve(files, &bindings, ".", task_of_train).err());
    }
    let run = |name: &str| {
        vec![model.clone(), small.clone(), format!("prompt_tuning/configs/runs/prompt_{name}.gin")]
    };
    failures.extend(resolve(run("eval"), &bindings, ".", task_of_evaluate).err());
    let task = |spec: &Infer| spec.dataset_cfg.mixture_or_task_name.clone();
    failures.extend(resolve(run("infer"), &bindings, ".", task).err());
    assert_none("these do not resolve", failures);
}

/// The bindings of the scripts that start NVIDIA's recipes for GPUs: `PACK=0`, `FUSE_QKV=1` and so on.
const GPU_SCRIPT: [&str; 11] = [
    "network.T5Config.dtype = \"bfloat16\"",
    "train/utils.DatasetConfig.batch_size = 2048",
    "trainer.Trainer.num_microbatches = 0",
    "train_eval/utils.DatasetConfig.batch_size = 2048",
    "infer_eval/utils.DatasetConfig.batch_size = 2048",
    "train/utils.DatasetConfig.pack = 0",
    "train_eval/utils.DatasetConfig.pack = 0",
    "train.te_config_cls = @te_helper.TransformerEngineConfig",
    "te_helper.TransformerEngineConfig.enable_fp8 = 1",
    "te_helper.TransformerEngineConfig.fp8_format = \"hybrid\"",
    "network.T5Config.transpose_batch_sequence = 1",
];

/// Files of the recipes for GPUs that are evaluations or inferences.
const GPU_OTHERS: [&str; 3] =
    ["base_wmt14enfr_eval.gin", "base_wmt_eval.gin", "base_wmt_infer.gin"];

#[test]
fn every_file_of_the_recipes_for_gpus_resolves() {
    let mut failures = Vec::new();
    let folder = "gin/t5x/contrib/gpu/t5";
    let models: Vec<PathBuf> = gin_files(folder)
        .into_iter()
        .filter(|path| path.parent().is_some_and(|folder| !folder.ends_with("gpu/t5")))
        .filter(|path| !path.components().any(|part| part.as_os_str() == "runs"))
        .filter(|path| !is_run(path) && !path.ends_with("adamw_opt.gin"))
        .collect();
    assert_eq!(models.len(), 24);
    let run = "t5x/contrib/gpu/t5/configs/runs/pretrain.gin";
    for model in models {
        let files = vec![model.display().to_string(), run.to_string()];
        failures.extend(resolve(files, &REQUIRED, ".", task_of_train).err());
    }
    let benchmarks = gin_files("gin/t5x/contrib/gpu/scripts_gpu");
    assert_eq!(benchmarks.len(), 1);
    let runs = gin_files(folder)
        .into_iter()
        .filter(|path| is_run(path) && !GPU_OTHERS.iter().any(|other| path.ends_with(other)));
    for run in runs.chain(benchmarks) {
        let file = run.display().to_string();
        let bindings =
            if file.contains("_adam") || file.contains("_pile_") { &GPU_SCRIPT[..] } else { &[] };
        failures.extend(resolve(vec![file], bindings, ".", task_of_train).err());
    }
    assert_none("these do not resolve", failures);
}

#[test]
fn every_file_of_models_with_experts_resolves() {
    let mut failures = Vec::new();
    let bindings = [&REQUIRED[..], &["NUM_MODEL_PARTITIONS = 1", "BATCH_SIZE = 64"]].concat();
    let models = gin_files("gin/flaxformer/t5x/configs/moe/models");
    assert_eq!(models.len(), 19);
    let with = |model: &Path, run: &str| {
        vec![model.display().to_string(), format!("t5x/contrib/moe/configs/runs/{run}.gin")]
    };
    for model in &models {
        failures.extend(resolve(with(model, "pretrain"), &bindings, ".", task_of_train).err());
    }
    let model = &models[0];
    for run in ["continue_pretrain", "sparse_upcycle", "finetune"] {
        failures.extend(resolve(with(model, run), &bindings, ".", task_of_train).err());
    }
    failures.extend(resolve(with(model, "eval"), &bindings, ".", task_of_evaluate).err());
    let task = |spec: &Infer| spec.dataset_cfg.mixture_or_task_name.clone();
    let bindings = [&bindings[..], &["INFER_OUTPUT_DIR = '/nowhere'"]].concat();
    failures.extend(resolve(with(model, "infer"), &bindings, ".", task).err());
    let task = |spec: &Precompile| spec.train_dataset_cfg.mixture_or_task_name.clone();
    failures.extend(resolve(with(model, "precompile"), &bindings, ".", task).err());
    assert_none("these do not resolve", failures);
}

#[test]
fn an_evaluation_is_bound_as_published_files_do_it() {
    let mut failures = Vec::new();
    let dynamic = "from __gin__ import dynamic_registration";
    for (imports, name) in [
        (vec![dynamic, "import __main__ as eval_script"], "eval_script.evaluate"),
        (vec![dynamic, "from t5x import eval as eval_script"], "eval_script.evaluate"),
        (vec![dynamic, "import t5x.eval"], "t5x.eval.evaluate"),
        (vec![], "evaluate"),
        (vec![], "eval.evaluate"),
        (vec![], "t5x.eval.evaluate"),
    ] {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let file = dir.path().join("run.gin");
        let text = format!("{}\n{name}:\n  output_dir = '/elsewhere'\n", imports.join("\n"));
        fs::write(&file, text).expect("the folder can be written");
        let library = ["t5x/examples/t5/t5_1_1/tiny.gin", "t5x/configs/runs/eval.gin"];
        let files = library.map(str::to_string).into_iter().chain([file.display().to_string()]);
        let output_dir = |spec: &Evaluate| {
            assert_eq!(spec.output_dir, "/elsewhere", "{name}");
            task_of_evaluate(spec)
        };
        failures.extend(resolve(files.collect(), &REQUIRED, ".", output_dir).err());
    }
    assert_none("these do not resolve", failures);
}

/// Missing data are no mistake of a dry run, and vocabularies are those of the quickstart.
#[test]
fn every_run_starts_at_full_size() {
    let maps = VOCABULARIES.map(|file| (file.to_string(), VOCABULARY.to_string()));
    let hub = tempfile::tempdir().expect("a temporary folder");
    let c4 = hub.path().join("allenai/c4/en");
    fs::create_dir_all(&c4).expect("the folder can be written");
    fs::write(c4.join("train.jsonl"), "").expect("the folder can be written");
    let data_sets = ("hf://datasets".to_string(), hub.path().display().to_string());
    set_path_map(maps.into_iter().chain([data_sets]).collect()).expect("these can be mapped");
    let commands = run_commands();
    assert!(commands.len() > 50, "found {} runs only", commands.len());
    // A model of transformers is no gin file.
    let of_gin = commands.iter().filter(|run| !run.words[0].starts_with("--gin_file=MODEL/"));
    let failure =
        |run: &RunCommand| dry_runs(run).err().map(|failure| format!("{}: {failure}", run.file));
    assert_none("these do not start", of_gin.filter_map(failure).collect());
}

fn dry_runs(run: &RunCommand) -> Result<(), String> {
    if !run.values("--gin_file").iter().any(|file| run.file.ends_with(file)) {
        return Err("its command is that of another file".to_string());
    }
    // The tasks of T5 add 100 pieces to a model of 32,000, the library's T5 1.1 takes a model that has them.
    let is_of_t5 = ["t5_1_1", "lm_adapted"].iter().any(|name| run.file.contains(name));
    let extra_ids = "--gin.seqio.SentencePieceVocabulary.extra_ids=100";
    let own = [
        "--gin.utils.RestoreCheckpointConfig.path=[]".to_string(),
        format!("--gin.VOCABULARY_FILE='{VOCABULARY}'"),
    ];
    let run = run.with(own.into_iter().chain(is_of_t5.then(|| extra_ids.to_string())));
    let (train, tasks) = evaluated::<Train>(run.loaded()?)?;
    let mesh = train.mesh(Process { rank: 0, count: 1 }, LocalDevice::Cpu);
    let mesh = mesh.map_err(|unfit| unfit.to_string())?;
    let planned = PlannedRun { tasks: &tasks, mesh: &mesh, values: &BTreeMap::new() };
    train.dry_run(&planned).map_err(|failure| failure.to_string())?;
    match declares_tasks(Path::new(&run.file)) {
        true => wrong(&tasks).pop().map_or(Ok(()), Err),
        false => Ok(()),
    }
}

#[test]
fn every_file_of_runs_has_a_command_or_is_a_part_of_another() {
    // The T5 paper's files have their commands in README.md.
    let is_of_paper = |path: &PathBuf| path.components().any(|it| it.as_os_str() == "t5_paper");
    let files: Vec<PathBuf> =
        gin_files("runs").into_iter().filter(|path| !is_of_paper(path)).collect();
    let parts: BTreeSet<PathBuf> = files.iter().flat_map(|path| parts(path)).collect();
    let breach = |path: &PathBuf| {
        let has_command = command(&text(path), "gimlet ").is_some();
        (!has_command && !parts.contains(path)).then(|| path.display().to_string())
    };
    let breaches = files.iter().filter_map(breach).collect();
    assert_none("begin these with a comment that has a command", breaches);
}

/// The files that a file includes or imports from its own folder or by a path below the package.
fn parts(path: &Path) -> Vec<PathBuf> {
    let name = |line: &str| match line.strip_prefix("import ") {
        Some(module) => Some(format!("{module}.gin")),
        None => Some(line.strip_prefix("include ")?.trim_matches(['"', '\'']).to_string()),
    };
    let folders = [path.parent().expect("it is in a folder"), Path::new(".")];
    let names: Vec<String> = text(path).lines().filter_map(name).collect();
    let found = |name: &String| folders.map(|folder| fs::canonicalize(folder.join(name)).ok());
    names.iter().flat_map(found).flatten().collect()
}

fn text(path: &Path) -> String {
    fs::read_to_string(path).expect("gin files are readable")
}

#[test]
fn every_task_resolves() {
    let templates = "tests/pipeline/data/reference/promptsource";
    let templates = format!("t0.PromptSource.dir = '{}/{templates}'", env!("CARGO_MANIFEST_DIR"));
    let mut failures = Vec::new();
    // Tasks that stand beside a run's own bindings are no module.
    let in_modules = gin_files("runs").into_iter().filter(|path| is_module(path));
    let files = gin_files("tasks").into_iter().chain(in_modules);
    for file in files.filter(|path| declares_tasks(path)) {
        let module = file.file_stem().expect("files have names").to_string_lossy();
        let import = format!("import {module}");
        match loaded(Vec::new(), &[&import, &templates], folder(&file)) {
            Ok(loaded) => failures.extend(wrong(&GinTasks::new(loaded, registry()))),
            Err(error) => failures.push(error),
        }
    }
    assert_none("these do not resolve", failures);
}

fn is_module(path: &Path) -> bool {
    !text(path).lines().any(|line| line.starts_with("include "))
}

fn declares_tasks(path: &Path) -> bool {
    let text = text(path);
    ["/seqio.Task", "/seqio.Mixture"].iter().any(|block| text.contains(block))
}

/// Returns the mistakes in all tasks and mixtures.
fn wrong(tasks: &GinTasks) -> Vec<String> {
    let names = [tasks.task_names(), tasks.mixture_names()].concat();
    let found = names.iter().filter_map(|name| tasks.get(name).err());
    found.map(|error| error.to_string()).chain(tasks.mistakes()).collect()
}

fn task_of_train(train: &Train) -> String {
    train.train_dataset_cfg.mixture_or_task_name.clone()
}

fn task_of_evaluate(spec: &Evaluate) -> String {
    spec.dataset_cfg.mixture_or_task_name.clone()
}

fn task_of_infer(spec: &Infer) -> String {
    spec.dataset_cfg.mixture_or_task_name.clone()
}

/// Evaluates and checks the configuration of a command, and the task that it names; returns the
/// errors.
fn resolve<T: Root>(
    files: Vec<String>,
    bindings: &[&str],
    search_path: &str,
    task_of: impl Fn(&T) -> String,
) -> Result<(), String> {
    let name = files.join(" + ");
    let of_files = |error: String| format!("{name}: {error}");
    let loaded = loaded(files, &[bindings, &PLACES].concat(), search_path)?;
    let (spec, tasks) = evaluated::<T>(loaded).map_err(of_files)?;
    tasks.get(&task_of(&spec)).map(|_| ()).map_err(|error| of_files(error.to_string()))
}

/// Evaluates and checks the configuration of a command; returns its spec and its tasks.
fn evaluated<T: Root>(loaded: Loaded) -> Result<(T, GinTasks), String> {
    let registry = registry();
    let mut evaluator = Evaluator::new(&loaded.config, &registry);
    let spec = evaluator.evaluate_in::<T>("");
    let list = evaluator.into_diagnostics();
    let Ok(spec) = spec else {
        return Err(Diagnostics { sources: loaded.sources.clone(), list }.render(false));
    };
    spec.check().map_err(|unfit| unfit.to_string())?;
    Ok((spec, GinTasks::new(loaded, registry)))
}

fn loaded(files: Vec<String>, bindings: &[&str], search_path: &str) -> Result<Loaded, String> {
    let bindings = bindings.iter().map(|text| ("flag".to_string(), text.to_string())).collect();
    let search_paths = vec![search_path.to_string()];
    let request = Request { files, bindings, search_paths, ..Request::default() };
    load(&request, &Library, &registry()).map_err(|diagnostics| diagnostics.render(false))
}

fn folder(file: &Path) -> &str {
    file.parent().and_then(Path::to_str).expect("files have folders with ASCII names")
}
