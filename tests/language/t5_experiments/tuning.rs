//! Command lines of t5-experiments' fine-tuning programs: their statements, and what is refused.

use std::fs;
use std::path::Path;

use gimlet::run::Translated;

use super::Checkout;

/// Hyperpartisan news with T5, as its author ran it.
const HYP: &str = "hyp --data_path train.jsonl --valid_data_path dev.jsonl --test_data_path test.jsonl \
    --model_path runs/hyp --from_pretrained t5 --model_type encoder-decoder \
    --model_cls transformers:T5ForConditionalGeneration --use_generate_on_valid --show_valid_examples 5 \
    --input_seq_len 256 --batch_size 8 --gradient_accumulation_steps 4 --save_best --iters 1000 \
    --optimizer AdamW --weight_decay 1e-03 --lr 1e-04 --lr_scheduler linear --num_warmup_steps 100 \
    --log_interval 50 --valid_interval 50 --optimize_metric f1 --optimize_mode max \
    --early_stopping_patience 10 --seed 43 --clip_grad_value 5.0";

/// Qasper with a model that is not pretrained.
const QASPER: &str = "scrolls --task_name qasper --model_path runs/qasper --model_cfg nano.json \
    --tokenizer vocab --model_cls modeling_t5:T5ForConditionalGeneration --use_generate_on_valid \
    --input_seq_len 512 --target_seq_len 1024 --input_prefix question: --batch_size 8 --iters 3200 \
    --lr 2e-05 --log_interval 80 --optimize_metric f1 --optimize_mode max --data_n_workers 4";

/// A checkout with data and models for fine-tuning.
fn checkout() -> Checkout {
    let checkout = Checkout::new();
    for name in ["train", "dev", "test"] {
        checkout.write(&format!("{name}.jsonl"), "{\"text\": \"a\", \"label\": \"true\"}\n");
    }
    for split in ["train", "validation"] {
        let line = "{\"id\": \"1\", \"input\": \"a\", \"output\": \"b\"}\n";
        checkout.write(&format!("tau/scrolls/qasper/{split}.jsonl"), line);
    }
    checkout.write("vocab/spiece.model", "");
    let model = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/e2e/hugging_face/t5");
    let folder = checkout.0.path().join("t5");
    fs::create_dir(&folder).expect("a folder");
    for name in
        ["config.json", "generation_config.json", "model.safetensors", "tokenizer_config.json"]
    {
        fs::copy(model.join(name), folder.join(name)).expect("it is committed");
    }
    checkout
}

fn translated(line: &str) -> Translated {
    let translated = checkout().translated(line);
    translated.unwrap_or_else(|message| panic!("{line}: {message}"))
}

/// The statements have these ones.
fn check(line: &str, expected: &[&str]) {
    let checkout = checkout();
    let translated = checkout.translated(line).unwrap_or_else(|message| panic!("{message}"));
    let texts: Vec<String> =
        translated.statements.iter().map(|it| checkout.placed(&it.text)).collect();
    for text in expected {
        assert!(texts.iter().any(|found| found == text), "{text} is not in {texts:#?}");
    }
    translated.command.check(false, 1).unwrap_or_else(|failure| panic!("{failure}"));
}

/// The message for a line has all of the parts.
fn refused(line: &str, parts: &[&str]) {
    let Err(message) = checkout().translated(line) else { panic!("{line} is accepted") };
    for part in parts {
        assert!(message.contains(part), "{part:?} is not in\n{message}");
    }
}

#[test]
fn hyperpartisan_news_becomes_statements() {
    checkout().check(HYP, "hyp.golden");
}

#[test]
fn a_data_set_of_scrolls_becomes_statements() {
    checkout().check(QASPER, "qasper.golden");
    let notices = translated(QASPER).notices;
    assert!(notices[0].starts_with("--data_n_workers has no effect: threads"), "{notices:?}");
    let record = translated(QASPER).record;
    let config = &record.files[0].text;
    assert!(
        config.contains("\"task_name\": \"qasper\",\n    \"validate_only\": false,"),
        "{config}"
    );
}

#[test]
fn a_pretrained_model_has_its_own_dimensions_and_tokenizer() {
    let notices = translated(&format!("{HYP} --tokenizer vocab")).notices;
    assert_eq!(notices, ["--tokenizer has no effect: --from_pretrained names the model"]);
    refused(&format!("{HYP} --show_valid_examples -1"), &["is -1, expected at least 0"]);
}

#[test]
fn a_model_that_is_not_on_the_disk_is_that_of_the_hub() {
    let path = "INITIAL_CHECKPOINT_PATH = 'hf://t5-base'";
    let line = HYP.replace("--from_pretrained t5", "--from_pretrained t5-base");
    let found = translated(&line).statements;
    assert!(found.iter().any(|statement| statement.text == path), "{path}");
}

#[test]
fn an_evaluation_alone_reads_all_examples_and_trains_nothing() {
    let line = format!("{HYP} --validate_only");
    let folder = "EVAL_OUTPUT_DIR = 'CHECKOUT/runs/hyp/validation'";
    check(&line, &[folder, "CHECKPOINT_PATH = 'CHECKOUT/t5'"]);
    let found = translated(&line);
    assert!(found.statements.iter().all(|it| !it.text.starts_with("t5x.train.train")));
    assert!(found.record.folder.ends_with("/runs/hyp/validation"), "{}", found.record.folder);
    let line = format!("{QASPER} --validate_only --init_checkpoint runs/model_best.pth");
    check(&line, &["CHECKPOINT_PATH = 'CHECKOUT/runs/model_best.pth'"]);
    refused(&format!("{QASPER} --validate_only"), &["`--validate_only` needs weights"]);
}

#[test]
fn the_optimizer_of_scrolls_has_its_own_defaults() {
    let adafactor = QASPER.replace("--lr 2e-05", "--optimizer Adafactor");
    let key = |name: &str| format!("gimlet.optimizers.TransformersAdafactor.{name}");
    let values = [("scale_parameter", "True"), ("relative_step", "True"), ("lr", "None")];
    let texts = values.map(|(name, value)| format!("{} = {value}", key(name)));
    check(&adafactor, &texts.each_ref().map(String::as_str));
    let message = "`--lr` is given with Adafactor, whose steps are relative in this program";
    refused(&format!("{adafactor} --lr 1"), &[message]);
}

#[test]
fn a_dry_run_names_the_traps_of_fine_tuning() {
    let found = translated(&format!("{HYP} --dry_run")).description;
    for expected in [
        "updates      1001 in steps 0 to 1000\n",
        "seeds        43, validation 42\n",
        "trap 6       --seed is only that of the order",
        "trap 23      labels of different lengths",
    ] {
        assert!(found.contains(expected), "{expected:?} is not in\n{found}");
    }
    assert!(!found.contains("rank 0") && !found.contains("trap 5"), "{found}");
}

#[test]
fn models_of_other_families_are_refused_with_the_reason() {
    let encoder = HYP.replace("encoder-decoder", "encoder");
    refused(
        &encoder,
        &[
            "`--model_cls` is `transformers:T5ForConditionalGeneration`, expected an encoder: one of",
            "`--use_generate_on_valid` is given with an encoder, which writes no texts",
        ],
    );
    let encoder = QASPER.replace("--use_generate_on_valid", "--model_type encoder");
    refused(&encoder, &["the answers of `qasper` are texts, expected the classes of contract_nli"]);
    let decoder = HYP.replace("encoder-decoder", "decoder");
    refused(&decoder, &["`--model_type` is `decoder`, expected encoder or encoder-decoder"]);
    let bart = HYP.replace("T5For", "BartFor");
    refused(&bart, &["`--model_cls` is `transformers:BartForConditionalGeneration`"]);
}

#[test]
fn files_that_are_missing_are_named_with_their_layout() {
    let quality = QASPER.replace("qasper", "quality").replace("metric f1", "metric exact_match");
    refused(
        &quality,
        &[
            "`CHECKOUT/tau/scrolls/quality/train.jsonl`, which is missing",
            "`CHECKOUT/tau/scrolls/quality/validation.jsonl`, which is missing",
            "expected tau/scrolls/TASK/train.jsonl and validation.jsonl",
            "--path_map tau/scrolls=FOLDER",
        ],
    );
    refused(&HYP.replace("dev.jsonl", "valid.jsonl"), &["`--valid_data_path` is `CHECKOUT/valid"]);
    refused(&HYP.replace("--data_path train.jsonl", ""), &["expected a file of JSON lines"]);
    refused(&QASPER.replace("vocab", "words"), &["`--tokenizer` is `CHECKOUT/words`"]);
    refused(
        &QASPER.replace("--tokenizer vocab --", "--"),
        &[
            "`--tokenizer` is missing, expected a folder with tokenizer.json, spiece.model or a BERT's",
        ],
    );
}

#[test]
fn names_of_data_sets_and_metrics_have_suggestions() {
    refused(&QASPER.replace("name qasper", "name qaspar"), &["did you mean `qasper`?"]);
    refused(
        &QASPER.replace("--task_name qasper", ""),
        &["expected one of gov_report, summ_screen"],
    );
    refused(&QASPER.replace("metric f1", "metric f2"), &["do not measure", "did you mean `f1`?"]);
    refused(
        &HYP.replace("--use_generate_on_valid", ""),
        &[
            "`--optimize_metric` is `f1`, a metric of generated texts",
            "add --use_generate_on_valid",
        ],
    );
    refused(&HYP.replace("--log_interval 50 --valid_interval 50", ""), &["no interval"]);
}
