//! Models that name classes: answers, scores and training against transformers, whose numbers `hugging_face/make_bert_classes.py`
//! wrote; and the fine-tuning programs of t5-experiments with an encoder.

use std::fs;

use serde_json::{Value, json};

use crate::buckets::copy;
use crate::command::{Train, sources};
use crate::events::read_scalars;
use crate::folder::Folder;
use crate::generate::gimlet;

/// A folder with the model as `model`, and the numbers of transformers.
fn folder() -> (Folder, Value) {
    let folder = Folder::new();
    copy(&sources("hugging_face/bert_classes"), &folder.path("model"));
    let text = fs::read_to_string(folder.path("model/expected.json")).expect("it is committed");
    (folder, serde_json::from_str(&text).expect("it is JSON"))
}

fn texts(of: &Value) -> Vec<&str> {
    of.as_array().expect("a list").iter().map(|text| text.as_str().expect("a text")).collect()
}

fn assert_near(found: f64, expected: &Value) {
    let expected = expected.as_f64().expect("a number");
    assert!((found - expected).abs() < 2e-5, "{found}, expected {expected}");
}

#[test]
fn classes_of_texts_and_their_scores_are_those_of_transformers() {
    let (folder, expected) = folder();
    let texts = texts(&expected["texts"]);
    let generate = ["generate", "--checkpoint=model", "--json", "--num_decodes=9"];
    let ended = gimlet(&folder, &[&generate[..], &texts].concat()).succeeds();
    for (line, scores) in ended.stdout.lines().zip(expected["scores"].as_array().expect("rows")) {
        let line: Value = serde_json::from_str(line).expect("it is JSON");
        let predictions = line["predictions"].as_array().expect("a list");
        assert_eq!(predictions.len(), 2, "each class once");
        for prediction in predictions {
            let class = usize::from(prediction["text"] == "true");
            assert_near(prediction["score"].as_f64().expect("a number"), &scores[class]);
        }
        assert!(predictions[0]["score"].as_f64() > predictions[1]["score"].as_f64());
    }
    assert_eq!(ended.stdout.lines().count(), texts.len());

    let lines =
        texts.iter().map(|text| format!("{}\n", json!({"inputs": text, "targets": "true"})));
    folder.write("pairs.jsonl", lines.collect::<String>());
    let scores = ["score", "--checkpoint=model", "--file=pairs.jsonl"];
    let scored = gimlet(&folder, &scores).succeeds().stdout;
    for (found, scores) in scored.lines().zip(expected["scores"].as_array().expect("rows")) {
        assert_near(found.parse().expect("a number"), &scores[1]);
    }

    folder.write("unknown.jsonl", format!("{}\n", json!({"inputs": "a", "targets": "maybe"})));
    let unknown = gimlet(&folder, &["score", "--checkpoint=model", "--file=unknown.jsonl"]).run();
    assert!(unknown.stderr.contains("one of the classes false, true"), "{}", unknown.stderr);
    let sampled = gimlet(&folder, &["generate", "--checkpoint=model", "--beam=2", "a"]).run();
    assert!(sampled.stderr.contains("takes no option of sampling"), "{}", sampled.stderr);
}

/// The folder's examples as a training set, which one batch holds.
fn news(folder: &Folder, expected: &Value) {
    let example = |pair: &Value| format!("{}\n", json!({"text": pair[0], "label": pair[1]}));
    let examples = expected["examples"].as_array().expect("a list");
    folder.write("news.jsonl", examples.iter().map(example).collect::<String>());
}

fn hyp(folder: &Folder, words: &str) -> Train {
    let line = format!(
        "hyp --data_path news.jsonl --valid_data_path news.jsonl --input_seq_len 12 --batch_size 2 \
         --gradient_accumulation_steps 2 --weight_decay 0.1 --lr 1e-2 --iters 3 --save_interval 3 --log_interval 1 --valid_interval 3 {words}"
    );
    let train = Train::new(&folder.path("")).tool(&["t5_experiments"]);
    line.split_whitespace().fold(train, |train, word| train.arg(word))
}

#[test]
fn an_encoder_learns_classes_as_in_transformers_and_its_checkpoints_are_transformers() {
    let (folder, expected) = folder();
    news(&folder, &expected);
    let class = "--model_cls transformers:BertForSequenceClassification";
    hyp(&folder, &format!("--model_path run --from_pretrained model {class}")).succeeds();
    let losses = &read_scalars(&folder.path("run/train"))["loss"];
    let wanted = expected["losses"].as_array().expect("a list");
    assert_eq!(losses.len(), wanted.len());
    losses.values().zip(wanted).for_each(|(loss, wanted)| assert_near(*loss, wanted));
    let metrics = fs::read_to_string(folder.path("run/metrics.json")).expect("the run wrote it");
    let metrics: Value = serde_json::from_str(&metrics).expect("it is JSON");
    let names = metrics["valid"].as_object().expect("by metric").keys().cloned();
    assert!(names.eq(["accuracy", "f1", "loss", "precision", "recall"]));

    // The file of the Trainer has transformers' names, and so has a folder for them, whose classes keep their names.
    let convert = |from: &str, to: &str, words: &[&str]| {
        let train = Train::new(&folder.path("")).tool(&["checkpoint", "convert"]);
        words.iter().fold(train.arg(from).arg(to), |train, word| train.arg(*word)).succeeds();
    };
    let gin = "--gin_file=run/config.gin";
    convert("run/model_3.pth", "exported", &["--to=hugging_face", gin]);
    let config = fs::read_to_string(folder.path("exported/config.json")).expect("it is written");
    let config: Value = serde_json::from_str(&config).expect("it is JSON");
    assert_eq!(config["id2label"], json!({"0": "false", "1": "true"}));
    assert_eq!(config["architectures"], json!(["BertForSequenceClassification"]));
    fs::copy(folder.path("model/vocab.txt"), folder.path("exported/vocab.txt")).expect("a copy");
    let of = |checkpoint: &str| {
        gimlet(&folder, &["generate", checkpoint, "--json", "news 2"]).succeeds().stdout
    };
    assert_eq!(of("--checkpoint=exported"), of("--checkpoint=run"));

    // A BERT of one's own with a new head, and a T5's encoder.
    let own = "--model_cfg model/config.json --tokenizer model --init_checkpoint run/model_3.pth --reset_optimizer";
    hyp(&folder, &format!("--model_path own {own} --reset_iteration {class}")).succeeds();
    let first = read_scalars(&folder.path("own/train"))["loss"][&1];
    let last = wanted[wanted.len() - 1].as_f64().expect("a number");
    assert!(first < last, "{first} follows {last}");
    copy(&sources("hugging_face/t5"), &folder.path("t5"));
    let t5 = "--from_pretrained t5 --model_cls transformers:T5EncoderModel";
    let ended = hyp(&folder, &format!("--model_path of_t5 {t5}")).succeeds();
    assert!(ended.stderr.contains("`target/pooler/kernel`"), "new parameters: {}", ended.stderr);
    let learned = read_scalars(&folder.path("of_t5/train"))["loss"].clone();
    assert!(learned[&4] < learned[&1], "{learned:?}");
}

#[test]
fn contract_nli_is_learned_by_an_encoder() {
    let (folder, _) = folder();
    fs::create_dir_all(folder.path("tau/scrolls/contract_nli")).expect("a folder");
    let answers = [("news", "Contradiction"), ("fox", "Entailment"), ("the", "Not mentioned")];
    let line = |number: usize| {
        let (input, output) = answers[number % 3];
        let id = number.to_string();
        format!("{}\n", json!({"id": id, "pid": "p", "input": input, "output": output}))
    };
    for split in ["train", "validation"] {
        let lines = (0..4).map(line).collect::<String>();
        folder.write(&format!("tau/scrolls/contract_nli/{split}.jsonl"), lines);
    }
    let line = "scrolls --task_name contract_nli --model_path run --model_cfg model/config.json --tokenizer model --batch_size 4 \
        --model_cls modeling_bert:BertForSequenceClassification --model_type encoder --input_seq_len 12 --lr 1e-2 --iters 40 \
        --log_interval 20 --optimize_metric f1_micro --optimize_mode max --save_best";
    let train = Train::new(&folder.path("")).tool(&["t5_experiments"]);
    line.split_whitespace().fold(train, |train, word| train.arg(word)).succeeds();
    let metrics = fs::read_to_string(folder.path("run/metrics.json")).expect("the run wrote it");
    let metrics: Value = serde_json::from_str(&metrics).expect("it is JSON");
    let of = |name: &str| metrics["valid"][name].as_f64().expect("a number");
    assert_eq!((of("exact_match"), of("f1_micro")), (100.0, 1.0));
}

#[test]
fn rows_that_are_packed_or_too_long_have_no_class() {
    let (folder, expected) = folder();
    news(&folder, &expected);
    let refused = |words: &str, message: &str| {
        let ended =
            hyp(&folder, &format!("--model_path run --from_pretrained model {words}")).run();
        assert_eq!(ended.status, Some(2));
        assert!(ended.stderr.contains(message), "{}", ended.stderr);
        assert!(!folder.path("run").exists());
    };
    let class = "--model_cls transformers:BertForSequenceClassification";
    let pack = format!("{class} --gin.train/utils.DatasetConfig.pack=True");
    refused(&pack, "puts several examples into a row, and the model names one class for each row");
    let long = format!("{class} --gin.TASK_FEATURE_LENGTHS={{'inputs':99,'targets':1}}");
    refused(&long, "rows have 99 tokens, expected at most bert.BertConfig.max_position_embeddings");
}
