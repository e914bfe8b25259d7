//! The table of runs: what differs between them, beside their best and last metrics. Runs that differ in their seed alone are one row.

use std::collections::{BTreeMap, BTreeSet};

use crate::run::sweep::short;

use super::charts::LOSS;
use super::configuration::Binding;
use super::model_dir::RunData;
use super::number::{NOTHING, number};
use super::series::Series;

/// Names of settings that give a seed, or end so.
const SEEDS: [&str; 3] = ["RANDOM_SEED", "random_seed", "seed"];
/// Words in the names of metrics of which a lower value is better.
const LOWER_IS_BETTER: [&str; 9] =
    ["loss", "nll", "perplexity", "bits", "edit", "error", "wer", "cer", "distance"];
/// With more settings that differ, runs are told apart by their names.
const MOST_SETTINGS: usize = 8;
/// The kinds of a metric's columns: the best value of the run, and its last one.
const KINDS: [&str; 2] = ["best", "last"];

/// A table of runs.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    /// The titles of the settings that differ; that of the runs' names if there are none.
    pub settings: Vec<String>,
    /// The titles of the columns of metrics.
    pub metrics: Vec<String>,
    /// The rows.
    pub rows: Vec<Row>,
}

/// The part of the table that is asked for.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Wanted {
    /// The metrics that are shown, in this order; none for all of evaluations.
    pub metrics: Vec<String>,
    /// The settings over which a row goes, beside seeds: runs that differ in them alone are one row.
    pub over: Vec<String>,
}

/// A column of a metric.
struct Column {
    /// `best` or `last`; nothing where both are the same.
    kind: Option<&'static str>,
    /// The title of the metric.
    metric: String,
    /// The value of each row.
    values: Vec<Option<Value>>,
}

impl Column {
    fn title(&self) -> String {
        match self.kind {
            Some(kind) => format!("{kind} {}", self.metric),
            None => self.metric.clone(),
        }
    }

    /// Whether `name` asks for the column: the metric or the end of its title, after `best` or `last`.
    fn is(&self, name: &str) -> bool {
        let kind = KINDS
            .into_iter()
            .find(|kind| name.strip_prefix(kind).is_some_and(|rest| rest.starts_with(' ')));
        let metric = kind.map_or(name, |kind| &name[kind.len() + 1..]);
        let is_kind = self.kind.is_none() || kind.is_none() || self.kind == kind;
        is_kind && (self.metric == metric || self.metric.ends_with(&format!(" {metric}")))
    }
}

/// A run, or several that differ in their seed alone.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// The numbers of the runs.
    pub runs: Vec<usize>,
    /// The values of the settings.
    pub settings: Vec<String>,
    /// The value of each metric.
    pub values: Vec<Option<Value>>,
}

/// A value of a metric.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Value {
    /// The mean over the runs of the row that have it.
    pub mean: f64,
    /// The standard deviation of the sample, of several runs.
    pub deviation: Option<f64>,
    /// Whether no row has a better mean.
    pub is_best: bool,
}

/// A metric of some runs: its name, and the curve of each run that has it.
struct Metric<'a> {
    title: String,
    name: &'a str,
    curves: BTreeMap<usize, &'a Series>,
}

/// The settings of a row, with the numbers of its runs.
type Group = (Vec<String>, Vec<usize>);
/// The settings of a run by name, in their order.
type Settings = Vec<(String, String)>;

impl Table {
    /// Makes the table of runs with these names.
    ///
    /// # Errors
    /// A metric that no run has, or a setting that does not differ; the message lists those that there are.
    pub fn of(runs: &[RunData], labels: &[String], wanted: &Wanted) -> Result<Self, String> {
        let settings = differing(runs);
        check(&settings, &wanted.over)?;
        let (names, groups) = groups(&settings, labels, &wanted.over);
        let columns = metrics(runs).iter().flat_map(|metric| metric.columns(&groups)).collect();
        let columns: Vec<Column> = chosen(columns, &wanted.metrics)?;
        let row = |(at, (settings, runs)): (usize, Group)| Row {
            runs,
            settings,
            values: columns.iter().map(|column| column.values[at]).collect(),
        };
        let rows = groups.into_iter().enumerate().map(row).collect();
        Ok(Self { settings: names, metrics: columns.iter().map(Column::title).collect(), rows })
    }
}

/// Returns for each run the settings that differ between runs: those of its sweep, or the bindings of its configuration.
fn differing(runs: &[RunData]) -> Vec<Settings> {
    // The same values in two sweeps are two settings.
    let of_sweep = |run: &RunData| {
        let point = run.point.as_ref()?;
        let sweep = ("sweep".to_string(), point.sweep.to_string());
        Some([&[sweep], &point.recorded.values[..]].concat())
    };
    let all: Vec<Settings> = match runs.iter().map(of_sweep).collect::<Option<Vec<_>>>() {
        Some(of_sweep) => of_sweep,
        None => runs.iter().map(bound).collect(),
    };
    let mut names: Vec<&String> = Vec::new();
    for (name, _) in all.iter().flatten() {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let value = |run: &Settings, name: &String| -> String {
        let found = run.iter().find(|(other, _)| other == name);
        found.map_or(NOTHING.to_string(), |(_, value)| value.clone())
    };
    names.retain(|name| all.iter().any(|run| value(run, name) != value(&all[0], name)));
    all.iter()
        .map(|run| names.iter().map(|name| (name.to_string(), value(run, name))).collect())
        .collect()
}

/// The bindings of a run, without those of its own folder: MODEL_DIR, and paths in it.
fn bound(run: &RunData) -> Settings {
    let end = format!("/{}", last_two(run.path.as_str()));
    let is_own = |one: &&Binding| {
        let text = one.value.trim_matches(['\'', '"']);
        one.name == "MODEL_DIR" || (text.contains('/') && format!("/{text}").contains(&end))
    };
    let bindings = run.configuration.bindings.iter().filter(|one| !is_own(one));
    bindings.map(|one| (one.name.clone(), one.value.clone())).collect()
}

/// The last two parts of a path.
fn last_two(path: &str) -> &str {
    let start = path.rmatch_indices('/').nth(1).map_or(0, |(at, _)| at + 1);
    &path[start..]
}

/// Returns the titles of the settings, and the rows: their settings with the numbers of their runs.
fn groups(all: &[Settings], labels: &[String], over: &[String]) -> (Vec<String>, Vec<Group>) {
    let names = names(all);
    let is_kept = |name: &String| !SEEDS.contains(&short(name)) && !is_over(name, over);
    let kept: Vec<usize> = (0..names.len()).filter(|at| is_kept(names[*at])).collect();
    if kept.len() > MOST_SETTINGS || names.is_empty() {
        let rows = labels.iter().enumerate().map(|(run, label)| (vec![label.clone()], vec![run]));
        return (vec!["run".to_string()], rows.collect());
    }
    let mut rows: Vec<Group> = Vec::new();
    for (run, settings) in all.iter().enumerate() {
        let own: Vec<String> = kept.iter().map(|at| settings[*at].1.clone()).collect();
        match rows.iter_mut().find(|(known, _)| *known == own) {
            Some((_, runs)) => runs.push(run),
            None => rows.push((own, vec![run])),
        }
    }
    let titles = kept.iter().map(|at| title(names[*at], &names)).collect();
    (titles, rows)
}

/// The names of the settings that differ.
fn names(all: &[Settings]) -> Vec<&String> {
    all.first().into_iter().flatten().map(|(name, _)| name).collect()
}

fn is_over(name: &str, over: &[String]) -> bool {
    over.iter().any(|wanted| name == wanted || short(name) == wanted)
}

fn check(all: &[Settings], over: &[String]) -> Result<(), String> {
    let names = names(all);
    let is_unknown =
        |wanted: &&String| !names.iter().any(|name| is_over(name, &[(*wanted).clone()]));
    match over.iter().find(is_unknown) {
        None => Ok(()),
        Some(unknown) => Err(format!(
            "the runs do not differ in `{unknown}`, expected one of {}",
            names.iter().map(|name| short(name)).collect::<Vec<_>>().join(", ")
        )),
    }
}

/// The last part of a setting's name, if no other ends with it.
fn title(name: &str, names: &[&String]) -> String {
    let is_unique = names.iter().filter(|other| short(other) == short(name)).count() == 1;
    if is_unique { short(name).to_string() } else { name.to_string() }
}

/// Returns every metric of evaluations, or the loss of training if there are none.
fn metrics(runs: &[RunData]) -> Vec<Metric<'_>> {
    let mut found: BTreeMap<(bool, &str, &str), BTreeMap<usize, &Series>> = BTreeMap::new();
    for (number, run) in runs.iter().enumerate() {
        for (is_held_out, of) in [(false, &run.inference_eval), (true, &run.training_eval)] {
            for (task, curves) in &of.tasks {
                let curves = curves
                    .iter()
                    .filter(|(name, _)| !is_held_out || *name == LOSS || *name == "accuracy");
                for (name, curve) in curves {
                    found.entry((is_held_out, task, name)).or_default().insert(number, curve);
                }
            }
        }
    }
    let tasks: BTreeSet<&str> = found.keys().map(|(_, task, _)| *task).collect();
    let title = |is_held_out: bool, task: &str, name: &str| {
        let name = match (is_held_out, name) {
            (true, LOSS) => "held-out loss",
            (true, _) => "held-out accuracy",
            (false, name) => name,
        };
        if tasks.len() == 1 { name.to_string() } else { format!("{task} {name}") }
    };
    if !found.is_empty() {
        let metric = |((is_held_out, task, name), curves)| Metric {
            title: title(is_held_out, task, name),
            name,
            curves,
        };
        return found.into_iter().map(metric).collect();
    }
    let losses = runs.iter().enumerate().filter_map(|(number, run)| {
        Some((number, run.training.get(LOSS).or_else(|| run.training.get("loss"))?))
    });
    let curves: BTreeMap<_, _> = losses.collect();
    if curves.is_empty() {
        Vec::new()
    } else {
        vec![Metric { title: "training loss".to_string(), name: LOSS, curves }]
    }
}

fn chosen(all: Vec<Column>, wanted: &[String]) -> Result<Vec<Column>, String> {
    if wanted.is_empty() {
        return Ok(all);
    }
    if let Some(name) = wanted.iter().find(|name| !all.iter().any(|column| column.is(name))) {
        let titles: Vec<String> = all.iter().map(Column::title).collect();
        let titles = titles.join(", ");
        return Err(format!("no run has the metric `{name}`, expected one of {titles}"));
    }
    let mut left = all;
    let mut ordered = Vec::new();
    for name in wanted {
        let (these, others) = left.into_iter().partition::<Vec<_>, _>(|column| column.is(name));
        ordered.extend(these);
        left = others;
    }
    Ok(ordered)
}

impl Metric<'_> {
    fn higher_is_better(&self) -> bool {
        let name = self.name.to_lowercase();
        !name.split(['_', '-', '/', ' ']).any(|word| LOWER_IS_BETTER.contains(&word))
    }

    /// Returns the columns of the best and the last values of rows; one column if they are the same.
    fn columns(&self, rows: &[Group]) -> Vec<Column> {
        let is_higher = self.higher_is_better();
        let best = |curve: &Series| if is_higher { curve.highest() } else { curve.lowest() };
        let values = |of: &dyn Fn(&Series) -> Option<f64>| -> Vec<Option<Value>> {
            let known = |runs: &Vec<usize>| -> Vec<f64> {
                runs.iter().filter_map(|run| of(self.curves.get(run)?)).collect()
            };
            with_best(rows.iter().map(|(_, runs)| Value::of(&known(runs))).collect(), is_higher)
        };
        let column = |kind, values| Column { kind, metric: self.title.clone(), values };
        let (best, last) = (values(&best), values(&|curve| Some(curve.last()?.1)));
        if best == last {
            return vec![column(None, last)];
        }
        vec![column(Some(KINDS[0]), best), column(Some(KINDS[1]), last)]
    }
}

/// Marks the best values of a column with more than one.
fn with_best(mut column: Vec<Option<Value>>, higher_is_better: bool) -> Vec<Option<Value>> {
    let sign = if higher_is_better { 1.0 } else { -1.0 };
    let known = || column.iter().flatten().map(|value| sign * value.mean);
    let best = known().max_by(f64::total_cmp);
    if known().count() > 1 {
        column
            .iter_mut()
            .flatten()
            .for_each(|value| value.is_best = Some(sign * value.mean) == best);
    }
    column
}

impl Value {
    fn of(values: &[f64]) -> Option<Self> {
        if values.is_empty() {
            return None;
        }
        let count = values.len() as f64;
        let mean = values.iter().sum::<f64>() / count;
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        let deviation = (values.len() > 1).then(|| (squares / (count - 1.0)).sqrt());
        Some(Self { mean, deviation, is_best: false })
    }

    /// Writes the value, with `sign` before the deviation.
    pub fn text(&self, sign: &str) -> String {
        match self.deviation {
            None => number(self.mean),
            Some(deviation) => format!("{} {sign} {}", number(self.mean), number(deviation)),
        }
    }
}
