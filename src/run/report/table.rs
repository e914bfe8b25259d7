//! `gimlet table`: the table of runs as text, CSV, Markdown and LaTeX.

use clap::{Args, ValueEnum};

use crate::run::failure::Failure;
use crate::run::output::write;
use crate::telemetry;

use super::folder::runs_at;
use super::model_dir::RunData;
use super::number::NOTHING;
use super::page::labels;
use super::summary::{Row, Table, Value, Wanted};

/// Flags of `gimlet table`.
#[derive(Args, Debug)]
#[command(after_help = "Example: gimlet table runs/lr --metric=rouge1 --format=latex")]
pub struct TableArgs {
    /// Folders of runs, or folders that hold them, such as that of a sweep, here or in a bucket.
    #[arg(value_name = "FOLDER", required = true)]
    folders: Vec<String>,
    /// The form of the table.
    #[arg(long = "format", value_enum, default_value_t)]
    format: TableFormat,
    /// The metrics to show, in this order: `rouge1`, `cnn_dailymail_v002 rouge1`, `"best rouge1"`; by default all of evaluations, or
    /// the loss of training.
    #[arg(long = "metric", value_name = "NAME,...", value_delimiter = ',')]
    metrics: Vec<String>,
    /// Settings over which a row goes, as it does over seeds: runs that differ in them alone are one row. With a sweep over tasks,
    /// `--over=task` gives a row for each model.
    #[arg(long = "over", value_name = "SETTING,...", value_delimiter = ',')]
    over: Vec<String>,
    /// A title above the table.
    #[arg(long = "title", value_name = "TEXT")]
    title: Option<String>,
}

/// The form of a table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum TableFormat {
    /// Aligned columns; the best value has a star.
    #[default]
    Text,
    /// Comma-separated values, with every number in full and deviations in columns of their own.
    Csv,
    /// A table of Markdown; the best value is bold.
    Markdown,
    /// A `tabular` of LaTeX; the best value is bold.
    Latex,
}

/// Prints the table.
///
/// # Errors
/// A folder without runs, a metric that no run has, storage that fails.
pub fn table_command(args: &TableArgs) -> Result<(), Failure> {
    let runs = runs_at(&args.folders)?;
    let runs: Vec<RunData> = runs.iter().map(RunData::measured).collect::<Result<_, _>>()?;
    for notice in runs.iter().flat_map(|run| &run.skipped) {
        telemetry::notice(notice);
    }
    let wanted = Wanted { metrics: args.metrics.clone(), over: args.over.clone() };
    let table = Table::of(&runs, &labels(&runs), &wanted)
        .map_err(|message| Failure::Usage(anyhow::anyhow!(message)))?;
    let title = args.title.as_deref();
    write(&match args.format {
        TableFormat::Text => text(&table, title),
        TableFormat::Csv => csv(&table).map_err(Failure::world)?,
        TableFormat::Markdown => markdown(&table, title),
        TableFormat::Latex => latex(&table, title),
    })
}

/// The titles and rows as texts: settings, the number of runs where it is above one, metrics.
fn cells(table: &Table, cell: impl Fn(&Value) -> String) -> Vec<Vec<String>> {
    let has_groups = has_groups(table);
    let count = |text: String| has_groups.then_some(text);
    let titles = table.settings.iter().cloned().chain(count("runs".to_string()));
    let titles = titles.chain(table.metrics.iter().cloned());
    let row = |row: &Row| {
        let shown = |value: &Option<Value>| value.as_ref().map_or(NOTHING.to_string(), &cell);
        let settings = row.settings.iter().cloned().chain(count(row.runs.len().to_string()));
        settings.chain(row.values.iter().map(shown)).collect()
    };
    [titles.collect()].into_iter().chain(table.rows.iter().map(row)).collect()
}

fn has_groups(table: &Table) -> bool {
    table.rows.iter().any(|row| row.runs.len() > 1)
}

fn text(table: &Table, title: Option<&str>) -> String {
    let mark = |value: &Value| if value.is_best { "*" } else { " " };
    let cells = cells(table, |value| format!("{}{}", value.text("±"), mark(value)));
    let mut lines = aligned(&cells, "  ");
    lines.splice(0..0, title.map(str::to_string));
    joined(lines)
}

fn joined(lines: Vec<String>) -> String {
    lines.iter().map(|line| format!("{}\n", line.trim_end())).collect()
}

fn widths(rows: &[Vec<String>]) -> Vec<usize> {
    let width = |at: usize| rows.iter().map(|row| row[at].chars().count()).max().unwrap_or(0);
    (0..rows[0].len()).map(width).collect()
}

fn aligned(rows: &[Vec<String>], gap: &str) -> Vec<String> {
    let widths = widths(rows);
    let line = |row: &Vec<String>| {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
        cells.collect::<Vec<_>>().join(gap)
    };
    rows.iter().map(line).collect()
}

fn csv(table: &Table) -> Result<String, csv::Error> {
    let has_groups = has_groups(table);
    let mut titles = table.settings.clone();
    titles.extend(has_groups.then(|| "runs".to_string()));
    for metric in &table.metrics {
        titles.push(metric.clone());
        titles.extend(has_groups.then(|| format!("{metric} deviation")));
    }
    let number = |value: Option<f64>| value.map_or(String::new(), |value| value.to_string());
    let mut out = csv::Writer::from_writer(Vec::new());
    out.write_record(titles)?;
    for row in &table.rows {
        let mut fields = row.settings.clone();
        fields.extend(has_groups.then(|| row.runs.len().to_string()));
        for value in &row.values {
            fields.push(number(value.map(|value| value.mean)));
            fields.extend(has_groups.then(|| number(value.and_then(|value| value.deviation))));
        }
        out.write_record(fields)?;
    }
    let bytes = out.into_inner().map_err(|error| error.into_error())?;
    Ok(String::from_utf8(bytes).expect("all fields are text"))
}

fn markdown(table: &Table, title: Option<&str>) -> String {
    let bold = |value: &Value| match value.is_best {
        true => format!("**{}**", value.text("±")),
        false => value.text("±"),
    };
    let mut rows = cells(table, bold);
    rows.iter_mut().flatten().for_each(|cell| *cell = cell.replace('|', "\\|"));
    let rule = widths(&rows).iter().map(|width| "-".repeat(*width)).collect();
    rows.insert(1, rule);
    let lines = aligned(&rows, " | ").into_iter().map(|line| format!("| {line} |"));
    let title = title.map(|title| [format!("**{title}**"), String::new()]);
    joined(title.into_iter().flatten().chain(lines).collect())
}

fn latex(table: &Table, title: Option<&str>) -> String {
    let bold = |value: &Value| match value.is_best {
        true => format!("\\textbf{{{}}}", value.text("$\\pm$")),
        false => value.text("$\\pm$"),
    };
    let escaped = |text: &str| -> String {
        let escape = |c: char| match c {
            '&' | '%' | '$' | '#' | '_' | '{' | '}' => format!("\\{c}"),
            '\\' => "\\textbackslash{}".to_string(),
            '~' => "\\textasciitilde{}".to_string(),
            '^' => "\\textasciicircum{}".to_string(),
            c => c.to_string(),
        };
        text.chars().map(escape).collect()
    };
    let mut rows = cells(table, bold);
    let num_settings = table.settings.len();
    for (at, row) in rows.iter_mut().enumerate() {
        let num_texts = if at == 0 { row.len() } else { num_settings };
        row.iter_mut().take(num_texts).for_each(|cell| *cell = escaped(cell));
        row.iter_mut().for_each(|cell| *cell = cell.replace(NOTHING, "--"));
    }
    let columns = "l".repeat(num_settings) + &"r".repeat(rows[0].len() - num_settings);
    let mut lines: Vec<String> = title.map(|title| format!("% {title}")).into_iter().collect();
    lines.push(format!("\\begin{{tabular}}{{{columns}}}"));
    lines.push("\\hline".to_string());
    for (at, row) in rows.iter().enumerate() {
        lines.push(format!("{} \\\\", row.join(" & ")));
        lines.extend((at == 0).then(|| "\\hline".to_string()));
    }
    lines.extend(["\\hline", "\\end{tabular}"].map(str::to_string));
    joined(lines)
}
