//! `gimlet task stream`: the batches of a task or mixture on standard output, for programs.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, BufWriter, ErrorKind, Write};
use std::path::PathBuf;

use anyhow::anyhow;
use clap::{Args, ValueEnum};

use crate::checkpoint::{DType, safetensors_header};
use crate::data::{
    Batch, BatchValues, ConverterClass, DataError, DatasetConfig, DatasetOptions, DatasetState,
    DecoderFeatureConverter, EncDecFeatureConverter, LMFeatureConverter,
    PassThroughFeatureConverter, PrefixLMFeatureConverter, TaskProvider, get_dataset,
};
use crate::run::failure::Failure;
use crate::run::output::refuse_terminal;
use crate::telemetry::notice_once;

use super::args::{TaskFileArgs, check_lengths, failure, parse_length};

/// The name of the position among the metadata of a batch.
const STATE: &str = "state";

/// Flags of `gimlet task stream`.
#[derive(Args, Debug)]
#[command(
    after_help = "Each batch is the number of its bytes, in eight bytes with the lowest first, and a file of safetensors with \
    the model's features, [rows, length], as int32 or float32. Its metadata `state` is the position after it, for --resume. \
    The Python package `gimlet` reads it: gimlet.get_dataset."
)]
pub struct StreamArgs {
    /// The task or mixture.
    #[arg(value_name = "NAME")]
    name: String,
    /// The split.
    #[arg(long, default_value = "train")]
    split: String,
    /// Feature lengths, as TASK_FEATURE_LENGTHS of a run; those of the longest examples by default.
    #[arg(
        long = "task_feature_lengths",
        value_name = "FEATURE=LENGTH,...",
        value_delimiter = ',',
        value_parser = parse_length
    )]
    lengths: Vec<(String, usize)>,
    /// Rows of a batch over all shards.
    #[arg(long = "batch_size", value_name = "N")]
    batch_size: usize,
    /// The model's features: those of SeqIO's converter of this name.
    #[arg(long = "feature_converter", value_name = "CLASS", value_enum, default_value_t)]
    converter: Converter,
    /// Keep files and examples in their order.
    #[arg(long = "no_shuffle")]
    no_shuffle: bool,
    /// Passes over the data; without end by default.
    #[arg(long = "num_epochs", value_name = "N")]
    num_epochs: Option<u64>,
    /// Seed of shuffling and random preprocessors; one from the clock by default.
    #[arg(long)]
    seed: Option<u64>,
    /// Pack several examples into a row.
    #[arg(long)]
    pack: bool,
    /// Leave examples that are longer than the lengths an error.
    #[arg(long = "no_trim")]
    no_trim: bool,
    /// Write a last batch of fewer rows too.
    #[arg(long = "keep_remainder")]
    keep_remainder: bool,
    /// Parts into which the rows of a batch are divided.
    #[arg(long = "num_shards", value_name = "N", default_value_t = 1)]
    num_shards: usize,
    /// The part to write, from 0.
    #[arg(long = "shard_index", value_name = "N", default_value_t = 0)]
    shard_index: usize,
    /// A file with the `state` of the batch to go on after.
    #[arg(long, value_name = "FILE")]
    resume: Option<PathBuf>,
    /// Read tasks with a cache step from their caches, as USE_CACHED_TASKS of a run; the caches are looked
    /// for in --seqio_additional_cache_dirs.
    #[arg(long = "use_cached")]
    use_cached: bool,
    #[command(flatten)]
    files: TaskFileArgs,
}

/// The converters that need no parameters.
#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum Converter {
    /// Encoder and decoder, as T5.
    #[default]
    #[value(name = "EncDecFeatureConverter")]
    EncDec,
    /// A decoder on targets.
    #[value(name = "LMFeatureConverter")]
    Lm,
    /// A decoder on inputs and targets.
    #[value(name = "PrefixLMFeatureConverter")]
    PrefixLm,
    /// One of the two decoders, by the features of the task.
    #[value(name = "DecoderFeatureConverter")]
    Decoder,
    /// The task's own features.
    #[value(name = "PassThroughFeatureConverter")]
    PassThrough,
}

impl Converter {
    fn class(self) -> ConverterClass {
        let loss_on_targets_only = true;
        match self {
            Self::EncDec => EncDecFeatureConverter {}.into(),
            Self::Lm => LMFeatureConverter {}.into(),
            Self::PrefixLm => {
                PrefixLMFeatureConverter { loss_on_targets_only, pack_before_joining: false }.into()
            }
            Self::Decoder => DecoderFeatureConverter { loss_on_targets_only }.into(),
            Self::PassThrough => PassThroughFeatureConverter {}.into(),
        }
    }
}

/// Writes batches until the data or their reader end.
pub(super) fn run(args: &StreamArgs, color: bool) -> Result<(), Failure> {
    refuse_terminal("the batches are numbers for a program")?;
    args.check_seed()?;
    let tasks = args.files.load(color)?;
    check_lengths(&args.lengths, &args.files.tasks_of(&args.name, &tasks)?)?;
    let options = DatasetOptions {
        shard_index: args.shard_index,
        num_shards: args.num_shards,
        num_epochs: args.num_epochs,
        converter: args.converter.class(),
        drop_remainder: !args.keep_remainder,
        resume: args.resumed()?,
        ..DatasetOptions::default()
    };
    let placed = |error| match error {
        DataError::State { reason } => Failure::usage(anyhow!(
            "--resume does not fit: {reason}; give the same flags as for the batch that it is from"
        )),
        error => failure(tasks.placed(&args.name, error)),
    };
    let mut batches = get_dataset(&args.config(), &tasks, options).map_err(placed)?;
    batches.notices().iter().for_each(|text| notice_once(text));
    let mut out = BufWriter::with_capacity(1 << 20, io::stdout());
    while let Some(batch) = batches.next_batch().map_err(failure)? {
        let state = serde_json::to_string(&batches.state()).map_err(Failure::world)?;
        match write(&batch, &state, &mut out) {
            // The reader has enough.
            Err(error) if error.kind() == ErrorKind::BrokenPipe => return Ok(()),
            written => written.map_err(Failure::world)?,
        }
    }
    Ok(())
}

impl StreamArgs {
    fn config(&self) -> DatasetConfig {
        let lengths: BTreeMap<String, usize> = self.lengths.iter().cloned().collect();
        DatasetConfig {
            mixture_or_task_name: self.name.clone(),
            module: None,
            task_feature_lengths: Some(lengths).filter(|lengths| !lengths.is_empty()),
            split: self.split.clone(),
            batch_size: self.batch_size,
            shuffle: !self.no_shuffle,
            seed: self.seed,
            use_cached: self.use_cached,
            pack: self.pack,
            use_custom_packing_ops: false,
            use_memory_cache: false,
            trim_output_features: !self.no_trim,
            ensure_eos: false,
            ends_batch_with_pass: false,
            file_parts: None,
            num_prefetch_threads: None,
        }
    }

    /// Refuses parts that each are shuffled with a seed of their own, and so would overlap.
    fn check_seed(&self) -> Result<(), Failure> {
        let has_one = self.seed.is_some() || self.resume.is_some() || self.no_shuffle;
        match self.num_shards > 1 && !has_one {
            true => Err(Failure::usage(anyhow!(
                "--num_shards={} is given without --seed, so that each part would be shuffled with another one and parts would \
                 overlap; give all of them the same --seed, or --no_shuffle",
                self.num_shards
            ))),
            false => Ok(()),
        }
    }

    fn resumed(&self) -> Result<Option<DatasetState>, Failure> {
        let Some(file) = &self.resume else { return Ok(None) };
        let shown = file.display();
        let text = fs::read_to_string(file)
            .map_err(|error| Failure::usage(anyhow!("--resume={shown}: {error}")))?;
        let state = serde_json::from_str(&text);
        state.map(Some).map_err(|error| {
            Failure::usage(anyhow!(
                "--resume={shown} does not hold the `state` of a batch of `gimlet task stream`: {error}"
            ))
        })
    }
}

/// Writes one batch and the state after it.
fn write(batch: &Batch, state: &str, out: &mut impl Write) -> io::Result<()> {
    let tensors = batch.features.iter().map(|feature| {
        let dtype = match feature.values {
            BatchValues::Ints(_) => DType::I32,
            BatchValues::Floats(_) => DType::F32,
        };
        (feature.name.to_string(), dtype, vec![batch.rows, feature.length])
    });
    let header = safetensors_header(tensors, &[(STATE, state)]);
    let numbers: usize = batch.features.iter().map(|feature| batch.rows * feature.length).sum();
    // Both types take four bytes.
    out.write_all(&((header.len() + 4 * numbers) as u64).to_le_bytes())?;
    out.write_all(&header)?;
    for feature in &batch.features {
        let bytes: Vec<[u8; 4]> = match &feature.values {
            BatchValues::Ints(values) => values.iter().map(|it| it.to_le_bytes()).collect(),
            BatchValues::Floats(values) => values.iter().map(|it| it.to_le_bytes()).collect(),
        };
        out.write_all(bytes.as_flattened())?;
    }
    out.flush()
}
