//! Mistakes in command lines of t5-experiments: each message has the flag, what was found, and what was expected.

use super::Checkout;

/// A command line without a mistake.
const RIGHT: &str = "t5 --data_path train --model_path run --model_cfg nano.json";

/// The message for more words has all of the parts.
fn check(line: &str, parts: &[&str]) {
    let checkout = Checkout::new();
    let context =
        r#"{"num_cdq_heads": 4, "encoder_self_attention_layer": "modeling_t5:T5CDQAttention"}"#;
    checkout.write("cdq.json", context);
    checkout.write("strange.json", r#"{"d_modle": 16, "d_ff": 0}"#);
    let Err(message) = checkout.translated(line) else { panic!("{line} is accepted") };
    for part in parts {
        assert!(message.contains(part), "{part:?} is not in\n{message}");
    }
}

fn check_more(words: &str, parts: &[&str]) {
    check(&format!("{RIGHT} {words}"), parts);
}

#[test]
fn a_program_is_named_first() {
    check("t6", &["t5-experiments has no program `t6`", "did you mean `t5`"]);
}

#[test]
fn words_that_are_no_flags_have_a_suggestion() {
    check_more("--learning_rate 1", &["there is no flag `--learning_rate`", "--help"]);
    check_more("--batch_sizes 1", &["did you mean `batch_size`?"]);
    check_more("--iters many", &["`--iters` is `many`, expected a whole number"]);
}

#[test]
fn all_mistakes_are_told_at_once() {
    check(
        "t5 --optimizer Adamw --task span_corruption",
        &[
            "`--model_path` is missing, expected the folder of checkpoints and logs",
            "`--data_path` is missing, expected a folder of files `*.jsonl`",
            "`--optimizer` is `Adamw`, expected Adafactor, or of torch AdamW, Adam, SGD, RMSprop, Adagrad, RAdam, NAdam",
            "did you mean `AdamW`?",
            "`--lr` is missing, expected a number",
        ],
    );
}

#[test]
fn flags_that_exclude_each_other_are_refused_as_there() {
    check_more("--lr 1 --clip_grad_norm 1 --clip_grad_value 0", &["both given, expected one of"]);
    check_more("--lr_scheduler linear --num_warmup_steps 0", &["`--lr` is missing"]);
    check_more("--lr 1 --lr_scheduler linear", &["`--lr_scheduler linear` needs `--num_warmup"]);
    check_more("--lr 1 --lr_scheduler linaer --num_warmup_steps 0", &["did you mean `linear`?"]);
    let drop = "--lr 1 --use_lr_drop --lr_scheduler constant";
    check_more(drop, &["`--lr_scheduler` are both given", "`--valid_data_path` is missing"]);
    let adafactor = "--optimizer Adafactor";
    check_more(&format!("{adafactor} --lr 1 --relative_step"), &["given with `--relative_step`"]);
    check_more(&format!("{adafactor} --lr 1 --warmup_init"), &["which needs `--relative_step`"]);
    check_more(adafactor, &["`--lr` is missing"]);
    check_more(
        "--lr 1 --valid_data_path valid",
        &["there are data for validations, and no interval", "--valid_interval"],
    );
}

#[test]
fn values_that_no_run_has_are_refused() {
    check_more("--lr 1 --batch_size 0", &["`--batch_size` is 0, expected at least 1"]);
    check_more("--lr 1 --optimize_mode least", &["`--optimize_mode` is `least`, expected min or"]);
    check_more("--lr 1 --model_cls my:T5", &["`--model_cls` is `my:T5`", "Python, which is never"]);
    check_more("--lr 1 --optimizer LBFGS", &["`LBFGS`, which Gimlet does not have, expected"]);
}

#[test]
fn a_level_or_a_scale_without_a_meaning_is_refused() {
    let apex = "--lr 1 --fp16 --apex_opt_lvl";
    check_more(&format!("{apex} O3"), &["`--apex_opt_lvl` is O3", "expected O0, O1 or O2"]);
    check_more(&format!("{apex} O9"), &["`--apex_opt_lvl` is `O9`, expected O0, O1 or O2"]);
    check_more(&format!("{apex} O1 --min_loss_scale 0"), &["`--min_loss_scale` is 0.0"]);
    let scales = "--min_loss_scale 8 --max_loss_scale 4";
    check_more(&format!("{apex} O2 {scales}"), &["is 8.0 and `--max_loss_scale` 4.0, expected"]);
}

#[test]
fn a_checkpoint_that_is_missing_is_named() {
    let reset = "--lr 1 --reset_lr --init_checkpoint none.pth";
    check_more(reset, &["`--init_checkpoint` cannot be read", "none.pth"]);
}

#[test]
fn files_that_do_not_fit_are_named() {
    let strange = RIGHT.replace("nano.json", "strange.json") + " --lr 1";
    check(
        &strange,
        &[
            "CHECKOUT/strange.json: `d_modle` is not a key of t5-experiments' T5",
            "did you mean `d_model`?",
            "CHECKOUT/strange.json: `d_ff` is 0, expected a whole number of at least 1",
        ],
    );
    check(
        &(RIGHT.replace("nano.json", "none.json") + " --lr 1"),
        &["`--model_cfg` cannot be read"],
    );
    let hub = RIGHT.replace("--model_cfg nano.json", "--lr 1");
    check(&hub, &["`--base_model` is `CHECKOUT/t5-base`", "--model_cfg=models_configs"]);
    let empty = RIGHT.replace("train", "vocabs") + " --lr 1";
    check(&empty, &["`--data_path` is `CHECKOUT/vocabs`, expected a folder with files `*.jsonl`"]);
    check_more(
        "--lr 1 --task span_corupt --dry_run",
        &["span_corupt", "span_corruption", "--task"],
    );
}
