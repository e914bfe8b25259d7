//! Every shipped gin file resolves: the library, the tasks and the runs.

use std::fs;
use std::path::{Path, PathBuf};

use gimlet::data::TaskProvider;
use gimlet::eval::Evaluate;
use gimlet::gin::{Diagnostics, Evaluator, Loaded, Request, format, load};
use gimlet::infer::Infer;
use gimlet::precompile::Precompile;
use gimlet::run::{GinTasks, Library, Root, registry};
use gimlet::train::Train;

use crate::assert_none;

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

#[test]
fn every_run_resolves() {
    let mut failures = Vec::new();
    for run in gin_files("runs") {
        let text = fs::read_to_string(&run).expect("runs are readable");
        // `tests/pipeline/sweep.rs` lists the points of sweeps.
        if text.contains("\ngimlet.Sweep") {
            continue;
        }
        // A file without a task is a part of a run, but for those whose library has their tasks.
        let of_library = run.components().any(|part| part.as_os_str() == "t5_experiments");
        let named = text.lines().any(|line| line.starts_with("MIXTURE_OR_TASK_NAME = \""));
        if named || of_library {
            let files = vec![run.display().to_string()];
            let data = ["FILES = {}", "VOCABULARY_FILE = '/nowhere'", "TRAIN_FILES = {}"];
            let bindings = if of_library { &data[..] } else { &[] };
            failures.extend(resolve(files, bindings, folder(&run), task_of_train).err());
        }
    }
    assert_none("these do not resolve", failures);
}

#[test]
fn every_task_resolves() {
    let templates = "tests/pipeline/data/reference/promptsource";
    let templates = format!("t0.PromptSource.dir = '{}/{templates}'", env!("CARGO_MANIFEST_DIR"));
    let mut failures = Vec::new();
    for file in gin_files("tasks").into_iter().chain(gin_files("runs")) {
        let text = fs::read_to_string(&file).expect("task files are readable");
        if !["/seqio.Task", "/seqio.Mixture"].iter().any(|block| text.contains(block)) {
            continue;
        }
        let module = file.file_stem().expect("files have names").to_string_lossy();
        let import = format!("import {module}");
        match loaded(Vec::new(), &[&import, &templates], folder(&file)) {
            Ok(loaded) => {
                let tasks = GinTasks::new(loaded, registry());
                let names = [tasks.task_names(), tasks.mixture_names()].concat();
                let found = names.iter().filter_map(|name| tasks.get(name).err());
                failures.extend(found.map(|error| error.to_string()).chain(tasks.mistakes()));
            }
            Err(error) => failures.push(error),
        }
    }
    assert_none("these do not resolve", failures);
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
    let loaded = loaded(files, &[bindings, &PLACES].concat(), search_path)?;
    let registry = registry();
    let mut evaluator = Evaluator::new(&loaded.config, &registry);
    let spec = evaluator.evaluate_in::<T>("");
    let list = evaluator.into_diagnostics();
    let Ok(spec) = spec else {
        let diagnostics = Diagnostics { sources: loaded.sources.clone(), list };
        return Err(format!("{name}: {}", diagnostics.render(false)));
    };
    spec.check().map_err(|unfit| format!("{name}: {unfit}"))?;
    let found = GinTasks::new(loaded, registry).get(&task_of(&spec));
    found.map(|_| ()).map_err(|error| format!("{name}: {error}"))
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

/// All gin files below a folder of the package, in order.
fn gin_files(folder: &str) -> Vec<PathBuf> {
    let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join(folder)];
    let mut files = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("folders are readable") {
            let path = entry.expect("entries are readable").path();
            // The output of `make quickstart` does not belong to the project.
            if path.is_dir() && !path.ends_with("quickstart/out") {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "gin") {
                files.push(path);
            }
        }
    }
    files.sort();
    files
}
