//! `gimlet task batches`: prints the training batches of a run, row by row.

use std::collections::BTreeMap;
use std::sync::Arc;

use clap::Args;

use crate::data::{Batch, BatchFeature, BatchValues, TaskProvider, get_dataset};
use crate::run::configure::{Configured, configure};
use crate::run::failure::Failure;
use crate::run::gin_flags::GinArgs;
use crate::run::library::Library;
use crate::run::output::{Color, ColorChoice, Paint, quoted, write, write_error};
use crate::telemetry::{counted, notice_once};
use crate::train::{Train, training_options, training_shape};
use crate::vocab::Vocabulary;

use super::args::{failure, tasks_of};
use super::show::{label, some};

/// Width of the picture of a row, in characters.
const WIDTH: usize = 64;

/// Flags of `gimlet task batches`.
#[derive(Args, Debug)]
pub struct BatchesArgs {
    /// The run.
    #[command(flatten)]
    gin: GinArgs,
    /// Batches to print.
    #[arg(long, value_name = "N", default_value_t = 1)]
    steps: usize,
    /// Rows of each batch to print; all by default.
    #[arg(long, value_name = "N")]
    rows: Option<usize>,
    /// Ids and characters of an example to print at most.
    #[arg(long, value_name = "N", default_value_t = 400)]
    limit: usize,
    /// When to print in colour.
    #[arg(long, value_enum, default_value_t)]
    color: ColorChoice,
}

/// Prints the batches that the first steps of the run train on.
pub(super) fn run(args: &BatchesArgs, color: bool) -> Result<(), Failure> {
    let configured: Configured<Train> = configure(&args.gin, &Library, color)?;
    write_error(&configured.warnings);
    let train = &configured.spec;
    training_shape(train).map_err(Failure::usage)?;
    let (config, tasks) = (&train.train_dataset_cfg, &configured.tasks);
    let name = &config.mixture_or_task_name;
    let vocabularies = vocabularies(name, &configured)?;
    let options = training_options(train, train.random_seed.unwrap_or(0) as u64);
    let placed = |error| failure(tasks.placed(name, error));
    let mut batches = get_dataset(config, tasks, options).map_err(placed)?;
    batches.notices().iter().for_each(|text| notice_once(text));
    let shown = Shown { args, paint: Paint::new(args.color), vocabularies };
    for step in 1..=args.steps {
        let Some(batch) = batches.next_batch().map_err(failure)? else { break };
        shown.batch(&format!("step {step} of `{name}`, split '{}'", config.split), &batch)?;
    }
    Ok(())
}

/// Returns the vocabularies of the task, or of one of the mixture's tasks, which share them.
fn vocabularies(
    name: &str,
    configured: &Configured<Train>,
) -> Result<BTreeMap<String, Arc<dyn Vocabulary>>, Failure> {
    let tasks = tasks_of(name, &configured.tasks)?;
    let features = tasks.first().into_iter().flat_map(|task| &task.output_features);
    features
        .map(|(name, feature)| {
            Ok((name.clone(), feature.vocabulary.build().map_err(Failure::usage)?))
        })
        .collect()
}

struct Shown<'a> {
    args: &'a BatchesArgs,
    paint: Paint,
    vocabularies: BTreeMap<String, Arc<dyn Vocabulary>>,
}

impl Shown<'_> {
    fn batch(&self, title: &str, batch: &Batch) -> Result<(), Failure> {
        let shape = |feature: &BatchFeature| {
            format!("{} [{}, {}]", feature.name, batch.rows, feature.length)
        };
        let shapes: Vec<String> = batch.features.iter().map(shape).collect();
        let title = self.paint.text(Color::Bold, title);
        let rows = counted(batch.rows, "row");
        write(&format!("{title}: {rows}\n  {}\n", shapes.join(", ")))?;
        for row in 0..batch.rows.min(self.args.rows.unwrap_or(batch.rows)) {
            write(&format!("{}\n", self.paint.text(Color::Bold, &format!("row {}", row + 1))))?;
            for feature in &batch.features {
                write(&self.feature(batch, feature, row))?;
            }
        }
        write("\n")
    }

    /// Describes a feature of a row: its tokens by example; nothing for features that only describe
    /// them.
    fn feature(&self, batch: &Batch, feature: &BatchFeature, row: usize) -> String {
        let (name, range) = (&*feature.name, row * feature.length..(row + 1) * feature.length);
        let ids = match &feature.values {
            BatchValues::Ints(ids) => &ids[range],
            BatchValues::Floats(values) => {
                let values = values[range].iter();
                return format!("{}{}\n", self.label(name), some(values, self.args.limit));
            }
        };
        let vocabulary = match name {
            "encoder_input_tokens" => self.vocabularies.get("inputs"),
            "decoder_target_tokens" => self.vocabularies.get("targets"),
            _ if name.starts_with("encoder_") || name.starts_with("decoder_") => {
                return String::new();
            }
            _ => None,
        };
        let side = name.split('_').next().unwrap_or_default();
        let segments = segments_of(batch, &format!("{side}_segment_ids"), row, ids);
        let full = segments.iter().filter(|segment| **segment != 0).count();
        let count = segments.iter().max().copied().unwrap_or(0);
        let examples = if count == 1 { "example" } else { "examples" };
        let about = format!("{count} {examples}, {full} of {} tokens", ids.len());
        let mut out = format!("{}{about}\n    {}\n", self.label(name), self.picture(&segments));
        let mut start = 0;
        for run in segments.chunk_by(|a, b| a == b) {
            let end = start + run.len();
            if run[0] != 0 {
                out += &self.segment(run[0], start, &ids[start..end], vocabulary);
            }
            start = end;
        }
        out
    }

    /// Describes an example of a row: its place, its ids, its pieces and its text.
    fn segment(
        &self,
        number: i32,
        start: usize,
        ids: &[i32],
        vocabulary: Option<&Arc<dyn Vocabulary>>,
    ) -> String {
        let (limit, end) = (self.args.limit, start + ids.len());
        let color = Color::Cycle(number as usize);
        let place = self.paint.text(color, &format!("[{number}]"));
        let mut out = format!("    {place} {start}..{end} ids: {}\n", some(ids.iter(), limit));
        if let Some(vocabulary) = vocabulary {
            let pieces: Vec<String> = ids.iter().map(|id| vocabulary.piece(*id)).collect();
            let (pieces, text) =
                (some(pieces.iter(), limit), quoted(&vocabulary.decode(ids), limit));
            out += &format!("        pieces: {pieces}\n        text:   {text}\n");
        }
        out
    }

    /// Draws the row as one line: the number of the example at each place, and dots for padding. A
    /// character of a long row stands for several places.
    fn picture(&self, segments: &[i32]) -> String {
        let each = segments.len().div_ceil(WIDTH).max(1);
        let digit = |segment: i32| match segment {
            0 => ".".to_string(),
            segment => {
                let digit = char::from_digit(segment as u32 % 36, 36).unwrap_or('#');
                self.paint.text(Color::Cycle(segment as usize), &digit.to_string())
            }
        };
        segments.iter().step_by(each).map(|segment| digit(*segment)).collect()
    }

    fn label(&self, name: &str) -> String {
        self.paint.text(Color::Dim, &label(name))
    }
}

/// Returns the number of the example at each place of a row, 0 for padding; without packing there
/// is one.
fn segments_of(batch: &Batch, name: &str, row: usize, ids: &[i32]) -> Vec<i32> {
    if batch.feature(name).is_some()
        && let Some(segments) = batch.rows_of(name).nth(row)
    {
        return segments.to_vec();
    }
    let full = ids.iter().rposition(|id| *id != 0).map_or(0, |last| last + 1);
    (0..ids.len()).map(|place| i32::from(place < full)).collect()
}
