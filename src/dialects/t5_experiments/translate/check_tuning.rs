//! Mistakes in the flags of programs that fine-tune.

use gimlet_gin::did_you_mean;

use super::encoder::{self, CONTRACT_NLI_METRICS, encoder};
use super::tuning::{DATASETS, named};
use crate::t5_experiments::arguments::Arguments;

/// Metrics of the label of hyperpartisan news.
const HYP_METRICS: [&str; 4] = ["accuracy", "f1", "precision", "recall"];

const ROUGE_METRICS: [&str; 5] =
    ["rouge/rouge1", "rouge/rouge2", "rouge/rougeL", "rouge/rougeLsum", "rouge/geometric_mean"];

/// Finds the mistakes that pretraining cannot have.
pub(super) fn check(arguments: &Arguments, refuse: &mut impl FnMut(String, &str)) {
    let model_type = arguments.text("model_type").unwrap_or_default();
    match &model_type[..] {
        "encoder-decoder" => {}
        "encoder" => encoder::check(arguments, refuse),
        _ => {
            let message =
                format!("`--model_type` is `{model_type}`, expected encoder or encoder-decoder");
            refuse(message, "");
        }
    }
    if arguments.has("task_name") && named(arguments).is_none() {
        let names = DATASETS.map(|dataset| dataset.name);
        let (message, help) = match arguments.text("task_name") {
            None => (
                format!("`--task_name` is missing, expected one of {}", names.join(", ")),
                String::new(),
            ),
            Some(name) => (
                format!("`--task_name` is `{name}`, expected a data set of SCROLLS"),
                did_you_mean(&name, names),
            ),
        };
        refuse(message, &help);
    }
    weights(arguments, refuse);
    if !arguments.is("validate_only") && arguments.valid_interval().is_some() {
        metric(arguments, refuse);
    }
}

/// Checks the sources of the model.
fn weights(arguments: &Arguments, refuse: &mut impl FnMut(String, &str)) {
    let has = |flag: &str| arguments.text(flag).is_some();
    if has("from_pretrained") {
        return;
    }
    for (flag, expected) in [
        ("model_cfg", "the JSON file of a model"),
        ("tokenizer", "a folder with tokenizer.json, spiece.model or a BERT's vocab.txt"),
    ] {
        if !has(flag) {
            let message =
                format!("`--{flag}` is missing, expected {expected}, or `--from_pretrained`");
            refuse(message, "");
        }
    }
    if arguments.is("validate_only") && !has("init_checkpoint") {
        let message = "`--validate_only` needs weights, and there is neither `--from_pretrained` nor `--init_checkpoint`";
        refuse(message.to_string(), "");
    }
}

/// Checks the metric that validations are compared by.
fn metric(arguments: &Arguments, refuse: &mut impl FnMut(String, &str)) {
    let wanted = arguments.text("optimize_metric").unwrap_or_default();
    let known: &[&str] = match named(arguments).map(|dataset| dataset.score) {
        None => &HYP_METRICS,
        Some("rouge") => &ROUGE_METRICS,
        Some("f1") => &["f1"],
        Some(_) if encoder(arguments).is_some() => &CONTRACT_NLI_METRICS,
        Some(_) => &["exact_match"],
    };
    if wanted == "loss" {
        return;
    }
    if !known.contains(&&wanted[..]) {
        let names = known.iter().copied().chain(["loss"]);
        let message =
            format!("`--optimize_metric` is `{wanted}`, which validations do not measure");
        refuse(message, &did_you_mean(&wanted, names));
    } else if !arguments.is("use_generate_on_valid") && encoder(arguments).is_none() {
        let message = format!("`--optimize_metric` is `{wanted}`, a metric of generated texts");
        refuse(message, "add --use_generate_on_valid");
    }
}
