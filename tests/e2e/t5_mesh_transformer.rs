//! `gimlet t5_mesh_transformer`: a training as users of t5 type it, continued, evaluated and handed to `gimlet train`.

use std::fs;

use crate::command::{Train, sources};
use crate::folder::{Folder, steps};

/// t5's program in a folder, with tasks of `gin/small_tasks.gin`.
fn t5_mesh_transformer(folder: &Folder) -> Train {
    let tasks = sources("gin").display().to_string();
    Train::new(&folder.path(""))
        .tool(&["t5_mesh_transformer"])
        .arg("--model_dir=mesh")
        .arg("--module_import=small_tasks")
        .arg(format!("--gin_location_prefix={tasks}"))
}

/// A training of a tiny T5 1.1.
fn train(folder: &Folder, steps: u64) -> Train {
    let lengths = "run.sequence_length = {'inputs': 16, 'targets': 8}";
    t5_mesh_transformer(folder)
        .gin_file("dataset.gin")
        .gin_file("models/t5.1.1.tiny.gin")
        .gin_file("learning_rate_schedules/constant_0_001.gin")
        .arg("--gin_param=MIXTURE_NAME = 'echo'")
        .arg(format!("--gin_param={lengths}"))
        .arg("--gin_param=run.batch_size = ('tokens_per_batch', 64)")
        .arg("--gin_param=serialize_num_microbatches.tokens_per_microbatch_per_replica = 32")
        .arg("--gin_param=run.save_checkpoints_steps = 1")
        .arg("--gin_param=mesh_train_dataset_fn.seed = 1")
        .arg(format!("--gin_param=run.train_steps = {steps}"))
}

#[test]
fn a_training_of_t5_s_files_is_continued_and_evaluated() {
    let folder = Folder::new();
    // As t5's program does, a run saves its start too.
    train(&folder, 2).succeeds();
    assert_eq!(steps(&folder.path("mesh")), [0, 1, 2]);
    train(&folder, 3).succeeds();
    assert_eq!(steps(&folder.path("mesh")), [0, 1, 2, 3]);
    let read = |name: &str| fs::read_to_string(folder.path(name)).expect("the run wrote it");
    assert!(read("mesh/commands/command").contains("--gin_param=run.train_steps = 2"));
    assert!(read("mesh/commands/command.1").contains("--gin_param=run.train_steps = 3"));
    assert!(read("mesh/operative_config.gin").contains("run.train_steps = 3"));
    let printed = train(&folder, 3).arg("--print_gin").succeeds().stdout;
    assert_eq!(printed, read("mesh/config.gin"));

    let eval = t5_mesh_transformer(&folder)
        .gin_file("mesh/operative_config.gin")
        .gin_file("eval.gin")
        .arg("--gin_param=eval_checkpoint_step = -1")
        .arg("--gin_param=run.dataset_split = 'validation'");
    eval.succeeds();
    let metrics = read("mesh/validation_eval/inference_eval/echo-metrics.jsonl");
    assert!(metrics.contains("\"step\":3") || metrics.contains("\"step\": 3"), "{metrics}");
    let lines = |name: &str| read(&format!("mesh/validation_eval/echo_{name}")).lines().count();
    assert_eq!(["inputs", "targets", "3_predictions"].map(lines), [lines("inputs"); 3]);
    assert!(read("mesh/validation_eval/echo_inputs").starts_with("b'"));

    let perplexity = t5_mesh_transformer(&folder)
        .gin_file("mesh/operative_config.gin")
        .gin_file("perplexity_eval.gin")
        .arg("--gin_param=eval_checkpoint_step = -1")
        .arg("--gin_param=run.dataset_split = 'validation'");
    let said = perplexity.succeeds().stderr;
    assert!(said.contains("step 3: held-out echo: loss "), "{said}");

    // The same run in T5X's terms.
    let tasks = sources("gin").display().to_string();
    let native = Train::new(&folder.path("")).gin_file("mesh/config.gin").bind("TRAIN_STEPS", 4);
    native.arg(format!("--gin_search_paths={tasks}")).succeeds();
    assert_eq!(steps(&folder.path("mesh")), [0, 1, 2, 3, 4]);
}

#[test]
fn a_model_of_lines_with_tabs_predicts_and_scores_the_lines_of_files() {
    let folder = Folder::new();
    folder.write("pairs.tsv", "one two\ttwo\nthree four\tfour\nfive six\tsix\n");
    folder.write("inputs.txt", "one two  \n\nthree\n");
    folder.write("targets.txt", "two\nfour\nsix\nten\nsix\none\n");
    let training = train(&folder, 1)
        .arg("--gin_param=run.train_dataset_fn = @t5.models.mesh_transformer.tsv_dataset_fn")
        .arg("--gin_param=tsv_dataset_fn.filename = ['pairs.tsv']");
    training.succeeds();

    let infer = t5_mesh_transformer(&folder)
        .gin_file("mesh/operative_config.gin")
        .gin_file("infer.gin")
        .arg("--gin_param=input_filename = 'inputs.txt'")
        .arg("--gin_param=output_filename = 'results/out'");
    infer.succeeds();
    let read = |name: &str| fs::read_to_string(folder.path(name)).expect("the run wrote it");
    let of_gimlet = |words: &[&str]| Train::new(&folder.path("")).tool(words).succeeds().stdout;
    folder.write("trimmed.txt", "one two\n\nthree\n");
    let checkpoint = "--checkpoint=mesh/checkpoint_1";
    let tasks = format!("--gin_search_paths={}", sources("gin").display());
    let answers =
        of_gimlet(&["generate", checkpoint, &tasks, "--file=trimmed.txt", "--max_tokens=16"]);
    assert_eq!(read("results/out-1"), answers);
    assert_eq!(read("results/out-0").lines().count(), 3);

    let api = |mode: &str| {
        t5_mesh_transformer(&folder)
            .arg("--use_model_api")
            .arg(format!("--mode={mode}"))
            .arg("--input_sequence_length=16")
            .arg("--target_sequence_length=8")
            .arg("--input_file=inputs.txt")
            .arg("--output_file=api")
    };
    api("predict").succeeds();
    assert_eq!(read("api-1"), answers);
    api("score").arg("--target_file=targets.txt").succeeds();
    let inputs = ["one two", "one two", "", "", "three", "three"];
    let targets = ["two", "four", "six", "ten", "six", "one"];
    let lines = inputs.iter().zip(targets).map(|(input, target)| format!("{input}\t{target}\n"));
    folder.write("both.txt", lines.collect::<String>());
    let scores = of_gimlet(&["score", checkpoint, &tasks, "--file=both.txt"]);
    let numbers = |text: &str| -> Vec<f64> {
        text.lines().map(|line| line.parse().expect("a number")).collect()
    };
    for (found, expected) in numbers(&read("api.scores")).iter().zip(numbers(&scores)) {
        assert!((found - expected).abs() < 1e-4, "{found} and {expected}");
    }
    assert_eq!(read("api.inputs").lines().collect::<Vec<_>>(), inputs);
    assert_eq!(read("api.targets").lines().collect::<Vec<_>>(), targets);
    assert_eq!(read("api.lengths").lines().count(), 6);
}
