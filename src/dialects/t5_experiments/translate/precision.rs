//! The format of activations, and the scale of the loss that float16 needs: `--fp16` with apex's levels, and the precision of
//! Accelerate's launcher. Source: t5-experiments `lm_experiments_tools/trainer.py`.

use gimlet_gin::{ValueKind, did_you_mean};

use super::encoder::{EncoderFamily, encoder};
use super::statements::Statements;
use crate::t5_experiments::arguments::Arguments;

const SCALER: &str = "gimlet.LossScaler";

/// The first scale of torch and of apex, whose limits may exclude it.
const INITIAL: f64 = 65536.0;

/// The levels of apex. With O1 and O2 parameters and optimizer are float32, and products and activations float16, as
/// without apex.
const LEVELS: [&str; 4] = ["O0", "O1", "O2", "O3"];

/// The values of Accelerate's `--mixed_precision`.
const PRECISIONS: [&str; 3] = ["no", "fp16", "bf16"];

/// Returns the flag that asks for another format than float32, and the format.
fn format(arguments: &Arguments) -> Option<(&'static str, &'static str)> {
    let is_wide = arguments.text("apex_opt_lvl").is_some_and(|level| level == LEVELS[0]);
    if arguments.is("fp16") && !is_wide {
        return Some(("fp16", "'float16'"));
    }
    match arguments.text("mixed_precision")?.as_str() {
        "fp16" => Some(("mixed_precision", "'float16'")),
        "bf16" => Some(("mixed_precision", "'bfloat16'")),
        _ => None,
    }
}

/// Translates the format.
pub(super) fn translate(out: &mut Statements<'_>) {
    let arguments = out.arguments;
    let Some((flag, format)) = format(arguments) else { return };
    let is_bert = arguments.is_bert() || encoder(arguments) == Some(EncoderFamily::Bert);
    let network = if is_bert { "bert.BertConfig" } else { "t5x.examples.t5.network.T5Config" };
    out.bind(flag, &format!("{network}.dtype"), format);
    if format != "'float16'" || arguments.is("validate_only") {
        return;
    }
    out.bind(flag, "t5x.trainer.Trainer.loss_scaler", format!("@{SCALER}()"));
    let [least, most] = limits(arguments);
    for (flag, parameter, limit) in
        [("min_loss_scale", "minimum", least), ("max_loss_scale", "maximum", most)]
    {
        if let Some(limit) = limit {
            out.bind(flag, &format!("{SCALER}.{parameter}"), ValueKind::Float(limit));
        }
    }
    let initial = INITIAL.max(least.unwrap_or(INITIAL)).min(most.unwrap_or(f64::INFINITY));
    if initial != INITIAL {
        out.bind(flag, &format!("{SCALER}.initial"), ValueKind::Float(initial));
    }
}

/// Returns the least and the greatest scale, if they are given; only apex has such limits.
fn limits(arguments: &Arguments) -> [Option<f64>; 2] {
    let is_apex = arguments.text("apex_opt_lvl").is_some();
    ["min_loss_scale", "max_loss_scale"].map(|flag| arguments.number(flag).filter(|_| is_apex))
}

/// Finds the mistakes.
pub(super) fn check(arguments: &Arguments, refuse: &mut impl FnMut(String, &str)) {
    let precision = arguments.text("mixed_precision").unwrap_or_default();
    if arguments.has("mixed_precision") && !PRECISIONS.contains(&&precision[..]) {
        let message = format!("`--mixed_precision` is `{precision}`, expected no, fp16 or bf16");
        refuse(message, "");
    }
    if !arguments.is("fp16") {
        return;
    }
    match arguments.text("apex_opt_lvl") {
        Some(level) if level == LEVELS[3] => refuse(
            "`--apex_opt_lvl` is O3, which keeps parameters and optimizer in float16, where small updates are lost: expected O0, \
             O1 or O2"
                .to_string(),
            "O2 is as fast on a GPU",
        ),
        Some(level) if !LEVELS.contains(&&level[..]) => {
            let message = format!("`--apex_opt_lvl` is `{level}`, expected O0, O1 or O2");
            refuse(message, &did_you_mean(&level, LEVELS));
        }
        _ => {}
    }
    let [least, most] = limits(arguments);
    let (low, high) = (least.unwrap_or(1.0), most.unwrap_or(f64::INFINITY));
    if low <= 0.0 || low > high {
        refuse(
            format!(
                "`--min_loss_scale` is {low:?} and `--max_loss_scale` {high:?}, expected a number above 0 and one that is not less"
            ),
            "",
        );
    }
}
