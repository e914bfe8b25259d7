//! The command line in the forms that scripts for T5X and SeqIO, shells and terminals use.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

const GIMLET: &str = env!("CARGO_BIN_EXE_gimlet");

/// A run of files in [`Folder`], with its bindings written as in T5X's own example of `main.py`.
const RUN: &str = concat!(
    "--gin_search_paths=",
    env!("CARGO_MANIFEST_DIR"),
    r#"/tests/e2e/gin --gin_file=pretrain_tiny.gin --gin.MODEL_DIR=\"/tmp/t5x_pretrain\" --gin.TRAIN_STEPS=10 "#,
    r#"--gin.MIXTURE_OR_TASK_NAME=\"lines\" --gin.DROPOUT_RATE=0.1 "#,
    r#"--gin.TASK_FEATURE_LENGTHS="{'inputs': 64, 'targets': 32}""#,
);

/// A folder in which shell lines run, with `gimlet` on the path.
struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        let folder = Self(tempfile::tempdir().expect("a temporary folder"));
        for file in ["lines-0.txt", "held-out.txt"] {
            folder.write(file, "a line of text\n");
        }
        folder
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.path().join(name), text).expect("the folder can be written");
    }

    /// Status, standard output and standard error.
    fn sh(&self, line: &str) -> (i32, String, String) {
        let programs = Path::new(GIMLET).parent().expect("it lies in a folder").display();
        let mut command = Command::new("sh");
        command.args(["-c", &format!("PATH={programs}:$PATH; {line}")]).current_dir(self.path());
        for variable in ["NO_COLOR", "CLICOLOR_FORCE", "CLICOLOR", "PYTHONPATH"] {
            command.env_remove(variable);
        }
        let output = command.output().expect("a shell is there");
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        (output.status.code().unwrap_or(-1), text(output.stdout), text(output.stderr))
    }

    /// Standard output of a line that succeeds.
    fn succeeds(&self, line: &str) -> String {
        let (status, out, error) = self.sh(line);
        assert_eq!(status, 0, "{line}\n{error}");
        out
    }

    /// Standard error of a line that ends with a status.
    fn fails(&self, line: &str, status: i32) -> String {
        let (found, _, error) = self.sh(line);
        assert_eq!(found, status, "{line}\n{error}");
        error
    }
}

#[test]
fn scripts_for_t5x_run_with_the_folder_of_shims() {
    let folder = Folder::new();
    folder.succeeds("gimlet shims t5x_dir");
    // The call in the seeds' scripts and T5X's README.
    let script = folder.succeeds(&format!("python3 -u t5x_dir/t5x/train.py {RUN} --dry_run"));
    assert!(script.contains("/tmp/t5x_pretrain"), "{script}");
    // The call in T5X's documentation.
    let module = format!(
        "PYTHONPATH=t5x_dir python3 -m t5x.train_unfragmented {RUN} --alsologtostderr --dry_run"
    );
    assert_eq!(folder.succeeds(&module), script);
    let main = format!(
        "PYTHONPATH=t5x_dir python3 -m t5x.main {RUN} --run_mode=train --logtostderr --dry_run=True"
    );
    assert_eq!(folder.succeeds(&main), script);

    let infer = folder.sh("python3 t5x_dir/t5x/infer.py --gin_file=infer.gin").2;
    assert!(infer.contains("gimlet") && infer.contains("infer"), "{infer}");
    let cache = "t5x_dir/seqio_cache_tasks --tasks=a --output_cache_dir=b --module_import=none";
    assert!(folder.fails(cache, 2).contains("`none`"));
}

#[test]
fn what_gimlet_starts_does_not_find_the_shims() {
    let folder = Folder::new();
    folder.succeeds("gimlet shims t5x_dir");
    let seen = r#"printf '#!/bin/sh\necho "$PYTHONPATH"; echo "$@"\n' >gimlet; chmod +x gimlet
        PATH=.:$PATH PYTHONPATH=t5x_dir:mine python3 -m seqio.scripts.cache_tasks_main --tasks=a"#;
    assert_eq!(folder.succeeds(seen), "mine\ncache --tasks=a\n");
    let import = "PYTHONPATH=t5x_dir python3 -c 'from seqio import TaskRegistry'";
    assert!(folder.fails(import, 1).contains("of `gimlet shims`"));
}

#[test]
fn shims_say_that_gimlet_is_missing_and_spare_what_is_not_theirs() {
    let folder = Folder::new();
    folder.succeeds("gimlet shims t5x_dir && gimlet shims t5x_dir");
    let missing =
        folder.fails("p=$(command -v python3); PATH=/usr/bin:/bin; $p t5x_dir/t5x/eval.py", 1);
    assert!(missing.contains("`gimlet`, which is not on the PATH"), "{missing}");
    folder.write("t5x_dir/t5x/train.py", "# T5X's own\n");
    let refused = folder.fails("gimlet shims t5x_dir", 2);
    assert!(refused.contains("t5x_dir/t5x/train.py was not written by"), "{refused}");
}

#[test]
fn a_link_named_after_seqio_s_script_caches() {
    let folder = Folder::new();
    symlink(GIMLET, folder.path().join("seqio_cache_tasks")).expect("it can be linked");
    let line = "./seqio_cache_tasks --tasks=a --output_cache_dir=b --module_import=none --v=0";
    assert!(folder.fails(line, 2).contains("`none`"));
    assert!(folder.succeeds("./seqio_cache_tasks --helpshort").contains("--output_cache_dir"));
    let line = "./seqio_cache_tasks --tasks=a --output_cache_dir=b --module_import=t0.seqio_tasks";
    assert!(folder.fails(line, 2).contains("there is no folder `promptsource`"));
}

#[test]
fn a_link_named_after_t5_s_program_reads_mesh_tensorflow_s_files() {
    let folder = Folder::new();
    symlink(GIMLET, folder.path().join("t5_mesh_transformer")).expect("it can be linked");
    let line =
        "./t5_mesh_transformer --tpu=a --tpu_zone=b --model_dir=c --gin_file=models/bi_v1.gin";
    let refused = folder.fails(line, 2);
    assert!(
        refused.contains("macro `tpu_topology`") || refused.contains("has no data"),
        "{refused}"
    );
    let help = folder.succeeds("./t5_mesh_transformer --helpshort");
    assert!(help.contains("--additional_task_cache_dirs"), "{help}");
}

#[test]
fn a_run_of_t5_experiments_is_described_and_printed() {
    let folder = Folder::new();
    folder.write("nano.json", r#"{"d_model": 16, "num_layers": 1, "vocab_size": 1100}"#);
    folder.write("shard.jsonl", "{\"text\": \"a line of text\"}\n");
    let line =
        "gimlet t5_experiments t5 --data_path . --model_path run --model_cfg nano.json --lr=1";
    let model =
        concat!(env!("CARGO_MANIFEST_DIR"), "/tests/pipeline/data/reference/sentencepiece.model");
    let line = format!("{line} --vocab {model} --iters 1 --v");
    let refused = folder.fails(&line, 2);
    assert!(refused.contains("`--v` is short for several flags: `--valid_interval`"), "{refused}");
    let line = line.trim_end_matches(" --v");
    let own = folder.succeeds(&format!("{line} --dry_run"));
    folder.succeeds(&format!("{line} --print_gin > run.gin"));
    let native = folder.succeeds("gimlet train --gin_file=run.gin --dry_run");
    assert!(own.ends_with(&native) && own.starts_with("updates      2 in steps 0 to 1\n"), "{own}");
    assert!(!folder.path().join("run").exists(), "nothing is written");
    let help = folder.succeeds("gimlet t5_experiments t5 --help");
    assert!(help.starts_with("run_t5_pretraining.py by its own flags:\n  --model_path"), "{help}");
}

/// A folder with the shims of t5-experiments, and what a training of T5 needs; of three files.
fn t5_experiments() -> (Folder, String) {
    let folder = Folder::new();
    folder.write("nano.json", r#"{"d_model": 16, "num_layers": 1, "vocab_size": 1100}"#);
    folder.succeeds("mkdir data");
    for number in 0..3 {
        folder.write(&format!("data/shard_{number}.jsonl"), "{\"text\": \"a line of text\"}\n");
    }
    let told = folder.sh("gimlet shims shims").2;
    let shims = folder.path().join("shims").display().to_string();
    assert!(told.contains(&format!("export PATH={shims}:$PATH PYTHONPATH={shims}\n")), "{told}");
    assert!(told.contains(&format!(": ln -s {shims}/run_t5_pretraining.py .\n")), "{told}");
    let model =
        concat!(env!("CARGO_MANIFEST_DIR"), "/tests/pipeline/data/reference/sentencepiece.model");
    let flags =
        format!("--data_path data --model_path run --model_cfg nano.json --lr 1 --vocab {model}");
    (folder, flags)
}

const SHIMS: &str = "export PATH=$PWD/shims:$PATH PYTHONPATH=$PWD/shims;";

#[test]
fn t5_experiments_runs_as_typed_with_the_folder_of_shims() {
    let (folder, flags) = t5_experiments();
    let described = |line: &str| folder.succeeds(&format!("{SHIMS} {line} {flags} --dry_run"));
    let two = described("horovodrun --gloo -np 2 python run_t5_pretraining.py");
    assert!(two.contains("rank 0       shard_0.jsonl\nrank 1       shard_1.jsonl\n"), "{two}");
    assert!(two.contains("\ntrap 7 ") && two.contains("\ntrap 8 "), "{two}");
    assert!(two.contains("2 processes: 2 divide batches"), "{two}");
    assert_eq!(described("accelerate launch --num_processes 2 run_t5_pretraining.py"), two);
    assert_eq!(described("gimlet launch --nproc_per_node=2 t5_experiments t5"), two);
    folder.succeeds("ln -s shims/run_t5_pretraining.py .");
    let alone = described("python3 run_t5_pretraining.py");
    assert!(alone.contains("rank 0       shard_0.jsonl, shard_1.jsonl, shard_2.jsonl\n"));
    assert!(!alone.contains("\ntrap 7 ") && !alone.contains("\ntrap 8 "), "{alone}");
    let hangs = format!("{SHIMS} horovodrun -np 4 python run_t5_pretraining.py {flags}");
    let refused = folder.fails(&hangs, 2);
    assert!(refused.contains("`--data_path` has 3 files"), "{refused}");
    assert!(refused.contains("for each of 4 processes"), "{refused}");
    assert!(!folder.path().join("run").exists(), "nothing is written");
}

#[test]
fn other_programs_of_t5_experiments_are_found_by_their_names() {
    let (folder, _) = t5_experiments();
    // A checkout has the same file, in a folder that is no package.
    folder.succeeds("mkdir -p downstream_tasks/scrolls");
    folder.write("downstream_tasks/scrolls/run_finetuning_scrolls.py", "print('opened')\n");
    let module = "-m downstream_tasks.scrolls.run_finetuning_scrolls --help";
    for line in [format!("python3 {module}"), format!("horovodrun -np 2 python3 {module}")] {
        let (_, out, error) = folder.sh(&format!("{SHIMS} {line}"));
        assert!(format!("{out}{error}").contains("run_finetuning_scrolls.py"), "{line}: {error}");
        assert!(!out.contains("opened"), "{line}");
    }
    for (line, part) in [
        (
            "accelerate launch --mixed_precision fp8 run_bert_pretraining_accel.py",
            "mixed_precision",
        ),
        (
            "horovodrun --gloo -np 2 python run_bert_pretraining.py --lr 1",
            "`--tokenizer` is missing",
        ),
    ] {
        let refused = folder.fails(&format!("{SHIMS} {line}"), 2);
        assert!(refused.contains(part), "{line}: {refused}");
    }
    let refused =
        folder.fails(&format!("{SHIMS} python3 -m megatron.preprocess_data --input a"), 2);
    assert!(
        refused.contains("--tokenizer_type") && refused.contains("--output_prefix"),
        "{refused}"
    );
}

#[test]
fn flags_are_read_from_a_file() {
    let folder = Folder::new();
    let lines = RUN.replace(r#"\""#, "'").replace('"', "").replace(" --", "\n--");
    folder.write("run.flags", &format!("# A run.\n\n{lines}\n--alsologtostderr\n"));
    let from_flags = folder.succeeds(&format!("gimlet train {RUN} --dry_run"));
    let from_file = "gimlet train --flagfile=run.flags --undefok=jobname --jobname=7 --dry_run";
    assert_eq!(folder.succeeds(from_file), from_flags);
}

#[test]
fn flags_before_the_command_are_an_error_that_says_where_they_go() {
    let folder = Folder::new();
    let error = folder.fails("gimlet --gin_file=a.gin train", 2);
    let expected = "error: `--gin_file=a.gin` comes before the command: write `gimlet train --gin_file=a.gin`\n";
    assert_eq!(error, expected);
}

#[test]
fn colours_are_for_those_who_want_them() {
    let folder = Folder::new();
    folder.write("a.gin", "a = \n");
    for line in ["gimlet --help", "gimlet gin check a.gin 2>&1", "gimlet train --nonsense 2>&1"] {
        for (variables, expected) in [
            ("", false),
            ("TERM=dumb", false),
            ("CLICOLOR_FORCE=1", true),
            ("CLICOLOR_FORCE=1 NO_COLOR=1", false),
        ] {
            let (_, out, _) = folder.sh(&format!("{variables} {line}"));
            assert_eq!(out.contains('\u{1b}'), expected, "{variables} {line}\n{out}");
        }
    }
}

#[test]
fn a_dry_run_tells_the_rates_that_change_and_their_steps() {
    let folder = Folder::new();
    folder.write("echo-train.jsonl", "{\"inputs\": \"a\", \"targets\": \"b\"}\n");
    folder.write("echo-validation.jsonl", "{\"inputs\": \"a\", \"targets\": \"b\"}\n");
    let tasks = "both/seqio.Mixture.tasks = [('lines', RATES), ('echo', 1)]\nMIXTURE_OR_TASK_NAME = 'both'\n";
    let described = |rates: &str| {
        folder.write("both.gin", &tasks.replace("RATES", rates));
        let run = RUN.replace("--gin.MIXTURE_OR_TASK_NAME=\\\"lines\\\"", "--gin_file=both.gin");
        let out = folder.succeeds(&format!("gimlet train {run} --dry_run"));
        out.lines().filter(|line| line.starts_with("rates")).map(str::to_string).collect::<Vec<_>>()
    };
    let changing =
        ["rates        echo 25%, lines 75%", "rates        from step 1000 echo 100%, lines 0%"];
    assert_eq!(described("{0: 3.0, 1000: 0.0}"), changing);
    assert!(described("3").is_empty());
}

#[test]
fn quiet_leaves_warnings_and_verbose_names_the_files_that_are_read() {
    let folder = Folder::new();
    let said = |flags: &str| folder.sh(&format!("gimlet train {RUN} --dry_run {flags}")).2;
    let read = "reading <gimlet>/gin/t5x/configs/runs/pretrain.gin";
    assert!(said("-v").contains(read), "{}", said("-v"));
    assert!(said("--verbosity=1").contains(read));
    assert!(!said("").contains("reading "));
    folder.write("a.gin", "");
    assert_eq!(folder.sh("gimlet shims quiet -q").2, "");
    assert!(
        said("--gin_search_paths=none -q").contains("warning: --gin_search_paths names `none`")
    );
}

#[test]
fn a_reader_that_is_gone_is_no_failure() {
    let folder = Folder::new();
    let status = |command: &str| {
        folder.succeeds(&format!("{{ {command}; echo $? > status; }} | true; cat status"))
    };
    let cache = format!("gimlet cache {RUN} --tasks=cached --output_cache_dir=c --dry_run");
    assert!(folder.succeeds(&cache).starts_with("cached -> c/cached\n"));
    assert_eq!(status(&cache), "0\n");
    assert_eq!(status(&format!("gimlet train {RUN} --dry_run")), "0\n");
    // Mistakes keep their status although nobody reads them.
    assert_eq!(status("gimlet gin check nothing.gin 2>&1"), "1\n");
    assert_eq!(status("gimlet train --gin_file=nothing.gin 2>&1"), "2\n");
}

#[test]
fn files_of_another_command_are_told_first() {
    let folder = Folder::new();
    let eval = folder.fails(&format!("gimlet eval {RUN}"), 2);
    let expected =
        "error: no gin file configures `evaluate`, which this command runs, but `train`\n";
    assert!(eval.starts_with(expected), "{eval}");
    assert!(eval.contains("add --gin_file=t5x/configs/runs/eval.gin\n"), "{eval}");
    let model = folder
        .fails("gimlet train --gin_file=t5x/examples/t5/t5_1_1/tiny.gin --gin.DROPOUT_RATE=0.0", 2);
    assert!(
        model.starts_with("error: no gin file configures `train`, which this command runs\n"),
        "{model}"
    );
    assert!(model.contains("add --gin_file=t5x/configs/runs/pretrain.gin, or"), "{model}");
    let order = folder.fails("gimlet gin explain run.gin BATCH_SIZE", 2);
    assert!(order.contains("`gimlet gin explain BATCH_SIZE run.gin`"), "{order}");
}

#[test]
fn the_version_tells_the_commit_and_libtorch_without_loading_it() {
    let folder = Folder::new();
    let version = folder.succeeds("gimlet --version");
    let lines: Vec<&str> = version.lines().collect();
    let [program, libtorch] = lines[..] else { panic!("{version}") };
    let commit = program.strip_prefix(concat!("gimlet ", env!("CARGO_PKG_VERSION"), " ("));
    assert!(commit.is_some_and(|commit| commit.len() > 8 && commit.ends_with(')')), "{program}");
    assert!(libtorch.contains("libtorch"), "{libtorch}");
    assert_eq!(folder.succeeds("gimlet -V"), version);
}

#[test]
fn help_lists_bindings_and_hides_what_cannot_work_yet() {
    let folder = Folder::new();
    let help = folder.succeeds("gimlet train --help");
    assert!(help.contains("--gin.X=<V>"), "{help}");
    assert!(!help.contains("process_count") && !help.contains("multiprocess"), "{help}");
    let flags = "--multiprocess_gpu --coordinator_address=a:1 --process_count=1 --process_index=0";
    folder.succeeds(&format!("gimlet train {RUN} --dry_run {flags}"));
}

#[test]
fn a_place_that_cannot_be_is_refused_with_its_variable() {
    let folder = Folder::new();
    let said = folder.fails(&format!("RANK=2 WORLD_SIZE=2 gimlet train {RUN}"), 2);
    assert!(said.contains("`RANK` is `2`, expected less than WORLD_SIZE"), "{said}");
}

#[test]
fn a_launcher_reports_mistakes_once_and_before_it_starts_processes() {
    let folder = Folder::new();
    let out = folder.succeeds(&format!("gimlet launch --nproc_per_node=2 train {RUN} --dry_run"));
    assert_eq!(out.matches("model_dir").count(), 1, "{out}");
    for (line, expected) in [
        (format!("--nproc_per_node=1 train {RUN} --gin.train.nothing=1"), "nothing"),
        (
            "--nproc_per_node=1 cache --tasks=a --output_cache_dir=b".to_string(),
            "give --gin_file=FILE",
        ),
        ("--nproc_per_node=1 doctor".to_string(), "and not `doctor`"),
        ("--nproc_per_node=1 --gin_file=a train".to_string(), "unexpected argument '--gin_file'"),
        ("--nproc_per_node=1".to_string(), "<COMMAND>"),
    ] {
        let said = folder.fails(&format!("gimlet launch {line}"), 2);
        assert!(said.contains(expected), "{line}\n{said}");
        assert_eq!(said.matches("error:").count(), 1, "{line}\n{said}");
    }
}

#[test]
fn several_machines_are_left_to_the_launcher_of_a_python_with_torch() {
    let folder = Folder::new();
    let launch = format!(
        "launch --nnodes=2 --nproc_per_node=2 --rdzv_endpoint=a:5 train {RUN} --gin.BATCH_SIZE=8"
    );
    let without = "VIRTUAL_ENV= CONDA_PREFIX= GIMLET_PYTHON= PATH=/none";
    let said = folder.fails(&format!("g=$(command -v gimlet); {without} $g {launch}"), 1);
    assert!(said.contains("pip install 'torch==") && said.contains("`python3`"), "{said}");
    let python = r#"#!/bin/sh
if [ "$1" = -c ]; then echo torch; else echo "$@"; fi"#;
    folder.write("python", python);
    let whole = "mkdir -p torch/distributed; touch torch/distributed/run.py; chmod +x python";
    let said = folder.succeeds(&format!("{whole}; GIMLET_PYTHON=./python gimlet {launch}"));
    assert!(said.starts_with("-m torch.distributed.run --no_python --nnodes=2 "), "{said}");
    assert!(said.contains("/gimlet train --gin_search_paths="), "{said}");
}

#[test]
fn a_process_of_many_gives_its_message_to_its_launcher() {
    let folder = Folder::new();
    let said = folder.fails("GIMLET_ERROR_FILE=message gimlet gin print none.gin", 2);
    assert_eq!(said, "");
    let message = fs::read_to_string(folder.path().join("message")).expect("it was written");
    assert!(message.starts_with("error: "), "{message}");
}

#[test]
fn shells_and_man_learn_the_command_line() {
    let folder = Folder::new();
    for (shell, expected) in [
        ("bash", "complete -F _gimlet"),
        ("zsh", "#compdef gimlet"),
        ("fish", "complete -c gimlet"),
    ] {
        let script = folder.succeeds(&format!("gimlet completions {shell}"));
        assert!(script.contains(expected) && script.contains("take_over"), "{shell}");
    }
    folder.succeeds("gimlet man pages/man1");
    let page = fs::read_to_string(folder.path().join("pages/man1/gimlet-train.1")).expect("a page");
    assert!(page.contains("gin_file") && page.contains("MODEL_DIR"), "{page}");
}
