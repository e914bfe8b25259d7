//! `gimlet bench data`: the training data of a run, batch after batch.

use serde_json::{Map, Value, json};

use crate::data::{Batch, TaskProvider, get_dataset};
use crate::run::failure::Failure;
use crate::run::task::failure;
use crate::telemetry::{Laps, available_on_host, notice_once, read_bytes, thousands};
use crate::train::{batch_shortage, training_options, training_shape};

use super::BenchArgs;
use super::report::{Report, rate, seconds};

/// The features whose padding is counted: each task feature, and the batch feature made from it.
const FEATURES: [(&str, &str); 2] =
    [("inputs", "encoder_input_tokens"), ("targets", "decoder_target_tokens")];

/// Number of timed batches, enough that batches which threads prepare in advance do not matter.
const STEPS: usize = 100;

/// Counts of the contents of batches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Contents {
    rows: usize,
    examples: usize,
    /// By feature.
    tokens: [usize; 2],
    positions: [usize; 2],
}

/// Prints the speed at which batches come, and how full they are.
pub(super) fn run(args: &BenchArgs, color: bool) -> Result<(), Failure> {
    let configured = args.configured(color)?;
    let train = &configured.spec;
    // Model batches have fixed lengths; missing ones would give a less clear error further down.
    training_shape(train).map_err(Failure::usage)?;
    if let Some(message) = available_on_host().and_then(|bytes| batch_shortage(train, bytes)) {
        return Err(Failure::usage(anyhow::anyhow!(message)));
    }
    let options = training_options(train, train.random_seed.unwrap_or(0) as u64);
    let (config, tasks) = (&train.train_dataset_cfg, &configured.tasks);
    let placed = |error| failure(tasks.placed(&config.mixture_or_task_name, error));
    let mut batches = get_dataset(config, tasks, options).map_err(placed)?;
    batches.notices().iter().for_each(|text| notice_once(text));
    let mut next = || {
        let batch = batches.next_batch().map_err(failure)?;
        Ok::<Batch, Failure>(batch.expect("training data repeat without end"))
    };
    let mut first = Laps::default();
    first.time(&mut next)?;
    for _ in 1..args.warmup {
        next()?;
    }
    let (mut contents, mut laps) = (Contents::default(), Laps::default());
    let before = read_bytes();
    for _ in 0..args.steps_or(STEPS) {
        let batch = laps.time(&mut next)?;
        contents.add(&batch);
    }
    let read = before.zip(read_bytes()).map(|(before, after)| after.saturating_sub(before));
    let name = &train.train_dataset_cfg.mixture_or_task_name;
    report(name, args.warmup.max(1), &contents, [&first, &laps], read).print(args.json)
}

impl Contents {
    fn add(&mut self, batch: &Batch) {
        self.rows += batch.rows;
        self.examples += num_examples(batch);
        for (index, (_, feature)) in FEATURES.iter().enumerate() {
            // A decoder alone has no inputs of an encoder.
            let Some(_) = batch.feature(feature) else { continue };
            let ids = batch.ints(feature);
            self.positions[index] += ids.len();
            self.tokens[index] += ids.iter().filter(|id| **id != 0).count();
        }
    }

    /// The features that batches have, with their places in the counts.
    fn features(&self) -> impl Iterator<Item = (usize, &'static str)> {
        let names = FEATURES.iter().map(|(feature, _)| *feature).enumerate();
        names.filter(|(index, _)| self.positions[*index] > 0)
    }

    /// The share of a feature's positions that is padding.
    fn padding(&self, index: usize) -> f64 {
        1.0 - self.tokens[index] as f64 / self.positions[index].max(1) as f64
    }
}

/// Counts the examples; a packed row holds as many as the number of its last segment.
fn num_examples(batch: &Batch) -> usize {
    let segments = "decoder_segment_ids";
    if batch.feature(segments).is_none() {
        return batch.rows;
    }
    let last = |row: &[i32]| row.iter().copied().max().unwrap_or(0) as usize;
    batch.rows_of(segments).map(last).sum()
}

fn report(
    name: &str,
    warmup: usize,
    contents: &Contents,
    [first, laps]: [&Laps; 2],
    read: Option<u64>,
) -> Report {
    let total = laps.total();
    let per_second = |count: usize| count as f64 / total;
    let tokens: usize = contents.tokens.iter().sum();
    let batches = laps.seconds.len();
    let cpu: f64 = laps.cpu_seconds.iter().sum();
    let mut report = Report::new("data");
    report.set(json!({
        "mixture_or_task_name": name,
        "first_batch_seconds": first.total(),
        "warmup": warmup,
        "steps": batches,
        "seconds": total,
        "cpu_seconds": cpu,
        "batches_per_second": per_second(batches),
        "rows_per_second": per_second(contents.rows),
        "examples_per_second": per_second(contents.examples),
        "tokens_per_second": per_second(tokens),
        "padding": contents.features().map(|(index, feature)| {
            (feature.to_string(), json!(contents.padding(index)))
        }).collect::<Map<String, Value>>(),
        "read_bytes": read,
    }));
    report.say("data", format!("{name}, first batch after {}", seconds(first.total())));
    let each = format!("{} rows", contents.rows / batches.max(1));
    let rates = [batches, contents.examples, tokens].map(|count| rate(per_second(count)));
    let [batch_rate, example_rate, token_rate] = rates;
    report.say("batches", format!("{batch_rate} batches/s of {each}, {batches} timed"));
    let cores = format!("{:.1} cores busy", cpu / total);
    report.say("speed", format!("{example_rate} examples/s, {token_rate} tokens/s; {cores}"));
    for (index, feature) in contents.features() {
        let length = contents.positions[index] / contents.rows.max(1);
        let padding = 100.0 * contents.padding(index);
        report.say(feature, format!("{padding:.1}% of {length} positions are padding"));
    }
    if let Some(read) = read {
        report.say("read", format!("{} kB of files meanwhile", thousands(read as f64 / 1e3)));
    }
    report
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::{BatchFeature, BatchValues};

    fn feature(name: &str, rows: &[[i32; 4]]) -> BatchFeature {
        let values = BatchValues::Ints(rows.concat());
        BatchFeature { name: name.into(), length: 4, values }
    }

    #[test]
    fn packed_rows_count_their_examples_and_padding_by_feature() {
        let mut batch = Batch {
            rows: 2,
            features: vec![
                feature("encoder_input_tokens", &[[5, 6, 7, 0], [5, 0, 0, 0]]),
                feature("decoder_target_tokens", &[[5, 6, 7, 8], [5, 9, 0, 0]]),
            ],
        };
        let mut contents = Contents::default();
        contents.add(&batch);
        assert_eq!((contents.rows, contents.examples), (2, 2));
        assert_eq!((contents.padding(0), contents.padding(1)), (0.5, 0.25));
        batch.features.push(feature("decoder_segment_ids", &[[1, 2, 2, 3], [1, 1, 0, 0]]));
        contents.add(&batch);
        assert_eq!((contents.rows, contents.examples, contents.tokens), (4, 6, [8, 12]));
    }
}
