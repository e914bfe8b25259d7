//! `gimlet task show`: prints examples after each step of a task's pipeline.

use std::collections::BTreeMap;
use std::sync::Arc;

use clap::Args;

use crate::data::{
    Batch, Caches, ConverterClass, DataError, DatasetConfig, DatasetOptions,
    EncDecFeatureConverter, Example, ExampleOptions, LMFeatureConverter, Task, TaskProvider, Value,
    cache_step, examples_after, get_dataset, task_examples,
};
use crate::run::failure::Failure;
use crate::run::output::{Color, ColorChoice, Paint, quoted, write};
use crate::telemetry::counted;
use crate::vocab::Vocabulary;

use super::args::{TaskFileArgs, check_lengths, failure, parse_length};

/// Flags of `gimlet task show`.
#[derive(Args, Debug)]
pub struct ShowArgs {
    /// The task, or a mixture, whose tasks are shown in turn.
    #[arg(value_name = "NAME")]
    name: String,
    /// The split.
    #[arg(long, default_value = "train")]
    split: String,
    /// Examples of each step.
    #[arg(long = "num_examples", value_name = "N", default_value_t = 2)]
    num_examples: usize,
    /// Feature lengths, as TASK_FEATURE_LENGTHS of a run, targets=114 by default; 512 for features that are not
    /// named.
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
    /// Maximum number of characters, and ids, of a feature to print.
    #[arg(long, value_name = "N", default_value_t = 400)]
    limit: usize,
    /// Read tasks with a cache step from their caches, as USE_CACHED_TASKS of a run; the caches are looked
    /// for in --seqio_additional_cache_dirs.
    #[arg(long = "use_cached")]
    use_cached: bool,
    #[command(flatten)]
    files: TaskFileArgs,
    /// When to print in colour.
    #[arg(long, value_enum, default_value_t)]
    color: ColorChoice,
}

/// Prints each step of each task.
pub(super) fn run(args: &ShowArgs, color: bool) -> Result<(), Failure> {
    let tasks = args.files.load(color)?;
    let paint = Paint::new(args.color);
    let found = args.files.tasks_of(&args.name, &tasks)?;
    check_lengths(&args.lengths, &found)?;
    for task in found {
        let caches = args.use_cached.then(|| tasks.caches());
        let shown = Shown::new(args, &task, paint, caches).map_err(failure)?;
        shown.steps()?;
        shown.output()?;
        shown.rows(&tasks)?;
    }
    Ok(())
}

struct Shown<'a> {
    args: &'a ShowArgs,
    task: &'a Task,
    paint: Paint,
    vocabularies: BTreeMap<String, Arc<dyn Vocabulary>>,
    options: ExampleOptions,
}

impl<'a> Shown<'a> {
    fn new(
        args: &'a ShowArgs,
        task: &'a Task,
        paint: Paint,
        cache: Option<Caches>,
    ) -> Result<Self, DataError> {
        let features = task.output_features.iter();
        let vocabularies = features
            .map(|(name, feature)| Ok((name.clone(), feature.vocabulary.build()?)))
            .collect::<Result<_, DataError>>()?;
        let given: BTreeMap<&str, usize> = match &args.lengths[..] {
            [] => BTreeMap::from([("targets", 114)]),
            given => given.iter().map(|(name, length)| (name.as_str(), *length)).collect(),
        };
        let length = |name: &String| (name.clone(), given.get(&name[..]).copied().unwrap_or(512));
        let options = ExampleOptions {
            split: args.split.clone(),
            lengths: Some(task.output_features.keys().map(length).collect()),
            seed: args.seed,
            cache,
            ..ExampleOptions::default()
        };
        Ok(Self { args, task, paint, vocabularies, options })
    }

    fn heading(&self, text: &str) -> Result<(), Failure> {
        let line = format!("{}: {text}", self.task.task_name());
        write(&format!("{}\n", self.paint.text(Color::Bold, &line)))
    }

    /// Prints the source's records, or the records of the cache, and the output of each
    /// preprocessor.
    fn steps(&self) -> Result<(), Failure> {
        let cached = self.num_cached().map_err(failure)?;
        let names = self.task.preprocessors.iter().map(|preprocessor| preprocessor.name());
        let names = std::iter::once("source").chain(names);
        for (count, name) in names.enumerate().skip(cached) {
            self.heading(&match count {
                count if count == cached && cached > 0 => {
                    format!("cache, split '{}'", self.args.split)
                }
                0 => format!("source, split '{}'", self.args.split),
                count => format!("after {count}. {name}"),
            })?;
            let examples = examples_after(self.task, &self.options, count).map_err(failure)?;
            self.examples(examples)?;
        }
        Ok(())
    }

    /// Returns the number of preprocessors up to the cache step; 0 without a cache.
    fn num_cached(&self) -> Result<usize, DataError> {
        Ok(match self.options.cache {
            Some(_) => cache_step(self.task)?.map_or(0, |step| step.index + 1),
            None => 0,
        })
    }

    /// Prints the input of a feature converter: the output features, trimmed.
    fn output(&self) -> Result<(), Failure> {
        let lengths = self.options.lengths.iter().flatten();
        let lengths: Vec<String> =
            lengths.map(|(name, length)| format!("{name} {length}")).collect();
        self.heading(&format!("output features, trimmed to {}", lengths.join(", ")))?;
        self.examples(task_examples(self.task, &self.options).map_err(failure)?)
    }

    fn examples(
        &self,
        examples: impl Iterator<Item = Result<Example, DataError>>,
    ) -> Result<(), Failure> {
        for example in examples.take(self.args.num_examples) {
            let example = example.map_err(failure)?;
            write(
                &example.iter().map(|(key, value)| self.feature(key, value)).collect::<String>(),
            )?;
            write("\n")?;
        }
        Ok(())
    }

    /// Returns a feature's lines: its value, and for token ids their pieces and their text.
    fn feature(&self, key: &str, value: &Value) -> String {
        let limit = self.args.limit;
        let key = key.to_string();
        let shown = match value {
            Value::Text(text) => quoted(text, limit),
            Value::Ints(ids) => self.ids(&key, ids),
            Value::IntRows(rows) => {
                let rows: Vec<String> = rows.iter().map(|ids| self.ids(&key, ids)).collect();
                rows.join(&format!("\n{}", self.name("")))
            }
            Value::Lists(lists) => {
                let lines = lists.iter().map(|list| self.feature("", list));
                lines.collect::<String>().trim().replace('\n', &format!("\n{}", self.name("")))
            }
            Value::FloatRows(rows) => {
                let row = |row: &Vec<f64>| format!("[{}]", some(row.iter(), limit));
                format!("[{}]", some(rows.iter().map(row), limit))
            }
            Value::Texts(texts) => {
                format!("[{}]", some(texts.iter().map(|t| quoted(t, limit)), limit))
            }
            Value::Longs(numbers) => format!("[{}]", some(numbers.iter(), limit)),
            Value::Floats(numbers) => format!("[{}]", some(numbers.iter(), limit)),
            Value::Int(number) => number.to_string(),
            Value::Float(number) => number.to_string(),
        };
        format!("{}{shown}\n", self.name(&key))
    }

    fn name(&self, name: &str) -> String {
        self.paint.text(Color::Dim, &label(name))
    }

    /// Token ids, their pieces and their text.
    fn ids(&self, key: &str, ids: &[i32]) -> String {
        let limit = self.args.limit;
        let mut shown = format!("{}: {}", counted(ids.len(), "id"), some(ids.iter(), limit));
        if let Some(vocabulary) = self.vocabularies.get(key) {
            let pieces = self.pieces(&**vocabulary, ids, None);
            let text = quoted(&vocabulary.decode(ids), limit);
            let (first, second) = (self.name("pieces"), self.name("text"));
            shown.push_str(&format!("\n{first}{pieces}\n{second}{text}"));
        }
        shown
    }

    /// Returns pieces in alternating colours; with segments, each example of a row in its own
    /// colour, with numbers if there are no colours.
    fn pieces(&self, vocabulary: &dyn Vocabulary, ids: &[i32], segments: Option<&[i32]>) -> String {
        let mut out = Vec::new();
        let mut last = 0;
        for (i, &id) in ids.iter().enumerate().take(self.args.limit) {
            let piece = vocabulary.piece(id);
            let segment = segments.map_or(0, |segments| segments[i]);
            if segment != last && !self.paint.is_on() {
                out.push(format!("[{segment}]"));
            }
            last = segment;
            let number = if segments.is_some() { segment as usize } else { i };
            out.push(self.paint.text(Color::Cycle(number), &piece));
        }
        if ids.len() > self.args.limit {
            out.push(format!("... and {} more", ids.len() - self.args.limit));
        }
        out.join(" ")
    }

    /// Prints one packed row, from the converter of the task's usual model.
    fn rows(&self, tasks: &dyn TaskProvider) -> Result<(), Failure> {
        let names: Vec<&str> = self.task.output_features.keys().map(String::as_str).collect();
        let converter = match names[..] {
            ["inputs", "targets"] => {
                ConverterClass::EncDecFeatureConverter(EncDecFeatureConverter {})
            }
            ["targets"] => ConverterClass::LMFeatureConverter(LMFeatureConverter {}),
            _ => return Ok(()),
        };
        let config = DatasetConfig {
            mixture_or_task_name: self.task.task_name().to_string(),
            module: None,
            task_feature_lengths: self.options.lengths.clone(),
            split: self.args.split.clone(),
            batch_size: 1,
            shuffle: false,
            seed: Some(self.args.seed),
            use_cached: self.args.use_cached,
            pack: true,
            use_custom_packing_ops: false,
            use_memory_cache: false,
            trim_output_features: true,
            ensure_eos: false,
            ends_batch_with_pass: false,
            file_parts: None,
            num_prefetch_threads: Some(0),
        };
        let options =
            DatasetOptions { converter, num_epochs: Some(1), ..DatasetOptions::default() };
        let mut batches = get_dataset(&config, tasks, options).map_err(failure)?;
        let Some(batch) = batches.next_batch().map_err(failure)? else { return Ok(()) };
        self.heading("the first packed row")?;
        for (side, feature) in [("encoder", "inputs"), ("decoder", "targets")] {
            write(&self.side(&batch, side, feature))?;
        }
        write("\n")
    }

    /// The tokens of one side of a packed row, up to its padding.
    fn side(&self, batch: &Batch, side: &str, feature: &str) -> String {
        let tokens = match side {
            "encoder" => "encoder_input_tokens",
            _ => "decoder_target_tokens",
        };
        let segments = format!("{side}_segment_ids");
        let (Some(shown), Some(_)) = (batch.feature(tokens), batch.feature(&segments)) else {
            return String::new();
        };
        let (ids, segments) = (batch.ints(tokens), batch.ints(&segments));
        let full = segments.iter().filter(|&&segment| segment != 0).count();
        let count = segments.iter().max().copied().unwrap_or(0);
        let name = self.paint.text(Color::Dim, &label(tokens));
        let examples = if count == 1 { "example" } else { "examples" };
        let about = format!("{count} {examples}, {full} of {} tokens", shown.length);
        let pieces = match self.vocabularies.get(feature) {
            Some(vocabulary) => self.pieces(&**vocabulary, &ids[..full], Some(&segments[..full])),
            None => some(ids[..full].iter(), self.args.limit),
        };
        format!("{name}{about}\n  {pieces}\n")
    }
}

/// Formats the name of a line, with a width for the usual names.
pub(super) fn label(name: &str) -> String {
    format!("  {name:<21} ")
}

/// Joins values with spaces, at most `limit` of them.
pub(super) fn some<T: ToString>(values: impl ExactSizeIterator<Item = T>, limit: usize) -> String {
    let more = values.len().saturating_sub(limit);
    let mut shown: Vec<String> = values.take(limit).map(|value| value.to_string()).collect();
    if more > 0 {
        shown.push(format!("... and {more} more"));
    }
    shown.join(" ")
}
