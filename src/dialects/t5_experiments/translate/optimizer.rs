//! Optimizer, clipping and learning rate. Source: t5-experiments `lm_experiments_tools/utils.py`, `get_optimizer`.

use gimlet_gin::{ValueKind, repr_str};

use super::Statements;

/// The optimizers that are translated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Optimizer {
    /// The one of torch.
    AdamW,
    /// The optimizer of t5-experiments, which is that of transformers.
    Adafactor,
}

/// The optimizers by their names in `--optimizer`.
pub const OPTIMIZERS: [(&str, Optimizer); 5] = [
    ("AdamW", Optimizer::AdamW),
    ("torch.optim:AdamW", Optimizer::AdamW),
    ("Adafactor", Optimizer::Adafactor),
    ("lm_experiments_tools.optimizers:Adafactor", Optimizer::Adafactor),
    ("transformers.optimization:Adafactor", Optimizer::Adafactor),
];

/// Other optimizers that the program finds by their names.
pub const OTHERS: [&str; 12] = [
    "Adam",
    "SGD",
    "RMSprop",
    "Adagrad",
    "RAdam",
    "NAdam",
    "Adadelta",
    "Adamax",
    "ASGD",
    "LBFGS",
    "Rprop",
    "SparseAdam",
];

const CLIPPED: &str = "gimlet.optimizers.Clipped";
const SCHEDULE: &str = "gimlet.schedules.get_scheduler";

/// Returns the optimizer of a name.
pub fn named(name: &str) -> Option<Optimizer> {
    OPTIMIZERS.iter().find(|(known, _)| *known == name).map(|(_, optimizer)| *optimizer)
}

/// Translates the flags of the optimizer.
pub fn translate(out: &mut Statements<'_>) {
    let name = out.arguments.text("optimizer").unwrap_or_default();
    let decay = out.arguments.gin("weight_decay");
    let class = match named(&name).expect("`check` refuses other optimizers") {
        Optimizer::AdamW => {
            out.bind("optimizer", "optax.adamw.learning_rate", "'trainer'");
            out.bind("weight_decay", "optax.adamw.weight_decay", decay);
            "@optax.adamw()"
        }
        Optimizer::Adafactor => {
            let key =
                |parameter: &str| format!("gimlet.optimizers.TransformersAdafactor.{parameter}");
            let rate = if out.arguments.is("relative_step") { "None" } else { "'trainer'" };
            out.bind("optimizer", &key("lr"), rate);
            out.bind("weight_decay", &key("weight_decay"), decay);
            for flag in ["scale_parameter", "relative_step", "warmup_init"] {
                let value = out.arguments.gin(flag);
                out.bind(flag, &key(flag), value);
            }
            "@gimlet.optimizers.TransformersAdafactor()"
        }
    };
    clipped(out, class);
    learning_rate(out);
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
fn learning_rate(out: &mut Statements<'_>) {
    let rate = out.arguments.number("lr").unwrap_or_default();
    out.bind("lr", &format!("{SCHEDULE}.lr"), ValueKind::Float(rate));
    let Some(name) = out.arguments.text("lr_scheduler") else { return };
    out.bind("lr_scheduler", &format!("{SCHEDULE}.name"), repr_str(&name));
    let total = out.arguments.int("num_training_steps").unwrap_or_else(|| out.count("iters"));
    let warmup = out.arguments.int("num_warmup_steps").unwrap_or_default();
    for (flag, steps) in [("num_warmup_steps", warmup), ("num_training_steps", total)] {
        out.bind(flag, &format!("{SCHEDULE}.{flag}"), steps);
    }
}
