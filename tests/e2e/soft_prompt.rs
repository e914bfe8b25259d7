//! Soft prompts through the library's files of prompt-tuning: only the prompt learns, files of numpy's hold it, and an evaluation
//! puts such a file into the model that it was trained for.

use std::path::Path;

use gimlet::checkpoint::{NpyFile, Stored};
use gimlet::storage;

use crate::arrays;
use crate::command::Train;
use crate::events::read_scalars;
use crate::folder::{Folder, steps};
use crate::processes::{TOLERANCE, difference_of_arrays, launched};

const PROMPT: &str = "target/encoder/prompt/prompt/prompt";
const CONFIGS: &str = "prompt_tuning/configs";

/// With `base/checkpoint_1`, a model without a prompt.
fn base() -> Folder {
    Folder::once("prompt_base", |folder| {
        folder
            .train("flaxformer/t5x/configs/t5/models/t5_1_1_small.gin")
            .gin_file("t5x/configs/runs/pretrain.gin")
            .gin_file("prompt_dims.gin")
            .bind_text("MODEL_DIR", "base")
            .bind("TRAIN_STEPS", 1)
            .succeeds();
    })
}

fn model(folder: &Folder) -> Train {
    folder.train(&format!("{CONFIGS}/models/t5_1_1_prompt.gin"))
}

/// A training of a prompt on the base.
fn finetune(folder: &Folder, prompt: &str) -> Train {
    model(folder)
        .gin_file(format!("{CONFIGS}/prompts/{prompt}.gin"))
        .gin_file(format!("{CONFIGS}/runs/prompt_finetune.gin"))
        .gin_file("prompt_dims.gin")
        .bind_text("MODEL_DIR", "model")
        .bind_text("INITIAL_CHECKPOINT_PATH", "base/checkpoint_1")
        .bind("TRAIN_STEPS", 4)
}

/// An evaluation of the loss.
fn eval(run: Train, output_dir: &str) -> Train {
    run.tool(&["eval"])
        .gin_file("prompt_dims.gin")
        .bind_text("EVAL_OUTPUT_DIR", output_dir)
        .bind("evaluate.inference_evaluator_cls", "None")
        .bind("evaluate.training_evaluator_cls", "@trainer.Trainer")
        .bind_text("utils.DatasetConfig.split", "validation")
        .bind("utils.DatasetConfig.batch_size", 4)
}

/// The only point of the loss of an evaluation.
fn loss(folder: &Folder, output_dir: &str) -> f64 {
    let scalars = read_scalars(&folder.path(output_dir).join("training_eval/echo"));
    *scalars["loss"].values().last().expect("it was measured")
}

fn numpy(folder: &Folder, step: u64) -> Vec<f32> {
    let file = format!("model/numpy_checkpoints/checkpoint_{step}/encoder.prompt.prompt.prompt");
    read_rows(&folder.path(&file), [5, 16])
}

fn read_rows(path: &Path, shape: [usize; 2]) -> Vec<f32> {
    let file = NpyFile::open(&storage::Path::try_from(path).expect("text"));
    let file = file.expect("the run wrote it");
    assert_eq!(file.shape, shape);
    file.rows(0..shape[0]).expect("it is whole").to_f32().expect("floats")
}

/// The names of the files in a folder.
fn list(folder: &Path) -> Vec<String> {
    let files = std::fs::read_dir(folder).expect("it is there");
    let name = |file: std::fs::DirEntry| file.file_name().into_string().expect("text");
    let mut names: Vec<String> = files.map(|file| name(file.expect("readable"))).collect();
    names.sort();
    names
}

#[test]
fn only_the_prompt_learns_and_its_file_serves_the_base() {
    let folder = base();
    let labels = finetune(&folder, "from_class_labels").bind("CLASS_LABELS", "['a', 'bc']");
    labels.succeeds();
    assert_eq!(steps(&folder.path("model")), [4]);

    let before = arrays::open(&folder.path("base"), 1);
    let after = arrays::open(&folder.path("model"), 4);
    let read = |stored: &dyn Stored, name: &str| stored.read(name).expect("it is whole");
    for array in after.leaves().iter().filter(|array| array.name.starts_with("target/")) {
        if array.name != PROMPT {
            assert!(read(&after, array.name) == read(&before, array.name), "{}", array.name);
        }
    }
    let learned = read(&after, PROMPT).to_f32().expect("floats");
    assert_eq!(learned, numpy(&folder, 4));
    let first = numpy(&folder, 1);
    assert!(first.iter().zip(&learned).all(|(first, learned)| first != learned));
    // The ids of bytes begin at 3.
    let embedding = read(&before, "target/token_embedder/embedding").to_f32().expect("floats");
    let row = |byte: u8| &embedding[(usize::from(byte) + 3) * 16..][..16];
    assert_eq!(first[..16], *row(b'a'));
    let mean = row(b'b').iter().zip(row(b'c')).map(|(b, c)| (b + c) / 2.0);
    assert!(first[16..32].iter().zip(mean).all(|(found, mean)| (found - mean).abs() < 1e-6));
    // The other rows are among the embedding's, each another one.
    let place = |found: &[f32]| embedding.chunks(16).position(|row| row == found);
    let mut places: Vec<_> = first[32..].chunks(16).map(place).collect();
    places.sort_unstable();
    places.dedup();
    assert!(places.len() == 3 && places.iter().all(Option::is_some), "{places:?}");

    let own = model(&folder).gin_file("t5x/configs/runs/eval.gin");
    eval(own, "own")
        .bind_text("CHECKPOINT_PATH", "model/checkpoint_4")
        .bind("utils.RestoreCheckpointConfig.fallback_to_scratch", "False")
        .bind("utils.RestoreCheckpointConfig.assignment_map", "()")
        .succeeds();
    let from_file = model(&folder).gin_file(format!("{CONFIGS}/runs/prompt_eval.gin"));
    let from_file =
        eval(from_file, "from_file").bind_text("CHECKPOINT_PATH", "base/checkpoint_1").bind_text(
            "PROMPT_FILE",
            "model/numpy_checkpoints/checkpoint_4/encoder.prompt.prompt.prompt",
        );
    from_file.succeeds();
    assert_eq!(loss(&folder, "from_file"), loss(&folder, "own"));

    let ended = from_file.bind("PROMPT_LENGTH", 7).arg("--dry_run").run();
    assert_eq!(ended.status, Some(2), "{}", ended.stderr);
    for words in ["[5, 16], expected [7, 16]", "set PROMPT_LENGTH to 5"] {
        assert!(ended.stderr.contains(words), "`{words}` is not in {}", ended.stderr);
    }
}

#[test]
fn a_training_of_a_prompt_is_resumed_without_the_base() {
    let folder = base();
    let run = finetune(&folder, "from_sampled_vocab");
    run.succeeds();
    let whole = numpy(&folder, 4);
    std::fs::remove_dir_all(folder.path("model")).expect("it is there");
    run.clone().bind("TRAIN_STEPS", 2).succeeds();
    std::fs::rename(folder.path("base"), folder.path("gone")).expect("it is there");
    run.succeeds();
    assert_eq!(numpy(&folder, 4), whole);
}

/// The inputs of the tasks that `prompt_tasks.gin` names begin with sentinels.
fn of_tasks(folder: &Folder) -> Train {
    folder
        .train(&format!("{CONFIGS}/extended/models/multi_task_t5_1_1_prompt.gin"))
        .gin_file(format!("{CONFIGS}/extended/runs/multitask_prompt_finetune.gin"))
        .gin_file("prompt_dims.gin")
        .gin_file("prompt_tasks.gin")
        .bind_text("MODEL_DIR", "model")
        .bind_text("INITIAL_CHECKPOINT_PATH", "base/checkpoint_1")
        .bind("TRAIN_STEPS", 2)
        .bind("NUM_TASKS", 3)
}

/// Compares a run of several processes with that of one.
fn assert_same_arrays(folder: &Folder, found: &str) {
    let [found, one] = [found, "model"].map(|name| arrays::open(&folder.path(name), 2));
    let difference = difference_of_arrays(&found, &one);
    assert!(difference.is_at_most(TOLERANCE), "{difference:?}");
}

#[test]
fn prompts_of_tasks_learn_those_of_the_tasks_in_the_data() {
    let folder = base();
    let run = of_tasks(&folder);
    let told = run.clone().arg("--dry_run").run();
    assert!(told.stdout.contains("trained      240 in 1 arrays"), "{}", told.stdout);
    run.succeeds();
    let shared = run.clone().bind_text("MODEL_DIR", "shared");
    launched(shared, 2).succeeds();
    assert_same_arrays(&folder, "shared");
    let files = folder.path("model/numpy_checkpoints/checkpoint_2");
    let name = "encoder.prompt.prompt.task_prompts.embedding";
    assert_eq!(list(&files), [name]);
    let table = |step: u64| {
        let file = format!("model/numpy_checkpoints/checkpoint_{step}/{name}");
        read_rows(&folder.path(&file), [3, 80])
    };
    let (first, learned) = (table(1), table(2));
    let changed = |task: usize| first[task * 80..][..80] != learned[task * 80..][..80];
    // No example is of the last task; its numbers decay alone.
    assert!(changed(0) && changed(1));
    let (mut moved, mut decayed) = (0.0f32, 0.0f32);
    for (index, (first, learned)) in first.iter().zip(&learned).enumerate() {
        let sum = if index < 160 { &mut moved } else { &mut decayed };
        *sum = sum.max((first - learned).abs());
    }
    assert!(moved > 100.0 * decayed, "{moved} and {decayed}");

    let unknown = run.bind("TRAIN_STEPS", 3).bind("NUM_TASKS", 1).bind_text("MODEL_DIR", "other");
    let ended = unknown.run();
    assert_ne!(ended.status, Some(0));
    for words in
        ["feature 'inputs' begins with the token id", "the ids from 278 to 278", "NUM_TASKS"]
    {
        assert!(ended.stderr.contains(words), "`{words}` is not in {}", ended.stderr);
    }
}

#[test]
fn prompts_of_layers_are_written_and_read() {
    let folder = base();
    let file = format!("{CONFIGS}/extended/models/t5_1_1_per_layer_prompt.gin");
    let run = folder
        .train(&file)
        .gin_file(format!("{CONFIGS}/runs/prompt_finetune.gin"))
        .gin_file("prompt_dims.gin")
        .bind_text("MODEL_DIR", "model")
        .bind_text("INITIAL_CHECKPOINT_PATH", "base/checkpoint_1")
        .bind("TRAIN_STEPS", 2);
    let told = run.clone().arg("--dry_run").run();
    assert!(told.stdout.contains("trained      160 in 2 arrays"), "{}", told.stdout);
    run.succeeds();
    let divided = run.bind_text("MODEL_DIR", "divided");
    launched(divided.bind("partitioning.PjitPartitioner.num_partitions", 2), 2).succeeds();
    assert_same_arrays(&folder, "divided");
    let names = ["encoder.layers_0.prompt.prompt.prompt", "encoder.prompt.prompt.prompt"];
    assert_eq!(list(&folder.path("model/numpy_checkpoints/checkpoint_2")), names);
    let own = folder.train(&file).gin_file("t5x/configs/runs/eval.gin");
    eval(own, "own")
        .bind_text("CHECKPOINT_PATH", "model/checkpoint_2")
        .bind("utils.RestoreCheckpointConfig.fallback_to_scratch", "False")
        .bind("utils.RestoreCheckpointConfig.assignment_map", "()")
        .succeeds();
    assert!(loss(&folder, "own").is_finite());
}

#[test]
fn a_prompt_begins_as_the_text_near_which_it_is_kept() {
    let folder = base();
    folder
        .train(&format!("{CONFIGS}/extended/models/wayward_t5_1_1_prompt.gin"))
        .gin_file(format!("{CONFIGS}/runs/prompt_finetune.gin"))
        .gin_file("prompt_dims.gin")
        .bind_text("MODEL_DIR", "model")
        .bind_text("INITIAL_CHECKPOINT_PATH", "base/checkpoint_1")
        .bind_text("TASK_STRING", "abcde")
        .bind("PROMPT_LENGTH", "@wayward.length()")
        .bind("TRAIN_STEPS", 1)
        .bind("wayward.WaywardPromptEncoderDecoderModel.gamma", "1e6")
        .bind("utils.create_learning_rate_scheduler.base_learning_rate", "1e-6")
        .succeeds();
    // The ids of bytes begin at 3.
    let base = arrays::open(&folder.path("base"), 1);
    let embedding = base.read("target/token_embedder/embedding").expect("it is whole");
    let text = &embedding.to_f32().expect("floats")[(usize::from(b'a') + 3) * 16..][..80];
    let prompt = numpy(&folder, 1);
    assert!(prompt.iter().zip(text).all(|(found, text)| (found - text).abs() < 1e-4));
}

/// A training of a prompt by the ranks of two answers.
fn rank(folder: &Folder) -> Train {
    let lines = |number: u32| {
        let answer = ["yes", "no"][number as usize % 2];
        format!(
            "{{\"inputs\": \"w{number}\", \"targets\": \"{answer}\", \"answer_choices\": [\"yes\", \"no\"]}}\n"
        )
    };
    folder.write("answers.jsonl", (0..10).map(lines).collect::<String>());
    folder
        .train("prompt_tuning/extended/perceptron/configs/models/perceptron_t5_1_1_prompt.gin")
        .gin_file(format!("{CONFIGS}/runs/prompt_finetune.gin"))
        .gin_file("prompt_dims.gin")
        .gin_file("answer_tasks.gin")
        .bind_text("INITIAL_CHECKPOINT_PATH", "base/checkpoint_1")
        .bind_text("MODEL_DIR", "model")
        .bind("TRAIN_STEPS", 2)
}

#[test]
fn a_prompt_learns_to_rank_the_right_answers() {
    let folder = base();
    let run = rank(&folder);
    let told = run.clone().arg("--dry_run").run();
    for words in ["trained      80 in 1 arrays", "decoder targets [8, 8]"] {
        assert!(told.stdout.contains(words), "`{words}` is not in {}{}", told.stdout, told.stderr);
    }
    run.bind("trainer.Trainer.num_microbatches", 2).succeeds();
    assert_ne!(numpy(&folder, 1), numpy(&folder, 2));
    let measured = |name: &str, metric: &str| {
        let scalars = read_scalars(&folder.path(&format!("model/{name}/answers")));
        *scalars[metric].values().last().expect("it was measured")
    };
    // Scores of a model that has learned nothing are close, so that no margin is kept.
    assert!((0.0..=100.0).contains(&measured("inference_eval", "eval/accuracy")));
    assert!(measured("training_eval", "loss") > 0.0);
    let divided = rank(&folder).bind_text("MODEL_DIR", "divided");
    launched(divided.bind("partitioning.PjitPartitioner.num_partitions", 2), 2).succeeds();
    assert_same_arrays(&folder, "divided");
}

#[test]
fn answers_that_cannot_be_ranked_are_refused_with_the_remedy() {
    let folder = base();
    let run = rank(&folder);
    let line = |answers: &str| {
        format!("{{\"inputs\": \"w\", \"targets\": \"yes\", \"answer_choices\": {answers}}}\n")
    };
    for (answers, words) in [
        (r#"["no", "never"]"#, ["none of the 2 answers is right", "gimlet.preprocessors.filter"]),
        (r#"["yes", "no", "x"]"#, ["3 'targets'", "TASK_FEATURE_LENGTHS['is_correct']"]),
    ] {
        folder.write("answers.jsonl", line(answers).repeat(8));
        let ended = run.clone().run();
        assert_ne!(ended.status, Some(0));
        for words in words.into_iter().chain(["answers.jsonl"]) {
            assert!(ended.stderr.contains(words), "`{words}` is not in {}", ended.stderr);
        }
    }
}

#[test]
fn rows_of_several_examples_are_refused_with_the_remedy() {
    let folder = base();
    let packed = finetune(&folder, "from_sampled_vocab");
    let ended = packed.bind("train/utils.DatasetConfig.pack", "True").arg("--dry_run").run();
    assert_eq!(ended.status, Some(2), "{}", ended.stderr);
    for words in
        ["prompts.Prompt.length = 5", "prompt tuning does not support packing", "pack = False"]
    {
        assert!(ended.stderr.contains(words), "`{words}` is not in {}", ended.stderr);
    }
}
