//! A pretraining of BERT by real t5-experiments, repeated: `bert/make_run.py` made the expected results.

use std::fs;
use std::path::Path;

use serde_json::Value;

use super::{TOLERANCE, assert_near, check_weights_where, opened};
use crate::command::{Train, sources};
use crate::events::read_scalars;
use crate::folder::Folder;
use crate::meshes::layout;
use crate::processes::launched;

fn read(file: impl AsRef<Path>) -> Value {
    let text = fs::read_to_string(file).expect("it is there");
    serde_json::from_str(&text).expect("it is JSON")
}

fn expected() -> Value {
    read(sources("t5_experiments/bert").join("steps.json"))
}

fn run(model_dir: &Path) -> Train {
    let train = Train::new(&sources("t5_experiments/bert")).gin_file("run.gin");
    let train = train.bind_text("MODEL_DIR", model_dir).bind("TRAIN_STEPS", 12);
    train
        .bind("utils.SaveCheckpointConfig.period", 6)
        .bind_text("utils.SaveCheckpointConfig.format", "trainer")
}

/// Compares weights, but biases of keys: weights of attention do not depend on them, and Adam moves them by the noise of their
/// gradients.
fn check_trained(ours: &Path, theirs: &str) {
    let theirs = sources("t5_experiments/bert").join(theirs);
    check_weights_where(&*opened(ours), &theirs, |name: &str| !name.ends_with("key/bias"));
}

fn check_final(model_dir: &Path) {
    check_trained(&model_dir.join("model_12.pth"), "final.safetensors");
}

/// Compares losses, norms and rates of each step.
fn check_steps(model_dir: &Path, expected: &Value) {
    let found = read_scalars(&model_dir.join("train"));
    for tag in ["loss", "loss_mlm", "loss_nsp", "weight_gradient_norm", "learning_rate"] {
        assert_near(tag, found[tag].values(), &expected[tag]);
    }
}

/// Compares the steps and the final weights.
fn check(change: impl Fn(Train) -> Train) {
    let scratch = tempfile::tempdir().expect("a temporary folder");
    let model_dir = scratch.path().join("ours");
    change(run(&model_dir)).succeeds();
    check_steps(&model_dir, &expected());
    check_final(&model_dir);
}

#[test]
fn a_bert_repeats_that_of_t5_experiments() {
    check(|train| train);
}

#[test]
fn a_divided_bert_repeats_that_of_t5_experiments() {
    // Each process keeps a half of the parameters and of the optimizer's state; or of the heads, the feed-forward block, the
    // vocabulary and the stream between blocks.
    for layout in [layout(2, 1, 3, 1), layout(1, 2, 0, 2)] {
        check(|train| launched(layout.bound(train), 2));
    }
}

/// With the folder that it saved as its best model, and with its file of metrics.
#[test]
fn a_bert_with_accelerate_repeats_that_of_t5_experiments() {
    let scratch = tempfile::tempdir().expect("a temporary folder");
    let model_dir = scratch.path().join("ours");
    let train = run(&model_dir)
        .bind("TRAIN_STEPS", 6)
        .bind("schedules.get_scheduler.num_training_steps", 6)
        .bind("train.eval_period", 3)
        .bind("train.best", "@gimlet.BestModel()")
        .bind_text("gimlet.BestModel.metric", "loss")
        .bind_text("gimlet.BestModel.mode", "min")
        .bind("train.after_training_dataset_cfg", "@train_eval/utils.DatasetConfig()");
    train.succeeds();
    let theirs = sources("t5_experiments/bert/accelerate");
    let expected = read(theirs.join("steps.json"));
    check_steps(&model_dir, &expected);
    check_trained(&model_dir.join("model_best.pth"), "accelerate/model_best");

    let logged = read_scalars(&model_dir.join("training_eval/documents"));
    let [found, expected_at_end] = [&model_dir, &theirs].map(|dir| read(dir.join("metrics.json")));
    // Accuracies of masked tokens are those of all of them, and there the mean over micro-batches.
    for tag in ["loss", "loss_mlm", "loss_nsp", "accuracy_nsp"] {
        let of_step = |step: &str| expected["validations"][step][tag].clone();
        assert_near(tag, logged[tag].values(), &["0", "3", "6"].map(of_step)[..].into());
        let at_end = [expected_at_end["valid"][tag].clone()];
        assert_near(tag, found["documents"][tag].as_f64().iter(), &at_end[..].into());
    }
    // Metrics of training are those of the last logged step.
    let last = expected["loss_mlm"].as_array().expect("by step").last().cloned();
    let trained = found["train"]["loss_mlm"].as_f64();
    assert_near("loss_mlm", trained.iter(), &last.as_slice().into());
}

/// With dropout, blocks of heads and relative biases.
#[test]
#[ignore = "takes a minute: `make soak`"]
fn layouts_of_a_bert_make_the_run_of_one_process() {
    let sparsity = "bert.BigBirdSparsityConfig";
    let sparse = |train: Train| {
        train
            .bind("bert.BertConfig.sparsity", format!("@{sparsity}()"))
            .bind(&format!("{sparsity}.num_heads"), 2)
            .bind(&format!("{sparsity}.different_layout_per_head"), "True")
            .bind("bert.BertConfig.position_embedding", "@bert.relative_attention_bias()")
    };
    let norms_after = |train: Train| train.bind("bert.BertConfig.pre_layer_norm", "False");
    let variants: [&dyn Fn(Train) -> Train; 2] = [&sparse, &norms_after];
    for (number, variant) in variants.iter().enumerate() {
        let scratch = tempfile::tempdir().expect("a temporary folder");
        let run = |name: String, change: &dyn Fn(Train) -> Train| {
            let model_dir = scratch.path().join(name);
            let mut train = variant(run(&model_dir))
                .bind_text("utils.SaveCheckpointConfig.format", "t5x")
                .bind("gimlet.optimizers.Clipped.optimizer", "@optim.SGD()")
                .bind("optim.SGD.lr", "'trainer'")
                .bind("schedules.get_scheduler.lr", 1);
            for rate in ["hidden_dropout_prob", "attention_probs_dropout_prob"] {
                train = train.bind(&format!("bert.BertConfig.{rate}"), 0.1);
            }
            for key in ["strict = False", "fallback_to_scratch = True"] {
                train = train.arg(format!("--gin_param=utils.RestoreCheckpointConfig.{key}"));
            }
            change(train).succeeds();
            crate::arrays::open(&model_dir, 13)
        };
        let one = run("one".to_string(), &|train| train);
        for layout in [layout(1, 2, 0, 1), layout(1, 2, 0, 2), layout(2, 2, 3, 2)] {
            let count = layout.data * layout.model;
            let found = run(format!("{layout:?}"), &|train| launched(layout.bound(train), count));
            // The true gradient of biases of keys is 0.
            let errors = crate::arrays::errors(&found, &one).into_iter();
            let errors = errors.filter(|(name, _)| !name.ends_with("key/bias"));
            let largest = errors.max_by(|(_, one), (_, other)| one.total_cmp(other));
            eprintln!("{number}, {layout:?}: {largest:?}");
            assert!(largest.expect("there are arrays").1 < 1e-5);
        }
    }
}

#[test]
fn a_bert_in_microbatches_repeats_that_of_t5_experiments() {
    check(|train| train.bind("trainer.Trainer.num_microbatches", 2));
}

/// Three of its four validations see the same examples in other batches.
#[test]
fn a_bert_logs_what_t5_experiments_logs() {
    let scratch = tempfile::tempdir().expect("a temporary folder");
    let model_dir = scratch.path().join("ours");
    let train = run(&model_dir)
        .bind("train.stats_period", 3)
        .bind("train.eval_period", 4)
        .bind("train.best", "@gimlet.BestModel()")
        .bind_text("gimlet.BestModel.metric", "accuracy_mlm")
        .bind_text("gimlet.BestModel.mode", "max");
    train.succeeds();
    let found = read_scalars(&model_dir);
    for (tag, values) in expected()["tensorboard"].as_object().expect("values by tag") {
        for (step, value) in values.as_object().expect("values by step") {
            let (at, value) = (step.parse::<i64>().expect("a step"), value.as_f64().expect("it"));
            let near = found[tag][&at];
            assert!((near - value).abs() <= TOLERANCE * value.abs(), "{tag} {at}: {near}, {value}");
        }
    }
    check_final(&model_dir);
    // The run's own configuration says what the arrays do not.
    let folder = scratch.path().join("transformers");
    let convert = Train::new(scratch.path()).tool(&["checkpoint", "convert"]);
    let convert = convert.arg(model_dir.join("model_12.pth").display().to_string());
    let convert = convert.arg(folder.display().to_string()).arg("--to=hugging_face");
    convert.succeeds();
    check_trained(&folder.join("model.safetensors"), "final.safetensors");
    let config = fs::read_to_string(folder.join("config.json")).expect("it is written");
    assert!(config.contains("\"pre_layer_norm\": true"), "{config}");
}

/// A folder with texts, pieces and a network.
fn checkout() -> Folder {
    let folder = Folder::new();
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/pipeline/data/reference/megatron");
    for (from, to) in [
        ("train_text_sentence.bin", "train_text_sentence.bin"),
        ("train_text_sentence.idx", "train_text_sentence.idx"),
        ("vocab.txt", "vocabs/vocab.txt"),
    ] {
        let to = folder.path(to);
        fs::create_dir_all(to.parent().expect("it is in the folder")).expect("a folder");
        fs::copy(data.join(from), to).expect("it is committed");
    }
    let network = r#"{"model_type": "bert", "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2,
        "intermediate_size": 24, "max_position_embeddings": 64, "vocab_size": 128, "pre_layer_norm": true,
        "position_embedding_type": "relative_attention_bias",
        "sparse_config_cls": "deepspeed.ops.sparse_attention:BigBirdSparsityConfig",
        "sparse_attention": {"num_heads": 2, "block": 16}}"#;
    folder.write("bert.json", network);
    folder
}

/// The command of t5-experiments' tests, with fewer rows and steps.
fn typed(folder: &Folder, words: &str) -> Train {
    let line = "--data_path train_text_sentence --valid_data_path train_text_sentence --tokenizer ./vocabs/ \
        --model_cfg bert.json --model_cls modeling_bert:BertForPreTraining --batch_size 4 \
        --gradient_accumulation_steps 2 --data_n_epochs 1 --input_seq_len 48 --lr 3e-04 --save_best --iters 5 \
        --log_interval 1 --save_interval 2 --valid_interval 3";
    let train = Train::new(&folder.path("")).tool(&["t5_experiments", "bert_accel"]);
    let words = line.split_whitespace().chain(words.split_whitespace());
    words.fold(train, |train, word| train.arg(word))
}

#[test]
fn a_bert_is_pretrained_as_typed_and_as_printed() {
    let folder = checkout();
    let run = |words: &str| typed(&folder, words);
    run("--model_path typed").succeeds();
    for name in ["config.json", "model_0.pth", "model_2.pth", "model_4.pth", "model_best.pth"] {
        assert!(folder.path("typed").join(name).exists(), "{name}");
    }
    let fill = Train::new(&folder.path("")).tool(&["fill"]).arg("--checkpoint=typed");
    assert_eq!(fill.arg("ba [MASK] ri").succeeds().stdout.lines().count(), 6);
    let printed = run("--model_path printed --print_gin").succeeds().stdout;
    folder.write("printed.gin", &printed);
    Train::new(&folder.path("")).gin_file("printed.gin").succeeds();
    let losses = |model_dir: &str| {
        ["train", "training_eval/pretraining"]
            .map(|events| read_scalars(&folder.path(model_dir).join(events))["loss_nsp"].clone())
    };
    assert_eq!(losses("typed"), losses("printed"));
    assert_eq!(losses("typed")[0].len(), 6);

    // The form for Accelerate ends with the validation of the best model, which is the same by itself.
    let metrics = read(folder.path("typed/metrics.json"));
    let again = "--model_path again --validate_only --init_checkpoint typed/model_best.pth";
    run(again).succeeds();
    let again = read_scalars(&folder.path("again/validation/training_eval/valid"));
    let tags = ["accuracy_mlm", "accuracy_nsp", "loss", "loss_mlm", "loss_nsp"];
    for split in ["train", "valid"] {
        let found = metrics[split].as_object().expect("by metric");
        assert!(found.keys().eq(tags), "{metrics}");
    }
    for tag in tags {
        // Event files have 32 bits.
        let expected = metrics["valid"][tag].as_f64().expect("a number") as f32;
        let found: Vec<f32> = again[tag].values().map(|value| *value as f32).collect();
        assert_eq!(found, [expected], "{tag}");
    }
    let config = fs::read_to_string(folder.path("typed/config.json")).expect("it is recorded");
    assert!(config.contains("\"mixed_precision\": \"no\""), "{config}");
}
