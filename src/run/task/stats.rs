//! `gimlet task stats`: measures the length of examples, the share of padding, and the speed.

use std::collections::BTreeMap;
use std::time::Instant;

use anyhow::anyhow;
use clap::Args;

use crate::data::{Caches, ExampleOptions, Task, TaskProvider, Value, task_examples};
use crate::run::failure::Failure;
use crate::run::output::write;
use crate::telemetry::counted;

use super::args::{TaskFileArgs, check_lengths, failure, parse_length};

/// Flags of `gimlet task stats`.
#[derive(Args, Debug)]
pub struct StatsArgs {
    /// The task, or a mixture, whose tasks are measured in turn.
    #[arg(value_name = "NAME")]
    name: String,
    /// The split.
    #[arg(long, default_value = "train")]
    split: String,
    /// Examples to read at most.
    #[arg(long = "num_examples", value_name = "N", default_value_t = 10_000)]
    num_examples: usize,
    /// Feature lengths, as TASK_FEATURE_LENGTHS of a run; those of the longest examples by default.
    #[arg(
        long = "task_feature_lengths",
        value_name = "FEATURE=LENGTH,...",
        value_delimiter = ',',
        value_parser = parse_length
    )]
    lengths: Vec<(String, usize)>,
    /// Seed of random preprocessors.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Read tasks with a cache step from their caches, as USE_CACHED_TASKS of a run; the caches are looked
    /// for in --seqio_additional_cache_dirs.
    #[arg(long = "use_cached")]
    use_cached: bool,
    #[command(flatten)]
    files: TaskFileArgs,
}

/// Prints the figures of each task.
pub(super) fn run(args: &StatsArgs, color: bool) -> Result<(), Failure> {
    let tasks = args.files.load(color)?;
    let found = args.files.tasks_of(&args.name, &tasks)?;
    check_lengths(&args.lengths, &found)?;
    for task in found {
        let caches = args.use_cached.then(|| tasks.caches());
        write(&measure(args, &task, caches)?)?;
    }
    Ok(())
}

fn measure(args: &StatsArgs, task: &Task, cache: Option<Caches>) -> Result<String, Failure> {
    let given: BTreeMap<String, usize> = args.lengths.iter().cloned().collect();
    let options = ExampleOptions {
        split: args.split.clone(),
        lengths: (!given.is_empty()).then(|| given.clone()),
        seed: args.seed,
        cache,
        ..ExampleOptions::default()
    };
    let start = Instant::now();
    let mut lengths: BTreeMap<String, Vec<usize>> =
        task.output_features.keys().map(|name| (name.clone(), Vec::new())).collect();
    let mut cut: BTreeMap<String, usize> = BTreeMap::new();
    let mut count = 0;
    for example in task_examples(task, &options).map_err(failure)?.take(args.num_examples) {
        let example = example.map_err(failure)?;
        count += 1;
        for (name, lengths) in &mut lengths {
            lengths.push(length(example.get(name)));
            *cut.entry(name.clone()).or_default() += usize::from(example.was_cut(name));
        }
    }
    let seconds = start.elapsed().as_secs_f64();
    if count == 0 {
        let (name, split) = (task.task_name(), &args.split);
        return Err(Failure::usage(anyhow!("`{name}`, split '{split}', has no examples")));
    }
    let tokens: usize = lengths.values().flatten().sum();
    let rate = |amount: usize| amount as f64 / seconds;
    let mut out = format!(
        "{}, split '{}': {}, {}; {:.0} examples/s, {:.0} tokens/s on one \
         thread\n",
        task.task_name(),
        args.split,
        counted(count, "example"),
        counted(tokens, "token"),
        rate(count),
        rate(tokens),
    );
    let limits = limits(&lengths, &given);
    lengths.iter().for_each(|(name, lengths)| out.push_str(&histogram(name, lengths)));
    out.push_str(&padding(&lengths, &limits));
    out.push_str(&shares_cut(&cut, &limits, count));
    Ok(out)
}

fn length(value: Option<&Value>) -> usize {
    match value {
        Some(Value::Ints(ids)) => ids.len(),
        Some(Value::Floats(numbers)) => numbers.len(),
        Some(Value::Texts(texts)) => texts.len(),
        Some(rows @ (Value::IntRows(_) | Value::FloatRows(_) | Value::Lists(_))) => {
            rows.row_lengths().last().into_iter().flatten().sum()
        }
        Some(_) => 1,
        None => 0,
    }
}

/// Returns the length of a row by feature: the given one, or that of the longest example.
fn limits(
    lengths: &BTreeMap<String, Vec<usize>>,
    given: &BTreeMap<String, usize>,
) -> BTreeMap<String, usize> {
    let longest = |lengths: &Vec<usize>| lengths.iter().copied().max().unwrap_or(0);
    let limit = |(name, lengths): (&String, &Vec<usize>)| {
        (name.clone(), given.get(name).copied().unwrap_or_else(|| longest(lengths)))
    };
    lengths.iter().map(limit).collect()
}

/// Prints quantiles, and the number of examples by length, in ranges of doubling size.
fn histogram(name: &str, lengths: &[usize]) -> String {
    const WIDTH: usize = 40;
    let mut sorted = lengths.to_vec();
    sorted.sort_unstable();
    let at = |quantile: f64| sorted[((sorted.len() - 1) as f64 * quantile).round() as usize];
    let mean = sorted.iter().sum::<usize>() as f64 / sorted.len() as f64;
    let mut out = format!(
        "  {name}: mean {mean:.1}, min {}, median {}, 90% {}, 99% {}, max {}\n",
        at(0.0),
        at(0.5),
        at(0.9),
        at(0.99),
        at(1.0)
    );
    let mut ranges: BTreeMap<usize, usize> = BTreeMap::new();
    for &length in &sorted {
        *ranges.entry(length.checked_ilog2().map_or(0, |log| 1 << log)).or_default() += 1;
    }
    let most = ranges.values().copied().max().unwrap_or(1);
    for (low, count) in ranges {
        let high = if low == 0 { 0 } else { 2 * low - 1 };
        let bar = "#".repeat((count * WIDTH).div_ceil(most));
        out.push_str(&format!("    {low:>6} to {high:<6} {count:>8}  {bar}\n"));
    }
    out
}

/// Describes the share of padding: with one example a row, and packed as SeqIO packs.
fn padding(lengths: &BTreeMap<String, Vec<usize>>, limits: &BTreeMap<String, usize>) -> String {
    let count = lengths.values().map(Vec::len).max().unwrap_or(0);
    let rows = packed_rows(lengths, limits, count);
    let mut out = format!("  {} unpacked, {rows} packed; padding\n", counted(count, "row"));
    for (name, lengths) in lengths {
        let limit = limits[name];
        let tokens: usize = lengths.iter().map(|&length| length.min(limit)).sum();
        let fraction = |rows: usize| match rows * limit {
            0 => 0.0,
            places => 100.0 * (1.0 - tokens as f64 / places as f64),
        };
        out.push_str(&format!(
            "    {name} ({limit}): {:.1}% unpacked, {:.1}% packed\n",
            fraction(count),
            fraction(rows)
        ));
    }
    out
}

/// Describes the share of examples that are cut to the given lengths; empty if none is.
fn shares_cut(
    cut: &BTreeMap<String, usize>,
    limits: &BTreeMap<String, usize>,
    count: usize,
) -> String {
    let share = |(name, cut): (&String, &usize)| {
        let percent = 100.0 * *cut as f64 / count as f64;
        format!("    {name} ({}): {percent:.1}% of the examples\n", limits[name])
    };
    let shares: String = cut.iter().filter(|(_, cut)| **cut > 0).map(share).collect();
    if shares.is_empty() { shares } else { format!("  longer, and cut\n{shares}") }
}

/// Counts rows, each of which takes the next examples as long as all their features fit.
fn packed_rows(
    lengths: &BTreeMap<String, Vec<usize>>,
    limits: &BTreeMap<String, usize>,
    count: usize,
) -> usize {
    let example = |i: usize| -> Vec<usize> {
        lengths.iter().map(|(name, lengths)| lengths[i].min(limits[name])).collect()
    };
    let whole: Vec<usize> = lengths.keys().map(|name| limits[name]).collect();
    let mut rows = 0;
    let mut free = Vec::new();
    for example in (0..count).map(example) {
        let fits = rows > 0 && example.iter().zip(&free).all(|(length, free)| length <= free);
        if !fits {
            rows += 1;
            free.clone_from(&whole);
        }
        free.iter_mut().zip(example).for_each(|(free, length)| *free -= length);
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    fn features(inputs: &[usize], targets: &[usize]) -> BTreeMap<String, Vec<usize>> {
        let named = [("inputs", inputs), ("targets", targets)];
        named.map(|(name, lengths)| (name.to_string(), lengths.to_vec())).into()
    }

    #[test]
    fn a_row_takes_examples_while_all_features_fit() {
        let lengths = features(&[3, 3, 3, 9, 1], &[1, 1, 5, 1, 1]);
        let limits = [("inputs", 6), ("targets", 5)].map(|(name, limit)| (name.to_string(), limit));
        let limits = BTreeMap::from(limits);
        // 3 and 3; 3 alone, its target fills the row; 9 is trimmed to 6; 1.
        assert_eq!(packed_rows(&lengths, &limits, 5), 4);
        let text = padding(&lengths, &limits);
        assert!(text.contains("inputs (6): 46.7% unpacked, 33.3% packed"), "{text}");
        assert!(text.contains("targets (5): 64.0% unpacked, 55.0% packed"), "{text}");
    }

    #[test]
    fn lengths_are_counted_in_ranges_that_double() {
        let text = histogram("inputs", &[0, 1, 2, 3, 3, 8]);
        assert!(
            text.starts_with("  inputs: mean 2.8, min 0, median 3, 90% 8, 99% 8, max 8\n"),
            "{text}"
        );
        assert!(text.contains("     2 to 3             3  ####"), "{text}");
    }
}
