//! Learning rates. A constant and T5's inverse square root are T5X's own schedule; the others have
//! counterparts of the same name in `gimlet.schedules`.

use super::statements::{Statements, text};
use crate::mesh_tf::read::Meaning;
use crate::mesh_tf::spec::{Run, Schedule};
use crate::mesh_tf::values::{Factor, LearningRate};

/// T5X's schedule.
const SCHEDULER: &str = "t5x.utils.create_learning_rate_scheduler";

/// Adafactor's own factor where steps are not relative to a parameter's scale.
const ABSOLUTE: f64 = 0.05;

/// Translates the learning rate of a run with so many steps.
pub fn translate(meaning: &Meaning, total_steps: u64, out: &mut Statements<'_>) {
    let mut writer = Writer { total_steps, scopes: 0, lines: Vec::new() };
    match &meaning.run.learning_rate_schedule {
        LearningRate::Adafactors => {
            let relative = meaning.run.optimizer.as_ref().is_none_or(|optimizer| {
                let crate::mesh_tf::spec::Optimizer::Adafactor(adafactor) = &optimizer.0;
                adafactor.multiply_by_parameter_scale
            });
            let scale = if relative { 1.0 } else { ABSOLUTE };
            let rsqrt = writer.call("truncated_rsqrt", &[("warmup_steps", text(&10_000_u64))]);
            let reference = writer.product(vec![text(&scale), rsqrt], -1);
            writer.lines.push(("t5x.trainer.Trainer.learning_rate_fn".to_string(), reference));
        }
        LearningRate::Product(factors) => match t5xs(factors) {
            Some(parameters) => writer.lines.extend(
                parameters.into_iter().map(|(name, value)| (format!("{SCHEDULER}.{name}"), value)),
            ),
            None => {
                let factors = factors.iter().map(|factor| writer.factor(factor)).collect();
                let reference = writer.product(factors, 0);
                writer.lines.push(("t5x.trainer.Trainer.learning_rate_fn".to_string(), reference));
            }
        },
    }
    for (key, value) in writer.lines {
        out.write::<Run>(&key, &value, ("", "learning_rate_schedule"));
    }
}

/// Returns the parameters of T5X's schedule for the two learning rates of nearly all runs.
fn t5xs(factors: &[Factor]) -> Option<Vec<(&'static str, String)>> {
    let constant = |rate: f64| {
        vec![("factors", "'constant'".to_string()), ("base_learning_rate", text(&rate))]
    };
    match factors {
        [Factor::Number(rate)] => Some(constant(*rate)),
        [Factor::Function(function)] => match &function.0 {
            Schedule::ConstantLearningRate(schedule) => Some(constant(schedule.learning_rate)),
            Schedule::Constant(schedule) => Some(constant(schedule.value)),
            Schedule::Noam(noam) if noam.linear_decay_fraction == 0.0 => Some(vec![
                ("factors", "'constant * rsqrt_decay'".to_string()),
                ("base_learning_rate", text(&noam.multiplier)),
                ("warmup_steps", text(&noam.warmup_steps)),
                ("step_offset", text(&noam.offset)),
            ]),
            _ => None,
        },
        _ => None,
    }
}

/// Writes schedules, each in a scope of its own.
struct Writer {
    total_steps: u64,
    scopes: usize,
    lines: Vec<(String, String)>,
}

impl Writer {
    /// Binds the parameters of a schedule. Returns the reference to it.
    fn call(&mut self, name: &str, parameters: &[(&str, String)]) -> String {
        self.scopes += 1;
        let key = format!("learning_rate_{}/gimlet.schedules.{name}", self.scopes);
        let line =
            |(parameter, value): &(&str, String)| (format!("{key}.{parameter}"), value.clone());
        self.lines.extend(parameters.iter().map(line));
        format!("@{key}()")
    }

    fn product(&mut self, factors: Vec<String>, offset: i64) -> String {
        let factors = format!("[{}]", factors.join(", "));
        self.call(
            "product",
            &[
                ("factors", factors),
                ("offset", text(&offset)),
                ("total_steps", text(&self.total_steps.clone())),
            ],
        )
    }

    fn factor(&mut self, factor: &Factor) -> String {
        match factor {
            Factor::Number(number) => text(number),
            Factor::Function(function) => self.function(&function.0),
        }
    }

    fn function(&mut self, schedule: &Schedule) -> String {
        match schedule {
            Schedule::ConstantLearningRate(schedule) => text(&schedule.learning_rate),
            Schedule::Constant(schedule) => text(&schedule.value),
            Schedule::Noam(schedule) => self.call(
                "noam",
                &[
                    ("warmup_steps", text(&schedule.warmup_steps)),
                    ("linear_decay_fraction", text(&schedule.linear_decay_fraction)),
                    ("multiplier", text(&schedule.multiplier)),
                    ("offset", text(&schedule.offset)),
                ],
            ),
            Schedule::TruncatedRsqrt(schedule) => {
                self.call("truncated_rsqrt", &[("warmup_steps", text(&schedule.warmup_steps))])
            }
            Schedule::LinearDecay(schedule) => self
                .call("linear_decay", &[("steps_or_fraction", text(&schedule.steps_or_fraction))]),
            Schedule::LinearWarmup(schedule) => self
                .call("linear_warmup", &[("steps_or_fraction", text(&schedule.steps_or_fraction))]),
            Schedule::LinearDecayLearningRate(schedule) => self.call(
                "linear_decay_learning_rate",
                &[("initial_lr", text(&schedule.initial_lr)), ("offset", text(&schedule.offset))],
            ),
            Schedule::SlantedTriangular(schedule) => self.call(
                "slanted_triangular",
                &[
                    ("cut_fraction", text(&schedule.cut_fraction)),
                    ("ratio", text(&schedule.ratio)),
                    ("max_learning_rate", text(&schedule.max_learning_rate)),
                    ("start_step", text(&schedule.start_step)),
                ],
            ),
            Schedule::Product(schedule) => self.nested(&schedule.factors, schedule.offset),
            Schedule::OptimizeProduct(schedule) => self.nested(&schedule.factors, schedule.offset),
        }
    }

    fn nested(&mut self, factors: &[Factor], offset: i64) -> String {
        let factors = factors.iter().map(|factor| self.factor(factor)).collect();
        self.product(factors, offset)
    }
}
