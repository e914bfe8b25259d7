//! The page: one HTML file with its styles, its program and its data, which loads nothing.

use std::time::{SystemTime, UNIX_EPOCH};

use chrono::DateTime;
use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Serde, Value as Html};
use minijinja::{Environment, context};
use serde::Serialize;
use serde_json::json;

use crate::gin::{Difference, differences};
use crate::run::checkpoint::{condition, size};
use crate::session::start_record::StartRecord;

use super::charts::{Chart, Charts};
use super::configuration::Binding;
use super::model_dir::RunData;
use super::number::{NOTHING, number};
use super::predictions::cut;
use super::summary::{Row, Table, Value, Wanted};

/// The name of the template; its ending makes minijinja escape what is inserted.
const TEMPLATE: &str = "page.html";

/// The number of tasks whose predictions are shown, and of the characters of all predictions together.
const MOST_TASKS: usize = 40;
const MOST_PREDICTED: usize = 1 << 20;

/// The number of bindings, differences and checkpoints that a page lists of each run.
const MOST_ROWS: usize = 1000;

/// Renders the page of the runs; with seconds, it reads its own file again so often.
pub fn page(runs: &[RunData], title: Option<&str>, reload_secs: Option<u64>) -> String {
    let charts = Charts::of(runs);
    let labels = labels(runs);
    let mut environment = Environment::new();
    environment.set_syntax(
        SyntaxConfig::builder()
            .trim_blocks(true)
            .lstrip_blocks(true)
            .build()
            .expect("it is Jinja's"),
    );
    environment.add_template(TEMPLATE, include_str!("page.html")).expect("the template is correct");
    let template = environment.get_template(TEMPLATE).expect("it was added");
    let mut notices: Vec<String> = runs.iter().flat_map(|run| run.skipped.clone()).collect();
    if charts.num_left_out > 0 {
        notices.push(format!(
            "{} metrics are left out, to bound the size of this page",
            charts.num_left_out
        ));
    }
    let data = json!({
        "labels": labels,
        "restarts": runs.iter().map(RunData::restarts).collect::<Vec<_>>(),
        "charts": charts.all().collect::<Vec<_>>(),
        "reload_secs": reload_secs,
    });
    let rendered = template.render(context! {
        styles => Html::from_safe_string(
            [include_str!("uplot/uPlot.min.css"), include_str!("page.css")].concat(),
        ),
        program => Html::from_safe_string(
            [include_str!("uplot/uPlot.iife.min.js"), "\n", include_str!("page.js")].concat(),
        ),
        // Within a script, only `<` could end it.
        data => Html::from_safe_string(data.to_string().replace('<', "\\u003c")),
        title => title.map_or_else(|| labels.join(", "), str::to_string),
        summary => Html::from(Serde(summary(runs, &labels))),
        notices => Html::from(Serde(notices)),
        labels => Html::from(Serde(labels)),
        runs => Html::from(Serde(runs.iter().map(RunRow::of).collect::<Vec<_>>())),
        last_values => Html::from(Serde(last_values(&charts, runs.len()))),
        sections => Html::from(Serde(sections(&charts))),
        tasks => Html::from(Serde(predicted(runs))),
        differing => Html::from(Serde(differing(runs))),
    });
    rendered.expect("the template uses only what it is given")
}

/// Returns a name for each run: the last components of its path that tell it from the others.
pub fn labels(runs: &[RunData]) -> Vec<String> {
    let paths: Vec<Vec<&str>> =
        runs.iter().map(|run| run.path.as_str().rsplit('/').collect()).collect();
    let name = |path: &[&str], depth: usize| {
        let mut parts = path[..depth.min(path.len())].to_vec();
        parts.reverse();
        parts.join("/")
    };
    let label = |path: &Vec<&str>| {
        let is_unique = |depth: &usize| {
            let own = name(path, *depth);
            paths.iter().filter(|other| name(other, *depth) == own).count() == 1
        };
        let depth = (1..=path.len()).find(is_unique).unwrap_or(path.len());
        name(path, depth)
    };
    paths.iter().map(label).collect()
}

#[derive(Serialize)]
struct RunRow {
    path: String,
    num_parameters: String,
    starts: Vec<StartRow>,
    checkpoints: Vec<CheckpointRow>,
    bindings: Vec<Binding>,
}

#[derive(Serialize)]
struct StartRow {
    time: String,
    record: StartRecord,
    command: String,
}

#[derive(Serialize)]
struct CheckpointRow {
    name: String,
    size: String,
    format: &'static str,
    time: String,
    condition: String,
}

impl RunRow {
    fn of(run: &RunData) -> Self {
        let start = |record: &StartRecord| StartRow {
            time: utc(record.time),
            command: cut(&record.command.join(" "), 4000),
            record: StartRecord { bound_at: Default::default(), ..record.clone() },
        };
        let seconds = |time: SystemTime| time.duration_since(UNIX_EPOCH).ok().map(|t| t.as_secs());
        let checkpoint = |one: &crate::checkpoint::Listed| CheckpointRow {
            name: one.path.file_name().to_string(),
            size: size(one.bytes),
            format: one.format.map_or(NOTHING, crate::checkpoint::Format::name),
            time: one.modified.and_then(seconds).map_or(NOTHING.to_string(), utc),
            condition: condition(&one.condition) + if one.is_pinned { ", pinned" } else { "" },
        };
        Self {
            path: run.path.to_string(),
            num_parameters: run.num_parameters.map_or(NOTHING.to_string(), grouped),
            starts: run.starts.iter().take(MOST_ROWS).map(start).collect(),
            checkpoints: run
                .checkpoints
                .iter()
                .rev()
                .take(MOST_ROWS)
                .rev()
                .map(checkpoint)
                .collect(),
            bindings: run.configuration.bindings.iter().take(MOST_ROWS).cloned().collect(),
        }
    }
}

/// The table of several runs.
#[derive(Serialize)]
struct Summary {
    settings: Vec<String>,
    metrics: Vec<String>,
    rows: Vec<SummaryRow>,
}

#[derive(Serialize)]
struct SummaryRow {
    /// The numbers of its runs.
    runs: Vec<usize>,
    settings: Vec<String>,
    values: Vec<Option<SummaryValue>>,
}

#[derive(Serialize)]
struct SummaryValue {
    text: String,
    /// The number by which rows are sorted.
    mean: f64,
    is_best: bool,
}

fn summary(runs: &[RunData], labels: &[String]) -> Option<Summary> {
    let table = Table::of(runs, labels, &Wanted::default()).ok().filter(|_| runs.len() > 1)?;
    let value = |value: Value| SummaryValue {
        text: value.text("±"),
        mean: value.mean,
        is_best: value.is_best,
    };
    let row = |row: Row| SummaryRow {
        runs: row.runs,
        settings: row.settings.iter().map(|setting| cut(setting, 100)).collect(),
        values: row.values.into_iter().map(|it| it.map(value)).collect(),
    };
    Some(Summary {
        settings: table.settings,
        metrics: table.metrics,
        rows: table.rows.into_iter().map(row).collect(),
    })
}

#[derive(Serialize)]
struct LastValues {
    title: String,
    /// For each run, the value and its step.
    values: Vec<Option<(String, i64)>>,
}

fn last_values(charts: &Charts, num_runs: usize) -> Vec<LastValues> {
    let row = |chart: &Chart| {
        let of = |run| chart.curves.iter().find(|curve| curve.run == run)?.last;
        let shown = |run| of(run).map(|(step, value)| (number(value), step));
        LastValues { title: chart.title.clone(), values: (0..num_runs).map(shown).collect() }
    };
    charts.training.iter().chain(&charts.evaluation).map(row).collect()
}

#[derive(Serialize)]
struct Section {
    title: String,
    is_open: bool,
    /// The numbers and titles of its charts.
    charts: Vec<(usize, String)>,
}

fn sections(charts: &Charts) -> Vec<Section> {
    let first = [("Training", &charts.training), ("Evaluation", &charts.evaluation)];
    let first = first.map(|(title, charts)| (title.to_string(), charts, true));
    let more = charts.more.iter().map(|(title, charts)| (title.clone(), charts, false));
    let mut number = 0..;
    let sections = first.into_iter().chain(more).filter(|(_, charts, _)| !charts.is_empty());
    let section = |(title, charts, is_open): (String, &Vec<Chart>, bool)| {
        // The titles end first, so that no number is lost.
        let titles = charts.iter().map(|chart| chart.title.clone()).zip(number.by_ref());
        Section { title, is_open, charts: titles.map(|(title, number)| (number, title)).collect() }
    };
    sections.map(section).collect()
}

#[derive(Serialize)]
struct TaskRow {
    name: String,
    examples: Vec<ExampleRow>,
}

#[derive(Serialize)]
struct ExampleRow {
    input: String,
    target: String,
    /// The predictions of the runs at each step.
    steps: Vec<(u64, Vec<Option<Prediction>>)>,
}

/// A predicted text, and whether it is the target.
type Prediction = (String, bool);

/// Joins the predictions of all runs for the same examples.
fn predicted(runs: &[RunData]) -> Vec<TaskRow> {
    let mut names: Vec<&String> = runs.iter().flat_map(|run| run.predictions.keys()).collect();
    names.sort_unstable();
    names.dedup();
    names.truncate(MOST_TASKS);
    let most = MOST_PREDICTED / names.len().max(1);
    names.into_iter().map(|name| task_row(runs, name, most)).collect()
}

fn task_row(runs: &[RunData], name: &str, mut most: usize) -> TaskRow {
    let of_run = |run: &RunData| run.predictions.get(name).cloned().unwrap_or_default();
    let by_run: Vec<_> = runs.iter().map(of_run).collect();
    let mut examples: Vec<ExampleRow> = Vec::new();
    for example in by_run.iter().flatten() {
        let key = (&example.input, &example.target);
        if examples.iter().any(|known| (&known.input, &known.target) == key) {
            continue;
        }
        let same: Vec<_> = by_run
            .iter()
            .map(|all| all.iter().find(|other| (&other.input, &other.target) == key))
            .collect();
        let mut steps: Vec<u64> =
            same.iter().flatten().flat_map(|one| one.by_step.keys().copied()).collect();
        steps.sort_unstable();
        steps.dedup();
        let texts = |step: u64| {
            let text = |one: &Option<&super::predictions::Predicted>| {
                let prediction = one.as_ref()?.by_step.get(&step)?;
                Some((prediction.text.clone(), prediction.is_target))
            };
            (step, same.iter().map(text).collect::<Vec<_>>())
        };
        let steps: Vec<_> = steps.into_iter().map(texts).collect();
        let texts = steps.iter().flat_map(|(_, texts)| texts.iter().flatten());
        let length: usize = texts.map(|(text, _)| text.len()).sum();
        if length > most && !examples.is_empty() {
            break;
        }
        most = most.saturating_sub(length);
        let (input, target) = (example.input.clone(), example.target.clone());
        examples.push(ExampleRow { input, target, steps });
    }
    TaskRow { name: name.to_string(), examples }
}

/// Returns the paths at which the configurations differ, with the value of each run.
fn differing(runs: &[RunData]) -> Vec<(String, Vec<String>)> {
    // A run without a configuration differs in everything.
    if runs.iter().any(|run| run.configuration.values.is_empty()) {
        return Vec::new();
    }
    let trees: Vec<_> = runs.iter().map(|run| &run.configuration.values).collect();
    let row = |difference: &Difference<'_>| {
        let value = |value: &Option<&str>| cut(value.unwrap_or(NOTHING), 300);
        (difference.path.to_string(), difference.values.iter().map(value).collect())
    };
    differences(&trees).iter().take(MOST_ROWS).map(row).collect()
}

/// Formats a count with commas: `1,234,567`.
fn grouped(count: u64) -> String {
    crate::telemetry::thousands(count as f64)
}

/// Formats a time: `2026-11-24 17:01 UTC`.
fn utc(seconds: u64) -> String {
    let time = i64::try_from(seconds).ok().and_then(|seconds| DateTime::from_timestamp(seconds, 0));
    time.map_or(NOTHING.to_string(), |time| time.format("%Y-%m-%d %H:%M UTC").to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_those_of_utc() {
        assert_eq!(utc(784_111_777), "1994-11-06 08:49 UTC");
    }
}
