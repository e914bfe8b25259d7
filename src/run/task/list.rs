//! `gimlet task list`: lists tasks and mixtures with their places.

use anyhow::anyhow;
use clap::Args;

use crate::data::{TaskOrMixture, TaskProvider, mixture_rates};
use crate::run::declarations::Declared;
use crate::run::failure::Failure;
use crate::run::output::{Color, ColorChoice, Paint, write};
use crate::run::tasks::GinTasks;

use super::args::TaskFileArgs;

/// Flags of `gimlet task list`.
#[derive(Args, Debug)]
pub struct ListArgs {
    /// Regular expression found in the names to print; all by default.
    #[arg(value_name = "PATTERN")]
    pattern: Option<String>,
    #[command(flatten)]
    files: TaskFileArgs,
    /// When to print in colour.
    #[arg(long, value_enum, default_value_t)]
    color: ColorChoice,
}

/// Prints a line for each task and mixture, and the shares of a mixture's tasks below it.
pub(super) fn run(args: &ListArgs, color: bool) -> Result<(), Failure> {
    let tasks = args.files.load(color)?;
    let paint = Paint::new(args.color);
    let pattern = fancy_regex::Regex::new(args.pattern.as_deref().unwrap_or(""))
        .map_err(|error| Failure::usage(anyhow!("PATTERN: {error}")))?;
    let declared = tasks.declared();
    let mut found: Vec<&Declared> = Vec::new();
    for one in &declared {
        if pattern.is_match(&one.name).map_err(Failure::usage)? {
            found.push(one);
        }
    }
    if found.is_empty() {
        let text = args.pattern.as_deref().unwrap_or_default();
        let count = declared.len();
        return Err(Failure::usage(anyhow!(
            "no task's or mixture's name contains `{text}`, of {count} declared; give their files \
             with --gin_file or --module_import"
        )));
    }
    let width = found.iter().map(|one| one.name.len()).max().unwrap_or(0);
    for one in found {
        write(&line(one, width, &tasks, paint))?;
    }
    Ok(())
}

fn line(one: &Declared, width: usize, tasks: &GinTasks, paint: Paint) -> String {
    let (kind, detail) = match tasks.get(&one.name) {
        Ok(TaskOrMixture::Task(task)) => {
            let features: Vec<&str> = task.output_features.keys().map(String::as_str).collect();
            ("task", features.join(", "))
        }
        Ok(TaskOrMixture::Mixture(_)) => ("mixture", shares(&one.name, tasks)),
        Err(_) => (one.kind(), "cannot be used: see `gimlet task check`".to_string()),
    };
    let name = paint.text(Color::Bold, &format!("{:width$}", one.name));
    let place = paint.text(Color::Dim, &one.place);
    format!("{kind:<8} {name}  {place}  {detail}\n")
}

/// Formats how often each task of a mixture is drawn: `a 75%, b 25%`.
fn shares(name: &str, tasks: &GinTasks) -> String {
    match mixture_rates(name, tasks) {
        Ok(rates) => {
            let total: f64 = rates.iter().map(|(_, rate)| rate).sum();
            let share = |(task, rate): &(String, f64)| format!("{task} {}%", percent(rate / total));
            rates.iter().map(share).collect::<Vec<_>>().join(", ")
        }
        Err(error) => error.to_string().lines().next().unwrap_or_default().to_string(),
    }
}

/// Formats three significant digits: 75, 2.5, 0.0123.
fn percent(share: f64) -> String {
    let percent = share * 100.0;
    let digits = 2 - percent.abs().log10().floor().clamp(-6.0, 2.0) as i32;
    let text = format!("{percent:.0$}", digits.max(0) as usize);
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_string(),
        false => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_have_three_digits_that_count() {
        let found = [0.75, 0.025, 0.000123, 1.0, 1.0 / 3.0].map(percent);
        assert_eq!(found, ["75", "2.5", "0.0123", "100", "33.3"]);
    }
}
