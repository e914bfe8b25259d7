//! Pretraining of BERT: its data and model as statements after `gin/gimlet/t5_experiments/bert.gin`. Source: t5-experiments
//! `run_bert_pretraining.py`.

use super::statements::Statements;
use gimlet_gin::repr_str;

use crate::Statement;
use crate::t5_experiments::arguments::Arguments;

/// The file that comes before the statements, and the one that follows it in the form for Accelerate.
const FILE: &str = "gimlet/t5_experiments/bert.gin";
const ACCELERATE: &str = "gimlet/t5_experiments/bert_accelerate.gin";

/// The file for `--validate_only`.
const VALIDATE: &str = "gimlet/t5_experiments/bert_validate.gin";

const DATASET: &str = "megatron.BertDataset";

/// The classes of `--model_cls`, of which the first one reads keys that transformers' ignores.
pub(super) const CLASSES: [&str; 2] =
    ["modeling_bert:BertForPreTraining", "transformers:BertForPreTraining"];

/// The facts of a pretraining of BERT that its flags do not say.
#[derive(Clone, Debug)]
pub struct Pretraining {
    /// The statements of the network of `--model_cfg`, each with its key as the place.
    pub network: Vec<Statement>,
    /// Keys of that file without effect.
    pub without_effect: Vec<String>,
    /// The list of pieces of `--tokenizer`.
    pub pieces: String,
    /// Whether that tokenizer folds case.
    pub lower_case: bool,
}

/// Translates the flags of model and data, and returns the files that come first.
pub(super) fn translate(out: &mut Statements<'_>, facts: &Pretraining) -> Vec<String> {
    let arguments = out.arguments;
    let path = |flag: &str| arguments.path(flag).map(|path| repr_str(&path));
    let splits = [("train", "data_path"), ("validation", "valid_data_path")];
    let splits = splits
        .into_iter()
        .filter_map(|(split, flag)| path(flag).map(|prefix| format!("'{split}': {prefix}")));
    let splits = splits.collect::<Vec<_>>().join(", ");
    let has_order = arguments.int("use_nsp") != Some(0);
    let python = |value: bool| if value { "True" } else { "False" };
    let number = |flag: &str| arguments.gin(flag);
    match arguments.path("init_checkpoint").filter(|_| arguments.is("validate_only")) {
        Some(checkpoint) => out.evaluation("init_checkpoint", &checkpoint),
        None => {
            zero(out);
            out.bind("model_path", "MODEL_DIR", path("model_path").unwrap_or_default());
            out.bind("seed", "RANDOM_SEED", number("seed"));
        }
    }
    let rows = [
        ("data_path", "PREFIXES".to_string(), format!("{{{splits}}}")),
        ("tokenizer", "PIECES".to_string(), repr_str(&facts.pieces)),
        ("tokenizer", "LOWER_CASE".to_string(), python(facts.lower_case).to_string()),
        ("seed", format!("{DATASET}.seed"), number("seed")),
        ("data_name", format!("{DATASET}.name"), number("data_name")),
        ("data_n_epochs", format!("{DATASET}.n_epochs"), number("data_n_epochs")),
        ("data_n_samples", format!("{DATASET}.n_samples"), number("data_n_samples")),
        ("mlm_prob", format!("{DATASET}.mlm_prob"), number("mlm_prob")),
        ("short_seq_prob", format!("{DATASET}.short_seq_prob"), number("short_seq_prob")),
        ("use_nsp", format!("{DATASET}.use_nsp"), python(has_order).to_string()),
    ];
    for (flag, key, value) in rows {
        out.bind(flag, &key, value);
    }
    if !has_order {
        out.bind("use_nsp", "MODEL", "@bert.BertForMaskedLM()");
    }
    out.list.extend(facts.network.iter().cloned());
    files(arguments).iter().map(|file| file.to_string()).collect()
}

/// Translates the stage of DeepSpeed's ZeRO. Gradients are divided where parameters are, and not by the second stage.
fn zero(out: &mut Statements<'_>) {
    let (key, value) = match out.arguments.int("zero_stage") {
        Some(1 | 2) => ("PjitPartitioner.spread_optimizer_state", "True"),
        Some(3) => ("standard_logical_axis_rules.parameter_partitioning_dims", "2"),
        _ => return,
    };
    out.bind("zero_stage", &format!("t5x.partitioning.{key}"), value);
}

/// Returns the files that come first.
fn files(arguments: &Arguments) -> &'static [&'static str] {
    match arguments.is("validate_only") {
        true => &[VALIDATE],
        false if validates_at_end(arguments) => &[FILE, ACCELERATE],
        false => &[FILE],
    }
}

/// Whether the training ends with a validation.
pub(super) fn validates_at_end(arguments: &Arguments) -> bool {
    arguments.is_for_accelerate() && arguments.has_valid_data()
}

/// Translates the length of rows.
pub(super) fn lengths(out: &mut Statements<'_>) {
    let length = out.count("input_seq_len");
    let features = ["input_tokens", "token_types", "target_tokens", "loss_weights"];
    let mut lengths: Vec<String> =
        features.iter().map(|feature| format!("'encoder_{feature}': {length}")).collect();
    if out.arguments.int("use_nsp") != Some(0) {
        lengths.push("'next_sentence_label': 1".to_string());
    }
    let lengths = format!("{{{}}}", lengths.join(", "));
    out.bind("input_seq_len", "TASK_FEATURE_LENGTHS", lengths);
    out.bind("input_seq_len", &format!("{DATASET}.input_seq_len"), length);
}

/// Checks the flags that only this program has.
pub(super) fn check(arguments: &Arguments, refuse: &mut impl FnMut(String, &str)) {
    let class = arguments.text("model_cls").unwrap_or_default();
    if !CLASSES.contains(&&class[..]) {
        let expected = CLASSES.map(|name| format!("`{name}`")).join(" or ");
        refuse(
            format!("`--model_cls` is `{class}`, expected {expected}"),
            "other classes are Python, which is never run",
        );
    }
    for (flag, what) in [
        ("model_cfg", "a file as models_configs/bert_configs/bert_base_uncased.json"),
        ("tokenizer", "a folder with a vocab.txt"),
    ] {
        if arguments.text(flag).is_none() {
            refuse(format!("`--{flag}` is missing, expected {what}"), "");
        }
    }
    for (flag, what) in [
        ("init_checkpoint", "the checkpoint to validate"),
        ("valid_data_path", "the path of .bin and .idx files without these endings"),
    ] {
        if arguments.is("validate_only") && arguments.text(flag).is_none() {
            let message = format!("`--{flag}` is missing, expected with `--validate_only` {what}");
            refuse(message, "");
        }
    }
    if let Some(found) = arguments.int("zero_stage").filter(|found| !(0..=3).contains(found)) {
        refuse(format!("`--zero_stage` is {found}, expected 0, 1, 2 or 3"), "");
    }
    let passes = ["data_n_epochs", "data_n_samples"].map(|flag| arguments.int(flag));
    if passes == [None, None] {
        let message = "`--data_n_epochs` and `--data_n_samples` are missing, expected one of them";
        refuse(message.to_string(), "");
    }
    for (flag, found) in ["data_n_epochs", "data_n_samples"].into_iter().zip(passes) {
        if let Some(found) = found.filter(|found| *found < 1) {
            refuse(format!("`--{flag}` is {found}, expected at least 1"), "");
        }
    }
    if let Some(found) = arguments.int("use_nsp").filter(|found| ![0, 1].contains(found)) {
        refuse(format!("`--use_nsp` is {found}, expected 0 or 1"), "");
    }
}

/// Mentions keys that the class of `--model_cls` does not read.
pub(super) fn ignored(facts: &Pretraining) -> Option<String> {
    let keys: Vec<String> = facts.without_effect.iter().map(|key| format!("`{key}`")).collect();
    let verb = if keys.len() == 1 { "has" } else { "have" };
    (!keys.is_empty()).then(|| format!("--model_cfg: {} {verb} no effect", keys.join(", ")))
}
