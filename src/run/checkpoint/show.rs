//! `gimlet checkpoint show`: the tree of a checkpoint's arrays.

use std::collections::BTreeMap;

use clap::Args;
use serde_json::{Map, Value, json};

use crate::checkpoint::{
    ArrayInfo, CheckpointError, RUN_FILE, Statistics, Stored, file_sizes, for_each_block,
};
use crate::run::failure::Failure;
use crate::run::output::{Color, ColorChoice, Paint, write};
use crate::telemetry::{counted, thousands};

use super::arrays::{Filter, array_bytes, json_number, num_values, shape, size};
use super::meter::Meter;
use super::open::{failure, open_at, storage_failure};

/// Flags of `gimlet checkpoint show`.
#[derive(Args, Debug)]
#[command(
    after_help = "Norms read every array; NaN and infinite values are counted and left out of the \
    other figures.\nExample: gimlet checkpoint show my_run/checkpoint_500 --filter '^target/encoder' \
    --norms"
)]
pub struct ShowArgs {
    /// A checkpoint, not a folder of them.
    #[arg(value_name = "PATH")]
    path: String,
    /// Regular expression found in the names to print; all by default.
    #[arg(long, value_name = "REGEX")]
    filter: Option<String>,
    /// Read the arrays, and print L2 norm, range, mean, and the counts of NaN and infinite values.
    #[arg(long)]
    norms: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    /// When to print in colour.
    #[arg(long, value_enum, default_value_t)]
    color: ColorChoice,
}

/// An array, and its figures if they were asked for.
struct Row<'a> {
    array: ArrayInfo<'a>,
    statistics: Option<Statistics>,
    /// The value of an integer scalar, such as the step.
    value: Option<i64>,
}

/// The contents of a part of the tree.
#[derive(Clone, Copy, Default)]
struct Total {
    num_arrays: usize,
    num_values: u64,
    bytes: u64,
    statistics: Option<Statistics>,
}

pub(super) fn run(args: &ShowArgs) -> Result<(), Failure> {
    let stored = open_at(&args.path)?;
    let filter = Filter::new(args.filter.as_deref())?;
    let arrays = filter.some_arrays(&*stored)?;
    let rows = rows(&*stored, &arrays, args.norms).map_err(failure)?;
    let about = About::of(&*stored)?;
    match args.json {
        true => write(&format!("{:#}\n", as_json(&about, &rows))),
        false => {
            let paint = Paint::new(args.color);
            write(&(about.text(paint) + &tree(&rows, paint) + &totals_text(&rows)))
        }
    }
}

fn rows<'a>(
    stored: &dyn Stored,
    arrays: &[ArrayInfo<'a>],
    norms: bool,
) -> Result<Vec<Row<'a>>, CheckpointError> {
    let total = arrays.iter().map(array_bytes).sum();
    let mut meter = Meter::new("reading", Some(total));
    let mut rows = Vec::new();
    for &array in arrays {
        let value = match array.shape {
            [] => stored.read(array.name)?.to_int(),
            _ => None,
        };
        let mut row = Row { array, statistics: None, value };
        if norms && array.dtype.is_float() {
            let mut statistics = Statistics::default();
            for_each_block(stored, array, &mut |block, _| {
                statistics.add(&block);
                meter.add(block.data.len() as u64);
                Ok(())
            })?;
            row.statistics = Some(statistics);
        }
        rows.push(row);
    }
    Ok(rows)
}

/// Facts about a checkpoint besides its arrays.
struct About {
    path: String,
    /// `None` for a format without steps.
    step: Option<u64>,
    format: &'static str,
    num_files: usize,
    bytes: u64,
    /// Files that hold no arrays.
    beside: Vec<String>,
    /// Facts about the run that wrote it.
    run: Option<Map<String, Value>>,
}

impl About {
    fn of(stored: &dyn Stored) -> Result<Self, Failure> {
        let path = stored.path();
        let sizes = file_sizes(path).map_err(failure)?;
        let has_step = stored.leaves().iter().any(|array| array.name == "state/step");
        let is_beside = |name: &&String| {
            name.starts_with("gimlet/") || (!name.contains('/') && *name != "checkpoint")
        };
        let is_dir = path.is_dir().map_err(storage_failure)?;
        let run = stored.extra(RUN_FILE).map_err(failure)?;
        Ok(Self {
            path: path.to_string(),
            step: Some(stored.step().map_err(failure)?).filter(|step| *step > 0 || has_step),
            format: stored.format().name(),
            num_files: sizes.len(),
            bytes: sizes.values().sum(),
            beside: sizes.keys().filter(is_beside).filter(|_| is_dir).cloned().collect(),
            run: run.and_then(|bytes| serde_json::from_slice(&bytes).ok()),
        })
    }

    fn text(&self, paint: Paint) -> String {
        let path = paint.text(Color::Bold, &self.path);
        let step = self.step.map_or(String::new(), |step| format!("step {step}, "));
        let mut out = format!("{path}: {step}{}", self.format);
        if self.num_files > 0 {
            let plural = if self.num_files == 1 { "" } else { "s" };
            out += &format!(", {} in {} file{plural}", size(self.bytes), self.num_files);
        }
        out += "\n";
        if let Some(run) = &self.run {
            let field = |name: &str| run.get(name).map_or("unknown".to_string(), Value::to_string);
            let (seed, first_step) = (field("seed"), field("first_step"));
            out += &format!("  run: seed {seed}, first step {first_step}\n");
        }
        if !self.beside.is_empty() {
            out += &format!("  beside: {}\n", self.beside.join(", "));
        }
        out
    }
}

/// Prints a line for each folder and each array; a folder with one entry shares the line of that
/// entry.
fn tree(rows: &[Row<'_>], paint: Paint) -> String {
    let mut root = Node::default();
    for row in rows {
        let parts = row.array.name.split('/');
        parts.fold(&mut root, |node, part| node.children.entry(part).or_default()).row = Some(row);
    }
    let mut lines = Vec::new();
    root.lines(0, &mut lines);
    let width = lines.iter().filter(|line| line.1.is_some()).map(|line| line.0.chars().count());
    let width = width.max().unwrap_or(0);
    let shapes = rows.iter().map(|row| shape(&row.array).len()).max().unwrap_or(0);
    let mut out = String::new();
    for (label, row) in lines {
        match row {
            None => out += &format!("{label}\n"),
            Some(row) => {
                let kind = format!("{:8} {:shapes$}", row.array.dtype.name(), shape(&row.array));
                let bytes = size(array_bytes(&row.array));
                let kind = paint.text(Color::Dim, &kind);
                out += &format!("{label:width$}  {kind}  {bytes:>7}{}\n", figures(row));
            }
        }
    }
    out
}

#[derive(Default)]
struct Node<'a> {
    children: BTreeMap<&'a str, Node<'a>>,
    row: Option<&'a Row<'a>>,
}

impl<'a> Node<'a> {
    fn lines(&'a self, depth: usize, out: &mut Vec<(String, Option<&'a Row<'a>>)>) {
        let mut children: Vec<_> = self.children.iter().collect();
        // `layers_2` before `layers_10`.
        children.sort_by_key(|(name, _)| {
            (name.trim_end_matches(|c: char| c.is_ascii_digit()), number(name))
        });
        for (name, mut node) in children {
            let mut label = format!("{}{}", "  ".repeat(depth), harmless(name));
            while node.row.is_none() && node.children.len() == 1 {
                let (name, only) = node.children.first_key_value().expect("there is one");
                label += &format!("/{}", harmless(name));
                node = only;
            }
            out.push((label, node.row));
            node.lines(depth + 1, out);
        }
    }
}

/// Escapes control characters in a name, which a terminal would obey.
fn harmless(name: &str) -> String {
    let shown = |c: char| if c.is_control() { c.escape_default().to_string() } else { c.into() };
    name.chars().map(shown).collect()
}

/// The number that ends a name.
fn number(name: &str) -> u64 {
    let digits = name.trim_start_matches(|c: char| !c.is_ascii_digit());
    digits.parse().unwrap_or(0)
}

fn figures(row: &Row<'_>) -> String {
    let value = row.value.map_or(String::new(), |value| format!("  = {value}"));
    let Some(statistics) = &row.statistics else { return value };
    format!("{value}  {}", statistics_text(statistics))
}

fn statistics_text(statistics: &Statistics) -> String {
    let Statistics { count, min, max, num_nan, num_infinite, .. } = *statistics;
    if count == 0 {
        return "no values".to_string();
    }
    let (norm, mean) = (statistics.norm(), statistics.mean());
    let [norm, min, max, mean] = [norm, min, max, mean].map(significant);
    let mut out = format!("norm {norm:>10}  {min:>10} to {max:>10}  mean {mean:>10}");
    for (count, name) in [(num_nan, "NaN"), (num_infinite, "infinite")] {
        if count > 0 {
            out += &format!("  {} {name}!", thousands(count as f64));
        }
    }
    out
}

/// Formats a number with four significant digits: `0.02345`, `12.50`, `1.234e-9`.
fn significant(value: f64) -> String {
    match value.abs() {
        0.0 => "0".to_string(),
        1e-3..1e6 => {
            let digits = 3 - value.abs().log10().floor() as i32;
            format!("{value:.0$}", digits.max(0) as usize)
        }
        _ => format!("{value:.3e}"),
    }
}

/// Returns the totals of `target` (parameters), `state` (of the optimizer) and any other part.
fn totals<'a>(rows: &[Row<'a>]) -> BTreeMap<&'a str, Total> {
    let mut totals: BTreeMap<&str, Total> = BTreeMap::new();
    for row in rows {
        let top = row.array.name.split('/').next().expect("split yields one part");
        let total = totals.entry(top).or_default();
        total.num_arrays += 1;
        total.num_values += num_values(&row.array);
        total.bytes += array_bytes(&row.array);
        if let Some(statistics) = &row.statistics {
            total.statistics.get_or_insert_default().merge(statistics);
        }
    }
    totals
}

fn totals_text(rows: &[Row<'_>]) -> String {
    let line = |(name, total): (&str, Total)| {
        let what = match name {
            "target" => "parameters: ",
            "state" => "optimizer state: ",
            _ => "",
        };
        let values = thousands(total.num_values as f64);
        let s = if total.num_values == 1 { "" } else { "s" };
        let (arrays, bytes) = (counted(total.num_arrays, "array"), size(total.bytes));
        let mut out = format!("{name}  {what}{values} value{s} in {arrays}, {bytes}");
        if let Some(statistics) = &total.statistics {
            out += &format!("  {}", statistics_text(statistics));
        }
        out + "\n"
    };
    totals(rows).into_iter().map(line).collect()
}

fn as_json(about: &About, rows: &[Row<'_>]) -> Value {
    let array = |row: &Row<'_>| {
        let mut entry = json!({
            "name": row.array.name,
            "dtype": row.array.dtype.name(),
            "shape": row.array.shape,
            "bytes": array_bytes(&row.array),
        });
        if let Some(value) = row.value {
            entry["value"] = value.into();
        }
        if let Some(statistics) = &row.statistics {
            entry["statistics"] = statistics_json(statistics);
        }
        entry
    };
    let total = |(name, total): (&str, Total)| {
        let mut entry = json!({
            "arrays": total.num_arrays,
            "values": total.num_values,
            "bytes": total.bytes,
        });
        if let Some(statistics) = &total.statistics {
            entry["statistics"] = statistics_json(statistics);
        }
        (name.to_string(), entry)
    };
    let totals: Map<String, Value> = totals(rows).into_iter().map(total).collect();
    json!({
        "path": about.path,
        "step": about.step,
        "format": about.format,
        "files": about.num_files,
        "bytes": about.bytes,
        "beside": about.beside,
        "run": about.run,
        "totals": totals,
        "arrays": rows.iter().map(array).collect::<Vec<Value>>(),
    })
}

fn statistics_json(statistics: &Statistics) -> Value {
    json!({
        "norm": json_number(statistics.norm()),
        "min": json_number(statistics.min),
        "max": json_number(statistics.max),
        "mean": json_number(statistics.mean()),
        "nan": statistics.num_nan,
        "infinite": statistics.num_infinite,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_four_digits_that_count() {
        let found = [0.0, 12.5, -0.023_45, 123_456.7, 1.234e-9, f64::NAN].map(significant);
        assert_eq!(found, ["0", "12.50", "-0.02345", "123457", "1.234e-9", "NaN"]);
        assert_eq!(statistics_text(&Statistics::default()), "no values");
    }

    #[test]
    fn a_terminal_obeys_no_name() {
        assert_eq!(harmless("kernel_ß\x1b[31m\n"), "kernel_ß\\u{1b}[31m\\n");
    }
}
