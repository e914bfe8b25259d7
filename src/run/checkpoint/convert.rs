//! `gimlet checkpoint convert`: a checkpoint, or each of a folder, in another format or type.

use anyhow::anyhow;
use clap::{Args, ValueEnum};

use crate::checkpoint::{
    CheckpointError, Condition, DType, Format, HuggingFaceOptions, Listed, Stored, Weights,
    checkpoint_dir, export_hugging_face, export_t5x, export_torch, is_unfinished, list, open,
    step_of,
};
use crate::run::failure::Failure;
use crate::storage::{Path, StorageError};
use crate::telemetry::notice;

use super::metered::Metered;
use super::{Meter, failure, open_at, parse_path, size, storage_failure};

/// Names of files that `torch.save` writes.
const TORCH_ENDINGS: [&str; 3] = [".pth", ".pt", ".bin"];

/// Flags of `gimlet checkpoint convert`.
#[derive(Args, Debug)]
#[command(
    after_help = "Of a folder of checkpoints, each becomes TO/checkpoint_N; those that are there \
    are left. A killed\nconversion goes on where it was. Formats are recognized when they are \
    read.\nExample: gimlet checkpoint convert gs://my-bucket/ro_t5x_base ro_t5x_base_pt --to torch \
    --vocabulary ro.model"
)]
pub struct ConvertArgs {
    /// A checkpoint of any format, or a folder of checkpoints.
    #[arg(value_name = "FROM")]
    from: String,
    /// What to write. For t5x, a folder of checkpoints or its new `checkpoint_N`; for the others, a
    /// folder with `config.json` and weights, or for torch one file `.pth`, `.pt` or `.bin`.
    #[arg(value_name = "TO")]
    to: String,
    /// The format to write; by default torch where TO is named like its files, else t5x.
    #[arg(long = "to", value_enum)]
    format: Option<TargetFormat>,
    /// Type that parameters are rounded to; by default each keeps its own.
    #[arg(long, value_enum)]
    dtype: Option<FloatType>,
    #[command(flatten)]
    model: ModelArgs,
}

/// What a checkpoint does not say of a model of transformers.
#[derive(Args, Debug)]
pub struct ModelArgs {
    /// SentencePiece model, written beside the weights with the tokenizer's files.
    #[arg(long, value_name = "SPM")]
    vocabulary: Option<String>,
    /// Sentinel tokens behind the vocabulary's own pieces; by default 100, none where those hold them,
    /// and 125 for ByT5.
    #[arg(long = "extra_ids", value_name = "N")]
    extra_ids: Option<usize>,
    /// Attention heads; by default those of the bias of relative positions.
    #[arg(long = "num_heads", value_name = "N")]
    num_heads: Option<usize>,
    /// Model of transformers; by default what the arrays look like.
    #[arg(long = "model_type", value_parser = ["t5", "mt5", "umt5", "longt5"])]
    model_type: Option<String>,
    /// LongT5's window on either side; by default 127.
    #[arg(long = "local_radius", value_name = "N")]
    local_radius: Option<usize>,
    /// Tokens that LongT5 sums up in a global one; by default 16.
    #[arg(long = "global_block_size", value_name = "N")]
    global_block_size: Option<usize>,
}

/// A format that can be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
pub enum TargetFormat {
    /// T5X's own: what `gimlet train` and T5X restore.
    T5x,
    /// Hugging Face's: config.json and model.safetensors.
    HuggingFace,
    /// PyTorch's, with Hugging Face's names: config.json and pytorch_model.bin, or one file.
    Torch,
    /// Flax's, with Hugging Face's names: config.json and flax_model.msgpack.
    Flax,
}

impl ConvertArgs {
    fn format(&self) -> TargetFormat {
        self.format.unwrap_or(match is_torch_file(&self.to) {
            true => TargetFormat::Torch,
            false => TargetFormat::T5x,
        })
    }

    /// Whether TO is one file and no folder.
    fn is_file(&self) -> bool {
        self.format() == TargetFormat::Torch && is_torch_file(&self.to)
    }

    fn dtype(&self) -> Option<DType> {
        self.dtype.map(FloatType::dtype)
    }

    fn options(&self, weights: Weights) -> Result<HuggingFaceOptions, Failure> {
        Ok(HuggingFaceOptions {
            weights,
            dtype: self.dtype(),
            vocabulary: self.model.vocabulary.as_deref().map(parse_path).transpose()?,
            extra_ids: self.model.extra_ids,
            num_heads: self.model.num_heads,
            model_type: self.model.model_type.clone(),
            local_radius: self.model.local_radius,
            global_block_size: self.model.global_block_size,
        })
    }
}

impl TargetFormat {
    /// The file of weights of a folder; `None` for T5X's format.
    fn weights(self) -> Option<Weights> {
        match self {
            Self::T5x => None,
            Self::HuggingFace => Some(Weights::Safetensors),
            Self::Torch => Some(Weights::Torch),
            Self::Flax => Some(Weights::Flax),
        }
    }
}

/// A type of parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum FloatType {
    /// 4 bytes.
    Float32,
    /// 2 bytes, with the range of float32.
    Bfloat16,
    /// 2 bytes, up to 65504.
    Float16,
}

impl FloatType {
    fn dtype(self) -> DType {
        match self {
            Self::Float32 => DType::F32,
            Self::Bfloat16 => DType::Bf16,
            Self::Float16 => DType::F16,
        }
    }
}

pub(super) fn run(args: &ConvertArgs) -> Result<(), Failure> {
    let (from, to) = (parse_path(&args.from)?, parse_path(&args.to)?);
    refuse_inside(&from, &to)?;
    if is_torch_file(&args.to) && !args.is_file() {
        return Err(Failure::usage(anyhow!(
            "TO `{to}` is named like a file of PyTorch, and --to is another format; expected --to \
             torch, or the name of a folder"
        )));
    }
    let has_no_tokenizer = args.format() == TargetFormat::T5x || args.is_file();
    if args.model.vocabulary.is_some() && has_no_tokenizer {
        return Err(Failure::usage(anyhow!(
            "--vocabulary goes beside weights: expected --to hugging_face, torch or flax, and a folder TO"
        )));
    }
    match checkpoints_in(&from)? {
        None => convert_one(args, &to),
        Some(_) if args.is_file() => Err(Failure::usage(anyhow!(
            "`{from}` is a folder of checkpoints, and TO `{to}` one file; expected a folder TO, or one \
             checkpoint of `gimlet checkpoint ls {from}`"
        ))),
        Some(all) => convert_all(args, &all, &to),
    }
}

fn is_torch_file(to: &str) -> bool {
    TORCH_ENDINGS.iter().any(|ending| to.ends_with(ending))
}

/// What a folder of checkpoints holds; `None` for what is a checkpoint itself.
fn checkpoints_in(from: &Path) -> Result<Option<Vec<Listed>>, Failure> {
    let found = list(from).map_err(failure)?;
    let is_itself = found.iter().any(|one| one.path == *from);
    Ok((!found.is_empty() && !is_itself).then_some(found))
}

/// Writing into what is read would mix both.
fn refuse_inside(from: &Path, to: &Path) -> Result<(), Failure> {
    let [from, to] = [from, to].map(|path| {
        let real = path.local().ok().and_then(|local| std::path::absolute(local).ok());
        real.map_or_else(|| path.to_string(), |local| local.display().to_string())
    });
    let (from, to) = (from.trim_end_matches('/'), to.trim_end_matches('/'));
    if to.strip_prefix(from).is_some_and(|rest| rest.is_empty() || rest.starts_with('/')) {
        return Err(Failure::usage(anyhow!(
            "TO `{to}` lies in FROM `{from}`; expected a place outside of what is read"
        )));
    }
    Ok(())
}

fn convert_one(args: &ConvertArgs, to: &Path) -> Result<(), Failure> {
    let stored = open_at(&args.from)?;
    let target = match args.format() {
        TargetFormat::T5x => target(&*stored, to)?,
        _ => to.clone(),
    };
    let file = match args.format().weights() {
        Some(weights) if !args.is_file() => target.join(weights.file_name()),
        _ => target.clone(),
    };
    let is_there = file.exists().map_err(storage_failure)?;
    // In a bucket what is half-written has its name already.
    if is_there && !is_unfinished(&file).map_err(failure)? {
        return Err(Failure::usage(anyhow!("`{file}` exists; remove it, or name another TO")));
    }
    Ok(convert(args, &*stored, &target)?)
}

/// Where a single checkpoint goes.
fn target(stored: &dyn Stored, to: &Path) -> Result<Path, Failure> {
    let step = stored.step().map_err(failure)?;
    match step_of(to) {
        // Formats without a step take that of the name.
        Some(named) if named == step || step == 0 => Ok(to.clone()),
        Some(named) => Err(Failure::usage(anyhow!(
            "TO is named checkpoint_{named}, but `{}` is of step {step}; expected a folder, or the \
             name checkpoint_{step}",
            stored.path()
        ))),
        None => Ok(checkpoint_dir(to, step)),
    }
}

fn convert_all(args: &ConvertArgs, all: &[Listed], to: &Path) -> Result<(), Failure> {
    let mut num_left_out = 0;
    for one in all {
        let left_out = match (&one.condition, one.step) {
            (Condition::Whole, Some(step)) => {
                match convert_listed(args, one, &checkpoint_dir(to, step)) {
                    Ok(()) => continue,
                    // The others are whole for all that is known.
                    Err(Stop::Damaged(error)) => Condition::Damaged(reason(error)),
                    Err(Stop::Failed(failure)) => return Err(failure),
                }
            }
            (condition, _) => condition.clone(),
        };
        num_left_out += usize::from(left_out != Condition::HalfWritten);
        notice(&format!("{}: left out, it is {}", one.path, why(&left_out)));
    }
    match num_left_out {
        0 => Ok(()),
        count => Err(Failure::world(anyhow!(
            "{count} of {} checkpoints were left out; see `gimlet checkpoint verify {}`",
            all.len(),
            args.from
        ))),
    }
}

/// Converts one of a folder, unless that was done before.
fn convert_listed(args: &ConvertArgs, one: &Listed, target: &Path) -> Result<(), Stop> {
    if is_there(args, target)? {
        notice(&format!("{target}: left as it is, it is there already"));
        return Ok(());
    }
    match open(&one.path) {
        Err(CheckpointError::Storage(error)) if error.is_not_found() => {
            notice(&format!("{}: left out, it was deleted meanwhile", one.path));
            Ok(())
        }
        stored => convert(args, &*stored?, target),
    }
}

/// Why a checkpoint was not converted.
enum Stop {
    /// It is damaged; others may not be.
    Damaged(CheckpointError),
    /// Anything else.
    Failed(Failure),
}

impl From<CheckpointError> for Stop {
    fn from(error: CheckpointError) -> Self {
        if error.is_damage() { Self::Damaged(error) } else { Self::Failed(failure(error)) }
    }
}

impl From<StorageError> for Stop {
    fn from(error: StorageError) -> Self {
        Self::Failed(storage_failure(error))
    }
}

impl From<Failure> for Stop {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

impl From<Stop> for Failure {
    fn from(stop: Stop) -> Self {
        match stop {
            Stop::Damaged(error) => failure(error),
            Stop::Failed(failure) => failure,
        }
    }
}

/// What is wrong with it, without its name.
fn reason(error: CheckpointError) -> String {
    match error {
        CheckpointError::Damaged { reason, .. } => reason,
        other => other.to_string(),
    }
}

fn why(condition: &Condition) -> String {
    match condition {
        Condition::Whole => "of no step".to_string(),
        Condition::HalfWritten => "half-written".to_string(),
        Condition::Damaged(reason) => format!("damaged: {reason}"),
        Condition::Unreadable(reason) => format!("not readable: {reason}"),
    }
}

/// Whether an earlier conversion has written this target; what is damaged is written anew.
///
/// # Errors
/// The target is a checkpoint of another format.
fn is_there(args: &ConvertArgs, target: &Path) -> Result<bool, Failure> {
    let holds = |file: &str| target.join(file).exists().map_err(storage_failure);
    let weights = args.format().weights();
    if let Some(weights) = weights
        && holds(weights.file_name())?
    {
        return Ok(true);
    }
    if !target.exists().map_err(storage_failure)? {
        return Ok(false);
    }
    let expected = if weights.is_some() { Format::HuggingFace } else { Format::T5x };
    let found = list(target).map_err(failure)?.into_iter().next();
    if found.as_ref().and_then(|one| one.format).is_some_and(|format| format != expected) {
        return Err(Failure::usage(anyhow!(
            "`{target}` is a checkpoint of another format; remove it, or name another TO"
        )));
    }
    Ok(weights.is_none() && found.is_some_and(|one| one.condition == Condition::Whole))
}

fn convert(args: &ConvertArgs, stored: &dyn Stored, target: &Path) -> Result<(), Stop> {
    refuse_damage(stored)?;
    let from = Metered::new(stored, target);
    match args.format().weights() {
        None => {
            let model_dir = target.parent().expect("`checkpoint_N` lies in a folder");
            let step = step_of(target).expect("the target is named `checkpoint_N`");
            export_t5x(&from, (&model_dir, step), args.dtype())?;
        }
        Some(weights) => {
            let options = args.options(weights)?;
            match args.is_file() {
                true => export_torch(&from, target, &options)?,
                false => export_hugging_face(&from, target, &options)?,
            }
        }
    }
    let bytes = if target.is_dir()? { target.sizes()?.values().sum() } else { target.size()? };
    notice(&format!("{target}: {}, from {} `{}`", size(bytes), stored.format(), stored.path()));
    Ok(())
}

/// Damage that reading would not notice must not get checksums that call it whole.
fn refuse_damage(stored: &dyn Stored) -> Result<(), CheckpointError> {
    if !stored.has_checksums() {
        return Ok(());
    }
    let mut meter = Meter::new(&format!("verifying {}", stored.path()), None);
    let damages = stored.damages(&mut |bytes| meter.add(bytes))?;
    damages.into_iter().next().map_or(Ok(()), Err)
}
