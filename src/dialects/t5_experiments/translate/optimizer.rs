//! Optimizer, clipping and learning rate. Source: t5-experiments `lm_experiments_tools/utils.py`, `get_optimizer`.

use gimlet_gin::{ValueKind, repr_str};

use super::Facts;
use super::statements::Statements;

/// The optimizers that are translated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Optimizer {
    /// The one of this name in torch.
    Torch(&'static str),
    /// The optimizer of t5-experiments, which is that of transformers.
    Adafactor,
}

/// The optimizers of torch that are translated, and others that the program finds there.
pub const OF_TORCH: [&str; 7] = ["AdamW", "Adam", "SGD", "RMSprop", "Adagrad", "RAdam", "NAdam"];
pub const OTHERS: [&str; 6] = ["Adadelta", "Adamax", "ASGD", "LBFGS", "Rprop", "SparseAdam"];

/// The names of Adafactor.
pub const ADAFACTOR: [&str; 3] = [
    "Adafactor",
    "lm_experiments_tools.optimizers:Adafactor",
    "transformers.optimization:Adafactor",
];

const CLIPPED: &str = "gimlet.optimizers.Clipped";
const SCHEDULE: &str = "gimlet.schedules.get_scheduler";

/// Returns the optimizer of a name in `--optimizer`.
pub fn named(name: &str) -> Option<Optimizer> {
    if ADAFACTOR.contains(&name) {
        return Some(Optimizer::Adafactor);
    }
    let class = name.strip_prefix("torch.optim:").unwrap_or(name);
    OF_TORCH.into_iter().find(|known| *known == class).map(Optimizer::Torch)
}

/// Translates the flags of the optimizer.
pub fn translate(out: &mut Statements<'_>, facts: &Facts) {
    let name = out.arguments.text("optimizer").unwrap_or_default();
    let decay = out.arguments.gin("weight_decay");
    let class = match named(&name).expect("`check` refuses other optimizers") {
        Optimizer::Torch(class) => {
            out.bind("optimizer", &format!("torch.optim.{class}.lr"), "'trainer'");
            out.bind("weight_decay", &format!("torch.optim.{class}.weight_decay"), decay);
            &format!("@torch.optim.{class}()")
        }
        Optimizer::Adafactor => {
            let key =
                |parameter: &str| format!("gimlet.optimizers.TransformersAdafactor.{parameter}");
            let rate = if out.arguments.adafactor("relative_step") { "None" } else { "'trainer'" };
            out.bind("optimizer", &key("lr"), rate);
            out.bind("weight_decay", &key("weight_decay"), decay);
            for flag in ["scale_parameter", "relative_step", "warmup_init"] {
                let value = ValueKind::Bool(out.arguments.adafactor(flag));
                out.bind(flag, &key(flag), value);
            }
            "@gimlet.optimizers.TransformersAdafactor()"
        }
    };
    clipped(out, class);
    learning_rate(out, facts);
}

/// Binds the optimizer, after a limit of gradients if there is one; 0 is none.
fn clipped(out: &mut Statements<'_>, class: &str) {
    for (flag, parameter) in [("clip_grad_norm", "norm"), ("clip_grad_value", "value")] {
        if let Some(limit) = out.arguments.number(flag).filter(|limit| *limit != 0.0) {
            out.bind(flag, &format!("{CLIPPED}.{parameter}"), ValueKind::Float(limit));
            out.bind("optimizer", &format!("{CLIPPED}.optimizer"), class);
            return out.bind(flag, "OPTIMIZER", format!("@{CLIPPED}()"));
        }
    }
    out.bind("optimizer", "OPTIMIZER", class);
}

/// Translates the learning rate, which Adafactor with relative steps does not read.
fn learning_rate(out: &mut Statements<'_>, facts: &Facts) {
    let rate = out.arguments.number("lr").unwrap_or_default();
    out.bind("lr", &format!("{SCHEDULE}.lr"), ValueKind::Float(rate));
    let Some(name) = out.arguments.text("lr_scheduler") else { return };
    out.bind("lr_scheduler", &format!("{SCHEDULE}.name"), repr_str(&name));
    let total = out.arguments.int("num_training_steps").unwrap_or_else(|| out.count("iters"));
    let warmup = out.arguments.int("num_warmup_steps").unwrap_or_default();
    for (flag, steps) in [("num_warmup_steps", warmup), ("num_training_steps", total)] {
        out.bind(flag, &format!("{SCHEDULE}.{flag}"), steps);
    }
    // Of steps and schedule one may begin anew, and the other continue.
    let begun = i128::from(facts.init_step);
    match (out.arguments.is("reset_lr"), out.arguments.is("reset_iteration")) {
        (true, false) => out.bind("reset_lr", &format!("{SCHEDULE}.offset"), begun),
        (false, true) => out.bind("reset_iteration", &format!("{SCHEDULE}.offset"), -begun),
        _ => {}
    }
}
