//! `gimlet t5_experiments hyp` and `scrolls` in miniature, on examples made up here.

use std::fs;

use serde_json::{Value, json};

use crate::buckets::copy;
use crate::command::{Train, sources};
use crate::events::read_scalars;
use crate::folder::Folder;

use super::typed::{NANO, VOCABULARY};

/// Hyperpartisan news with a small T5 of transformers, whose tokens are bytes.
const HYP: &str = "hyp --data_path train.jsonl --valid_data_path dev.jsonl --test_data_path test.jsonl \
    --model_path run --from_pretrained t5 --model_type encoder-decoder \
    --model_cls transformers:T5ForConditionalGeneration --use_generate_on_valid --show_valid_examples 1 \
    --input_seq_len 32 --target_seq_len 8 --source_prefix news: --batch_size 2 \
    --gradient_accumulation_steps 2 --save_best --iters 3 --lr 1e-1 --log_interval 1 --valid_interval 2 \
    --optimize_metric loss --clip_grad_value 5.0";

/// Qasper with a T5 that is not pretrained.
const QASPER: &str = "scrolls --task_name qasper --model_path run --model_cfg nano.json --tokenizer vocab \
    --model_cls modeling_t5:T5ForConditionalGeneration --use_generate_on_valid --input_seq_len 24 \
    --target_seq_len 12 --batch_size 2 --iters 2 --lr 1e-2 --log_interval 1 --save_best \
    --optimize_metric f1 --optimize_mode max";

fn command(folder: &Folder, line: &str) -> Train {
    let train = Train::new(&folder.path("")).tool(&["t5_experiments"]);
    line.split_whitespace().fold(train, |train, word| train.arg(word))
}

fn read(folder: &Folder, file: &str) -> Value {
    let text = fs::read_to_string(folder.path(file)).expect("the run wrote it");
    serde_json::from_str(&text).expect("it is JSON")
}

fn write_lines(folder: &Folder, file: &str, lines: impl Iterator<Item = Value>) {
    folder.write(file, lines.map(|line| format!("{line}\n")).collect::<String>());
}

/// A folder with news, more of them in training than in the other files.
fn news() -> Folder {
    let folder = Folder::new();
    copy(&sources("hugging_face/t5"), &folder.path("t5"));
    let config = fs::read_to_string(folder.path("t5/config.json")).expect("it is committed");
    folder
        .write("t5/config.json", config.replace("\"dropout_rate\": 0.1", "\"dropout_rate\": 0.0"));
    for (name, count) in [("train", 10), ("dev", 5), ("test", 3)] {
        let label = |i: u32| if i.is_multiple_of(3) { "true" } else { "false" };
        let line = |i| json!({"text": format!("{name} {i} news"), "label": label(i)});
        write_lines(&folder, &format!("{name}.jsonl"), (0..count).map(line));
    }
    folder
}

#[test]
fn the_best_model_of_a_fine_tuning_is_evaluated_at_its_end_and_again() {
    let folder = news();
    let ended = command(&folder, HYP).succeeds();
    assert!(ended.stderr.contains("\"news:dev 0 news\" -> "), "{}", ended.stderr);
    // The last model is another one, of step 4.
    assert!(ended.stderr.contains("evaluating the model of step 3"), "{}", ended.stderr);

    let text = fs::read_to_string(folder.path("run/metrics.json")).expect("the run wrote it");
    assert!(text.starts_with("{\n    \"train\": {\n        \"loss\": "), "{text}");
    let metrics = read(&folder, "run/metrics.json");
    let names = |split: &str| metrics[split].as_object().expect("by metric").keys().cloned();
    assert!(names("train").eq(["loss"]));
    for split in ["valid", "test"] {
        assert!(names(split).eq(["accuracy", "f1", "loss", "precision", "recall"]));
    }
    let gin = fs::read_to_string(folder.path("run/config.gin")).expect("the run wrote it");
    assert!(gin.contains("DROPOUT_RATE = 0\n"), "that of t5/config.json: {gin}");
    let losses = &read_scalars(&folder.path("run/training_eval/valid"))["loss"];
    // A mean over tokens, of which a batch has more than ten.
    assert!(losses[&3] < 20.0, "{losses:?}");
    assert_eq!(losses.keys().copied().collect::<Vec<_>>(), [1, 3]);
    // Event files have 32 bits.
    assert_eq!(metrics["valid"]["loss"].as_f64().map(|loss| loss as f32), Some(losses[&3] as f32));
    let last = &read_scalars(&folder.path("run/train"))["loss"][&4];
    assert_eq!(metrics["train"]["loss"].as_f64().map(|loss| loss as f32), Some(*last as f32));

    let again = format!("{HYP} --validate_only --init_checkpoint run/model_best.pth");
    command(&folder, &again).succeeds();
    for split in ["valid", "test"] {
        let events = read_scalars(&folder.path(&format!("run/validation/training_eval/{split}")));
        let loss = metrics[split]["loss"].as_f64().map(|loss| loss as f32);
        assert_eq!(
            events["loss"].values().map(|loss| Some(*loss as f32)).collect::<Vec<_>>(),
            [loss]
        );
        let events = read_scalars(&folder.path(&format!("run/validation/inference_eval/{split}")));
        assert!(events.contains_key("eval/f1"), "{:?}", events.keys());
    }
    assert!(folder.path("run/validation/training_eval/train").exists());
}

#[test]
fn several_outputs_of_an_id_are_the_answers_to_one_question() {
    let folder = Folder::new();
    folder.write("nano.json", NANO);
    for name in ["vocab", "tau/scrolls/qasper"] {
        fs::create_dir_all(folder.path(name)).expect("a folder");
    }
    fs::copy(VOCABULARY, folder.path("vocab/spiece.model")).expect("it is committed");
    let line = |(id, output): (u32, &str)| json!({"id": format!("q{id}"), "pid": "p", "input": format!("question {id}"), "output": output});
    let train = [(1, "yes"), (1, "no"), (2, "a fox"), (3, "foxes")].map(line);
    write_lines(&folder, "tau/scrolls/qasper/train.jsonl", train.into_iter());
    let long = "fox ".repeat(50);
    let held_out = [(1, "yes"), (2, "the fox"), (1, "no"), (1, &long)].map(line);
    write_lines(&folder, "tau/scrolls/qasper/validation.jsonl", held_out.into_iter());
    command(&folder, QASPER).succeeds();

    let examples = fs::read_to_string(folder.path("run/inference_eval/valid-000003.jsonl"));
    let examples = examples.expect("the run wrote it");
    let targets: Vec<Value> = examples
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).expect("JSON")["target"].clone())
        .collect();
    assert_eq!(targets, [json!(["yes", "no", long]), json!(["the fox"])]);
    let metrics = read(&folder, "run/metrics.json");
    assert!(metrics["valid"]["f1"].is_f64() && metrics["test"].is_null(), "{metrics}");
    assert_eq!(metrics["valid"].as_object().map(|metrics| metrics.len()), Some(2));
}
