//! The charts of a page: each metric by step, with the curves of all runs.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::metrics::{Curves, TaskCurves};
use super::model_dir::RunData;
use super::series::Series;

/// The number of points on a page, which bounds its size.
const MOST_POINTS: usize = 120_000;

/// The number of points of a curve: more than a chart has columns of pixels.
const MOST_POINTS_OF_CURVE: usize = 1500;

/// The fewest points that show the shape of a curve. Beyond `MOST_POINTS` of such curves, metrics are left out.
const FEWEST_POINTS_OF_CURVE: usize = 30;

/// The metrics of training that come first: a title, and T5X's tags, of which the first one found is shown.
const FIRST: [(&str, &[&str]); 5] = [
    ("Loss per target token", &[LOSS, "loss"]),
    ("Learning rate", &["learning_rate/current", "learning_rate"]),
    ("Gradient norm", &["weight_gradient_norm"]),
    ("Target tokens per second", &["timing/target_tokens_per_second"]),
    ("Part of the time spent waiting for data", &["timing/data_wait_fraction"]),
];

/// The tag of the loss per token.
pub const LOSS: &str = "loss_per_nonpadding_target_token";

/// The metrics of held-out batches that come first.
const FIRST_HELD_OUT: [(&str, &str); 2] =
    [("loss per target token", LOSS), ("accuracy", "accuracy")];

/// One metric.
#[derive(Clone, Debug, Serialize)]
pub struct Chart {
    /// Its title.
    pub title: String,
    /// The curve of each run that has the metric.
    pub curves: Vec<Curve>,
}

/// The curve of a run.
#[derive(Clone, Debug, Serialize)]
pub struct Curve {
    /// The number of the run.
    pub run: usize,
    /// Steps.
    pub x: Vec<i64>,
    /// Values.
    pub y: Vec<f64>,
    /// The first step with a value that is not finite.
    pub not_finite: Option<i64>,
    /// The last value and its step.
    #[serde(skip)]
    pub last: Option<(i64, f64)>,
}

/// The charts of a page.
#[derive(Clone, Debug, Default)]
pub struct Charts {
    /// The training.
    pub training: Vec<Chart>,
    /// Every evaluation.
    pub evaluation: Vec<Chart>,
    /// Everything else that the runs measured, by group.
    pub more: BTreeMap<String, Vec<Chart>>,
    /// The number of metrics that are left out.
    pub num_left_out: usize,
}

/// A chart before its points are chosen.
#[derive(Clone)]
struct Plan<'a> {
    title: String,
    series: Vec<(usize, &'a Series)>,
}

impl Charts {
    /// Chooses the points of every chart.
    pub fn of(runs: &[RunData]) -> Self {
        let (training, mut more) = plan_training(runs);
        let evaluation = [plan_held_out(runs, &mut more), plan_inference(runs)].concat();
        let sections = [&training, &evaluation].into_iter().chain(more.values());
        let num_curves: usize = sections.flatten().map(|plan| plan.series.len()).sum();
        let most =
            (MOST_POINTS / num_curves.max(1)).clamp(FEWEST_POINTS_OF_CURVE, MOST_POINTS_OF_CURVE);
        let mut left = MOST_POINTS / most;
        let mut charts = Self::default();
        let mut chosen = |plans: Vec<Plan<'_>>, num_left_out: &mut usize| -> Vec<Chart> {
            let fits = |plan: &Plan<'_>| {
                let fits = plan.series.len() <= left;
                left -= if fits { plan.series.len() } else { 0 };
                *num_left_out += usize::from(!fits);
                fits
            };
            plans.into_iter().filter(fits).map(|plan| plan.chart(most)).collect()
        };
        charts.training = chosen(training, &mut charts.num_left_out);
        charts.evaluation = chosen(evaluation, &mut charts.num_left_out);
        for (group, plans) in more {
            let chosen = chosen(plans, &mut charts.num_left_out);
            if !chosen.is_empty() {
                charts.more.insert(group, chosen);
            }
        }
        charts
    }

    /// Returns every chart, in the order of the page.
    pub fn all(&self) -> impl Iterator<Item = &Chart> {
        [&self.training, &self.evaluation].into_iter().chain(self.more.values()).flatten()
    }
}

impl Plan<'_> {
    fn chart(self, most: usize) -> Chart {
        let curves = self.series.into_iter().map(|(run, series)| {
            let (x, y) = series.points(most).into_iter().map(|(x, y)| (x, rounded(y))).unzip();
            let (last, not_finite) = (series.last(), series.first_not_finite());
            Curve { run, x, y, not_finite, last }
        });
        Chart { title: self.title, curves: curves.collect() }
    }
}

/// Rounds to six digits that count: a chart shows no more, and the page is smaller.
fn rounded(value: f64) -> f64 {
    format!("{value:.5e}").parse().expect("it is a number")
}

type Groups<'a> = BTreeMap<String, Vec<Plan<'a>>>;

fn plan_training(runs: &[RunData]) -> (Vec<Plan<'_>>, Groups<'_>) {
    let curves: Vec<&Curves> = runs.iter().map(|run| &run.training).collect();
    let mut shown: BTreeSet<&str> = BTreeSet::new();
    let mut first = Vec::new();
    for (title, tags) in FIRST {
        let mut series = Vec::new();
        for (run, curves) in curves.iter().enumerate() {
            if let Some(tag) = tags.iter().find(|tag| curves.contains_key(**tag)) {
                shown.insert(tag);
                series.push((run, &curves[*tag]));
            }
        }
        if !series.is_empty() {
            first.push(Plan { title: title.to_string(), series });
        }
    }
    let mut more = Groups::new();
    for plan in plans(&curves).into_iter().filter(|plan| !shown.contains(plan.title.as_str())) {
        let group = plan.title.split_once('/').map_or("others", |(group, _)| group);
        more.entry(format!("Training: {group}")).or_default().push(plan);
    }
    (first, more)
}

fn plan_held_out<'a>(runs: &'a [RunData], more: &mut Groups<'a>) -> Vec<Plan<'a>> {
    let of: Vec<&TaskCurves> = runs.iter().map(|run| &run.training_eval).collect();
    let mut first = Vec::new();
    for (task, curves) in by_task(&of) {
        let mut others = plans(&curves);
        for (title, tag) in FIRST_HELD_OUT {
            if let Some(at) = others.iter().position(|plan| plan.title == tag) {
                let Plan { series, .. } = others.remove(at);
                first.push(Plan { title: format!("{task}: {title} (held out)"), series });
            }
        }
        more.insert(format!("Held-out batches of {task}"), others);
    }
    first
}

fn plan_inference(runs: &[RunData]) -> Vec<Plan<'_>> {
    let of: Vec<&TaskCurves> = runs.iter().map(|run| &run.inference_eval).collect();
    let mut out = Vec::new();
    for (task, curves) in by_task(&of) {
        out.extend(
            plans(&curves)
                .into_iter()
                .map(|Plan { title, series }| Plan { title: format!("{task}: {title}"), series }),
        );
    }
    out
}

/// Returns the curves of each task for every run.
fn by_task<'a>(of: &[&'a TaskCurves]) -> Vec<(&'a str, Vec<&'a Curves>)> {
    static NONE: Curves = Curves::new();
    let tasks: BTreeSet<&str> =
        of.iter().flat_map(|of| of.tasks.keys()).map(String::as_str).collect();
    let curves = |task: &str| of.iter().map(|of| of.tasks.get(task).unwrap_or(&NONE)).collect();
    tasks.into_iter().map(|task| (task, curves(task))).collect()
}

/// Returns a plan for each metric that some run has.
fn plans<'a>(curves: &[&'a Curves]) -> Vec<Plan<'a>> {
    let tags: BTreeSet<&str> =
        curves.iter().flat_map(|curves| curves.keys()).map(String::as_str).collect();
    let plan = |tag: &str| {
        let series = curves.iter().enumerate().filter_map(|(run, of)| Some((run, of.get(tag)?)));
        Plan { title: tag.to_string(), series: series.collect() }
    };
    tags.into_iter().map(plan).collect()
}
