//! `gimlet checkpoint convert`: a checkpoint, or each of a folder, in another format or type.

use std::sync::Mutex;

use anyhow::anyhow;
use clap::{Args, ValueEnum};

use crate::checkpoint::{
    Condition, Conversion, DType, Format, Listed, Stored, checkpoint_dir, list, step_of, to_t5x,
};
use crate::run::failure::Failure;
use crate::storage::Path;
use crate::telemetry::notice;

use super::{Meter, array_bytes, failure, open_at, parse_path, size, storage_failure};

/// Where Gimlet's checkpoints keep the checksums of their files.
const CHECKSUMS_FILE: &str = "gimlet/checksums.json";

/// Flags of `gimlet checkpoint convert`.
#[derive(Args, Debug)]
#[command(
    after_help = "Of a folder of checkpoints, each becomes TO/checkpoint_N; those that are there \
    are left out, so that a\nkilled conversion goes on where it was. Formats are recognized when they are \
    read."
)]
pub struct ConvertArgs {
    /// A checkpoint of any format, or a folder of checkpoints.
    #[arg(value_name = "FROM")]
    from: String,
    /// What to write. For t5x, a folder of checkpoints or its new `checkpoint_N`.
    #[arg(value_name = "TO")]
    to: String,
    /// The format to write.
    #[arg(long = "to", value_enum, default_value_t)]
    format: TargetFormat,
    /// Type that parameters are rounded to; by default each keeps its own.
    #[arg(long, value_enum)]
    dtype: Option<FloatType>,
}

/// A format that can be written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
pub enum TargetFormat {
    /// T5X's own: what `gimlet train` and T5X restore.
    #[default]
    T5x,
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
    match checkpoints_in(&from)? {
        None => convert_one(args, &to),
        Some(all) => convert_all(args, &all, &to),
    }
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
    let target = target(&*stored, to)?;
    if target.exists().map_err(storage_failure)? {
        return Err(Failure::usage(anyhow!("`{target}` exists; remove it, or name another TO")));
    }
    convert(args, &*stored, &target)
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
        let step = match (&one.condition, one.step) {
            (Condition::Whole, Some(step)) => step,
            (condition, _) => {
                num_left_out += usize::from(*condition != Condition::HalfWritten);
                notice(&format!("{}: left out, it is {}", one.path, why(condition)));
                continue;
            }
        };
        let target = checkpoint_dir(to, step);
        if is_there(args, &target)? {
            notice(&format!("{target}: left as it is, it is there already"));
            continue;
        }
        convert(args, &*open_at(one.path.as_str())?, &target)?;
    }
    match num_left_out {
        0 => Ok(()),
        count => Err(Failure::world(anyhow!(
            "{count} of {} checkpoints were left out; see `gimlet checkpoint ls {}`",
            all.len(),
            args.from
        ))),
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
fn is_there(_args: &ConvertArgs, target: &Path) -> Result<bool, Failure> {
    if !target.exists().map_err(storage_failure)? {
        return Ok(false);
    }
    let found = list(target).map_err(failure)?;
    Ok(found.iter().any(|one| one.condition == Condition::Whole && one.format == Some(Format::T5x)))
}

fn convert(args: &ConvertArgs, stored: &dyn Stored, target: &Path) -> Result<(), Failure> {
    refuse_damage(stored)?;
    let total = stored.leaves().iter().map(array_bytes).sum();
    let meter = Mutex::new(Meter::new(&format!("writing {target}"), Some(total)));
    let tell = |bytes| meter.lock().expect("counting does not panic").add(bytes);
    let conversion = Conversion { dtype: args.dtype.map(FloatType::dtype), tell: &tell };
    let model_dir = target.parent().expect("`checkpoint_N` lies in a folder");
    let step = step_of(target).expect("the target is named `checkpoint_N`");
    to_t5x(stored, (&model_dir, step), &conversion).map_err(failure)?;
    let sizes = target.sizes().map_err(storage_failure)?;
    let bytes = size(sizes.values().sum());
    notice(&format!("{target}: {bytes}, from {} `{}`", stored.format(), stored.path()));
    Ok(())
}

/// Damage that reading would not notice must not get checksums that call it whole.
fn refuse_damage(stored: &dyn Stored) -> Result<(), Failure> {
    // Without checksums, reading tells as much.
    if stored.extra(CHECKSUMS_FILE).map_err(failure)?.is_none() {
        return Ok(());
    }
    let mut meter = Meter::new(&format!("verifying {}", stored.path()), None);
    let damages = stored.damages(&mut |bytes| meter.add(bytes)).map_err(failure)?;
    match damages.into_iter().next() {
        None => Ok(()),
        Some(first) => Err(failure(first)),
    }
}
