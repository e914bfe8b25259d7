//! Mistakes that the flags show by themselves, those among them with which the program itself ends.

use gimlet_gin::{Diagnostic, did_you_mean};

use super::optimizer::{ADAFACTOR, OF_TORCH, OTHERS, Optimizer, named};
use super::{bert, check_tuning, precision};
use crate::t5_experiments::arguments::Arguments;
use crate::t5_experiments::model_config::CLASSES;

/// The schedules of transformers. Source: transformers `optimization.py`, `get_scheduler`.
const SCHEDULES: [&str; 6] =
    ["linear", "cosine", "cosine_with_restarts", "polynomial", "constant", "constant_with_warmup"];

/// Numbers that have a least value.
const LEAST: [(&str, i128); 10] = [
    ("batch_size", 1),
    ("gradient_accumulation_steps", 1),
    ("input_seq_len", 1),
    ("target_seq_len", 1),
    ("valid_interval", 1),
    ("iters", 0),
    ("log_interval", 0),
    ("save_interval", 0),
    ("num_warmup_steps", 0),
    ("show_valid_examples", 0),
];

/// Finds the mistakes.
pub fn check(arguments: &Arguments) -> Vec<Diagnostic> {
    let mut list = Vec::new();
    let mut refuse = |message: String, help: &str| {
        let mistake = Diagnostic::nowhere(message);
        list.push(if help.is_empty() { mistake } else { mistake.help(help) });
    };
    let data = match (arguments.is_tuning(), arguments.is_bert()) {
        (true, _) => "a file of JSON lines",
        (false, true) => "the path of .bin and .idx files without these endings",
        (false, false) => "a folder of files `*.jsonl`",
    };
    for (flag, what) in [("model_path", "the folder of checkpoints and logs"), ("data_path", data)]
    {
        if arguments.has(flag) && arguments.text(flag).is_none() {
            refuse(format!("`--{flag}` is missing, expected {what}"), "");
        }
    }
    for (flag, least) in LEAST {
        if let Some(found) = arguments.int(flag).filter(|found| *found < least) {
            refuse(format!("`--{flag}` is {found}, expected at least {least}"), "");
        }
    }
    if arguments.is_tuning() {
        check_tuning::check(arguments, &mut refuse);
    }
    if arguments.is_bert() {
        bert::check(arguments, &mut refuse);
    } else if arguments.text("model_type").is_none_or(|model_type| model_type == "encoder-decoder")
    {
        model_class(arguments, &mut refuse);
    }
    precision::check(arguments, &mut refuse);
    if !arguments.is("validate_only") {
        training(arguments, &mut refuse);
    }
    list
}

/// Checks the flags that only a training reads.
fn training(arguments: &Arguments, refuse: &mut impl FnMut(String, &str)) {
    named_values(arguments, refuse);
    learning_rate(arguments, refuse);
    if ["clip_grad_norm", "clip_grad_value"].iter().all(|flag| arguments.number(flag).is_some()) {
        let message =
            "`--clip_grad_norm` and `--clip_grad_value` are both given, expected one of them";
        refuse(message.to_string(), "");
    }
    if arguments.has_valid_data() && arguments.valid_interval().is_none() {
        let message = "there are data for validations, and no interval";
        refuse(message.to_string(), "give --valid_interval, or --log_interval for both");
    }
    if arguments.is("use_lr_drop") {
        if arguments.text("lr_scheduler").is_some() {
            let message =
                "`--use_lr_drop` and `--lr_scheduler` are both given, expected one of them";
            refuse(message.to_string(), "");
        }
        if !arguments.has_valid_data() {
            let message = "`--use_lr_drop` needs validations, and `--valid_data_path` is missing";
            refuse(message.to_string(), "");
        }
    }
}

/// Checks the class of the model.
fn model_class(arguments: &Arguments, refuse: &mut impl FnMut(String, &str)) {
    let class = arguments.text("model_cls").unwrap_or_default();
    let classes = CLASSES.map(|(name, _)| name);
    if !classes.contains(&&class[..]) {
        let expected = classes.map(|name| format!("`{name}`")).join(" or ");
        refuse(
            format!("`--model_cls` is `{class}`, expected {expected}"),
            "other classes are Python, which is never run",
        );
    }
}

/// Checks flags that name a choice.
fn named_values(arguments: &Arguments, refuse: &mut impl FnMut(String, &str)) {
    let text = |flag: &str| arguments.text(flag).unwrap_or_default();
    let optimizer = text("optimizer");
    if named(&optimizer).is_none() {
        let class = optimizer.strip_prefix("torch.optim:").unwrap_or(&optimizer);
        let found = match OTHERS.contains(&class) {
            true => "which Gimlet does not have, ",
            false => "",
        };
        let expected = OF_TORCH.join(", ");
        let message = format!(
            "`--optimizer` is `{optimizer}`, {found}expected Adafactor, or of torch {expected}"
        );
        refuse(message, &did_you_mean(&optimizer, OF_TORCH.into_iter().chain(ADAFACTOR)));
    }
    let mode = text("optimize_mode");
    if !["min", "max"].contains(&&mode[..]) {
        refuse(format!("`--optimize_mode` is `{mode}`, expected min or max"), "");
    }
}

/// Checks the learning rate against its optimizer and schedule.
fn learning_rate(arguments: &Arguments, refuse: &mut impl FnMut(String, &str)) {
    let has_rate = arguments.number("lr").is_some();
    let [relative, warmup] = ["relative_step", "warmup_init"].map(|flag| arguments.adafactor(flag));
    let optimizer = arguments.text("optimizer").and_then(|name| named(&name));
    match (optimizer, has_rate) {
        (Some(Optimizer::Adafactor), true) if relative && !arguments.has("relative_step") => {
            refuse(
                "`--lr` is given with Adafactor, whose steps are relative in this program"
                    .to_string(),
                "omit --lr, or use AdamW",
            )
        }
        (Some(Optimizer::Adafactor), true) if relative => {
            refuse("`--lr` is given with `--relative_step`, expected one of them".to_string(), "");
        }
        (Some(Optimizer::Adafactor), false) if relative => {}
        (_, false) => refuse("`--lr` is missing, expected a number".to_string(), "give --lr=5e-05"),
        _ => {}
    }
    if optimizer == Some(Optimizer::Adafactor) && warmup && !relative {
        let message = "`--warmup_init` is given, which needs `--relative_step`";
        refuse(message.to_string(), "");
    }
    let Some(name) = arguments.text("lr_scheduler") else { return };
    if !SCHEDULES.contains(&&name[..]) {
        let message =
            format!("`--lr_scheduler` is `{name}`, expected one of {}", SCHEDULES.join(", "));
        refuse(message, &did_you_mean(&name, SCHEDULES));
    }
    if relative && !has_rate {
        let message = "`--lr_scheduler` is given without `--lr`, expected both";
        refuse(message.to_string(), "");
    }
    if name != "constant" && arguments.int("num_warmup_steps").is_none() {
        let message = format!("`--lr_scheduler {name}` needs `--num_warmup_steps`");
        refuse(message, "0 is no warm-up");
    }
}
