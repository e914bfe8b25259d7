//! `gimlet checkpoint diff`: the differences between two checkpoints, as diff(1) prints them for
//! files.

use std::collections::BTreeMap;

use clap::Args;
use serde_json::{Value, json};

use crate::checkpoint::{ArrayInfo, CheckpointError, Distance, Stored, Tolerance, for_each_block};
use crate::run::failure::Failure;
use crate::run::output::write;
use crate::telemetry::thousands;

use super::arrays::{Filter, array_bytes, json_number, shape};
use super::meter::Meter;
use super::open::{failure, open_at};

/// Flags of `gimlet checkpoint diff`.
#[derive(Args, Debug)]
#[command(
    after_help = "Ends with status 0 if the checkpoints are equal, 1 if they differ, 2 if one cannot \
    be read.\nTwo NaNs are equal. For formats without step and optimizer state, compare with \
    --filter '^target/'."
)]
pub struct DiffArgs {
    /// One checkpoint.
    #[arg(value_name = "A")]
    one: String,
    /// The other, of the same format or another.
    #[arg(value_name = "B")]
    other: String,
    /// Absolute difference of two values up to which they count as equal; other types of equal values
    /// then count as equal, too.
    #[arg(long, value_name = "X", value_parser = parse_bound)]
    tolerance: Option<f64>,
    /// The same, as a share of the larger of both values.
    #[arg(long = "relative_tolerance", value_name = "X", value_parser = parse_bound)]
    relative_tolerance: Option<f64>,
    /// Regular expression found in the names to compare; all by default.
    #[arg(long, value_name = "REGEX")]
    filter: Option<String>,
    /// Arrays to print of each kind of difference; 0 prints all.
    #[arg(long, value_name = "N", default_value_t = 20)]
    limit: usize,
    /// Print JSON, with all arrays that differ.
    #[arg(long)]
    json: bool,
}

/// An array that both have, and how it differs.
struct Pair<'a> {
    one: ArrayInfo<'a>,
    other: ArrayInfo<'a>,
    /// `None` where the shapes differ.
    distance: Option<Distance>,
}

#[derive(Default)]
struct Differences<'a> {
    only_one: Vec<ArrayInfo<'a>>,
    only_other: Vec<ArrayInfo<'a>>,
    shapes: Vec<Pair<'a>>,
    /// Arrays with different values come first, the largest difference first.
    values: Vec<Pair<'a>>,
    /// Arrays whose only difference is the type.
    dtypes: Vec<Pair<'a>>,
    num_equal: usize,
}

impl Differences<'_> {
    fn is_empty(&self, is_tolerant: bool) -> bool {
        let is_same = self.only_one.is_empty() && self.only_other.is_empty();
        let is_alike = self.shapes.is_empty() && self.values.is_empty();
        is_same && is_alike && (is_tolerant || self.dtypes.is_empty())
    }
}

pub(super) fn run(args: &DiffArgs) -> Result<(), Failure> {
    match differ(args) {
        Ok(false) => Ok(()),
        Ok(true) => Err(Failure::Said),
        // Status 1 means that they differ.
        Err(Failure::World(error)) => Err(Failure::Usage(error)),
        Err(other) => Err(other),
    }
}

/// Prints the differences, if there are any.
fn differ(args: &DiffArgs) -> Result<bool, Failure> {
    let (one, other) = (open_at(&args.one)?, open_at(&args.other)?);
    let filter = Filter::new(args.filter.as_deref())?;
    let (ones, others) = (filter.arrays(&*one), filter.arrays(&*other));
    if ones.is_empty() && others.is_empty() {
        filter.some_arrays(&*one)?;
    }
    let tolerance = Tolerance {
        absolute: args.tolerance.unwrap_or(0.0),
        relative: args.relative_tolerance.unwrap_or(0.0),
    };
    let mut found = Differences::default();
    compare((&*one, &ones), (&*other, &others), tolerance, &mut found).map_err(failure)?;
    match args.json {
        true => write(&format!("{:#}\n", as_json(&found)))?,
        false => write(&report(args, &found))?,
    }
    Ok(!found.is_empty(tolerance != Tolerance::default()))
}

fn parse_bound(text: &str) -> Result<f64, String> {
    let bound = text.parse().ok().filter(|bound: &f64| *bound >= 0.0);
    bound.ok_or_else(|| format!("expected a number of 0 or more, such as 1e-6, found `{text}`"))
}

fn compare<'a>(
    (one, ones): (&'a dyn Stored, &[ArrayInfo<'a>]),
    (other, others): (&'a dyn Stored, &[ArrayInfo<'a>]),
    tolerance: Tolerance,
    found: &mut Differences<'a>,
) -> Result<(), CheckpointError> {
    let total = ones.iter().map(array_bytes).sum();
    let mut meter = Meter::new("comparing", Some(total));
    let mut rest: BTreeMap<&str, ArrayInfo<'a>> =
        others.iter().map(|array| (array.name, *array)).collect();
    for &array in ones {
        let Some(partner) = rest.remove(array.name) else {
            found.only_one.push(array);
            continue;
        };
        let mut pair = Pair { one: array, other: partner, distance: None };
        if array.shape != partner.shape {
            found.shapes.push(pair);
            continue;
        }
        let mut distance = Distance::default();
        for_each_block(one, array, &mut |block, part| {
            let is_whole = block.shape == array.shape;
            let against = match is_whole {
                true => other.read(array.name)?,
                false => other.read_part(array.name, part)?,
            };
            distance.add(&block, &against, tolerance);
            meter.add(block.data.len() as u64);
            Ok(())
        })?;
        pair.distance = Some(distance);
        match () {
            () if distance.num_different > 0 => found.values.push(pair),
            () if array.dtype != partner.dtype => found.dtypes.push(pair),
            () => found.num_equal += 1,
        }
    }
    found.only_other = rest.into_values().collect();
    let largest = |pair: &Pair<'_>| -pair.distance.map_or(0.0, |distance| distance.max_absolute);
    found.values.sort_by(|a, b| largest(a).total_cmp(&largest(b)));
    Ok(())
}

fn report(args: &DiffArgs, found: &Differences<'_>) -> String {
    let limit = if args.limit == 0 { usize::MAX } else { args.limit };
    let mut out = String::new();
    let mut section = |title: String, lines: Vec<String>| {
        if lines.is_empty() {
            return;
        }
        out += &format!("{} {title}\n", lines.len());
        out += &lines.iter().take(limit).map(|line| format!("  {line}\n")).collect::<String>();
        if lines.len() > limit {
            out += &format!("  and {} more: --limit 0 prints all\n", lines.len() - limit);
        }
    };
    let alone = |arrays: &[ArrayInfo<'_>]| -> Vec<String> {
        arrays.iter().map(|one| format!("{} {} {}", one.name, one.dtype, shape(one))).collect()
    };
    section(format!("only in {}", args.one), alone(&found.only_one));
    section(format!("only in {}", args.other), alone(&found.only_other));
    let shapes = found
        .shapes
        .iter()
        .map(|pair| format!("{} {} and {}", pair.one.name, shape(&pair.one), shape(&pair.other)));
    section("of another shape".to_string(), shapes.collect());
    section("of other values".to_string(), value_lines(&found.values));
    section("of another type, with equal values".to_string(), {
        let line = |pair: &Pair<'_>| {
            format!("{} {} and {}", pair.one.name, pair.one.dtype, pair.other.dtype)
        };
        found.dtypes.iter().map(line).collect()
    });
    out + &format!("{} equal\n", found.num_equal)
}

fn value_lines(pairs: &[Pair<'_>]) -> Vec<String> {
    let width = pairs.iter().map(|pair| pair.one.name.len()).max().unwrap_or(0);
    let line = |pair: &Pair<'_>| {
        let distance = pair.distance.expect("arrays of one shape were compared");
        let dtypes = match pair.one.dtype == pair.other.dtype {
            true => String::new(),
            false => format!(", {} and {}", pair.one.dtype, pair.other.dtype),
        };
        format!(
            "{:width$}  largest {:.3e}, relative {:.3e}, norm {:.3e}, {} of {} values{dtypes}",
            pair.one.name,
            distance.max_absolute,
            distance.max_relative,
            distance.norm(),
            thousands(distance.num_different as f64),
            thousands(distance.count as f64),
        )
    };
    pairs.iter().map(line).collect()
}

fn as_json(found: &Differences<'_>) -> Value {
    let array = |array: &ArrayInfo<'_>| json!({"name": array.name, "dtype": array.dtype.name(), "shape": array.shape});
    let arrays = |list: &[ArrayInfo<'_>]| -> Vec<Value> { list.iter().map(array).collect() };
    let pair = |pair: &Pair<'_>| {
        let mut entry = json!({
            "name": pair.one.name,
            "dtypes": [pair.one.dtype.name(), pair.other.dtype.name()],
            "shapes": [pair.one.shape, pair.other.shape],
        });
        if let Some(distance) = pair.distance {
            entry["max_absolute"] = json_number(distance.max_absolute);
            entry["max_relative"] = json_number(distance.max_relative);
            entry["norm"] = json_number(distance.norm());
            entry["num_different"] = distance.num_different.into();
            entry["count"] = distance.count.into();
        }
        entry
    };
    let pairs = |list: &[Pair<'_>]| -> Vec<Value> { list.iter().map(pair).collect() };
    json!({
        "only_in_a": arrays(&found.only_one),
        "only_in_b": arrays(&found.only_other),
        "shapes": pairs(&found.shapes),
        "values": pairs(&found.values),
        "dtypes": pairs(&found.dtypes),
        "equal": found.num_equal,
    })
}
