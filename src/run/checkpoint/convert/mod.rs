//! `gimlet checkpoint convert`: a checkpoint, or each of a folder, in another format or type.

mod args;
mod configuration;
mod folder;
#[cfg(feature = "torch")]
mod verify;

use self::args::{TargetFormat, is_torch_file};
pub use self::configuration::{NamedVocabulary, model_at};
use self::configuration::{OwnAdapter, adapter, evaluated, options, tell_unheld};
use self::folder::{Stop, convert_all};
use super::arrays::size;
use super::meter::Meter;
use super::metered::Metered;
use super::open::{failure, open_at, parse_checkpoint, parse_path, storage_failure};
use crate::checkpoint::{
    Adapter, CheckpointError, HuggingFaceOptions, Listed, PeftOptions, Stored, arranged,
    export_hugging_face, export_mesh_tensorflow, export_orbax, export_peft, export_t5x,
    export_torch, export_trainer, file_sizes, is_unfinished, list, merged, step_of_trainer,
};
use crate::models::HUGGING_FACE;
use crate::run::configure::map_paths;
use crate::run::failure::Failure;
use crate::storage::Path;
use crate::telemetry::notice;
use anyhow::anyhow;

pub use args::ConvertArgs;
#[cfg(feature = "torch")]
pub(super) use verify::verify;

/// A conversion of one or several checkpoints.
struct Conversion<'a> {
    args: &'a ConvertArgs,
    /// The properties of the model, for formats of weights.
    options: HuggingFaceOptions,
    /// The adapter, if it is merged or written alone.
    adapter: Option<OwnAdapter>,
}

pub(super) fn run(args: &ConvertArgs) -> Result<(), Failure> {
    map_paths(&args.gin.path_map)?;
    let (from, to) = (parse_checkpoint(&args.from)?, parse_path(&args.to)?);
    refuse_inside(&from, &to)?;
    let is_trainers =
        args.format() == TargetFormat::Trainer && step_of_trainer(to.file_name()).is_some();
    if is_torch_file(&args.to) && !args.is_file() && !is_trainers {
        return Err(Failure::usage(anyhow!(
            "TO `{to}` is named like a file of PyTorch, and --to is another format; expected --to \
             torch, or the name of a folder"
        )));
    }
    if [".safetensors", ".msgpack"].iter().any(|ending| args.to.ends_with(ending)) {
        return Err(Failure::usage(anyhow!(
            "TO `{to}` is named like a file of weights, which is written into a folder with its \
             config.json; expected the folder, and --to hugging_face or --to flax"
        )));
    }
    let is_adapter = args.format() == TargetFormat::Peft;
    let has_no_tokenizer = args.format().is_of_a_step() || args.is_file() || is_adapter;
    if is_adapter && args.merge || args.base.is_some() && !is_adapter {
        return Err(Failure::usage(anyhow!(
            "--to peft writes an adapter alone, and --base names its base model there; --merge goes with the other formats"
        )));
    }
    if args.model.vocabulary.is_some() && has_no_tokenizer {
        return Err(Failure::usage(anyhow!(
            "--vocabulary goes beside weights: expected --to hugging_face, torch or flax, and a folder TO"
        )));
    }
    let all = checkpoints_in(&from)?;
    if all.is_some() && is_torch_file(&args.to) {
        return Err(Failure::usage(anyhow!(
            "`{from}` is a folder of checkpoints, and TO `{to}` one file; expected a folder TO, or one \
             checkpoint of `gimlet checkpoint ls {from}`"
        )));
    }
    if args.verify {
        // Without a configuration nothing can be compared: hours of work would be in vain.
        evaluated(&args.gin, &from)?;
    }
    let options = match args.format().has_names_of_transformers() {
        true => options(args, &from)?,
        false => HuggingFaceOptions::default(),
    };
    let adapter = (args.merge || is_adapter).then(|| adapter(args, &from)).transpose()?;
    let conversion = Conversion { args, options, adapter };
    match all {
        None => convert_one(&conversion, &to)?,
        Some(all) => convert_all(&conversion, &all, &to)?,
    }
    if has_no_tokenizer && !is_adapter { tell_unheld(args, &from, &to) } else { Ok(()) }
}

/// Lists the checkpoints in a folder; `None` if `from` is a checkpoint itself.
fn checkpoints_in(from: &Path) -> Result<Option<Vec<Listed>>, Failure> {
    let found = list(from, HUGGING_FACE).map_err(failure)?;
    let is_itself = found.iter().any(|one| one.path == *from);
    Ok((!found.is_empty() && !is_itself).then_some(found))
}

/// Refuses a target inside the source, which would mix both.
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

fn convert_one(conversion: &Conversion<'_>, to: &Path) -> Result<(), Failure> {
    let args = conversion.args;
    let stored = open_at(&args.from)?;
    let format = args.format();
    let target = match format.is_of_a_step() {
        true => target(format, &*stored, to)?,
        false => to.clone(),
    };
    let file = if args.is_file() { target.clone() } else { format.last(&target) };
    let is_there = file.exists().map_err(storage_failure)?;
    // In a bucket, a partly written file has its final name already.
    if is_there && !is_unfinished(&file).map_err(failure)? {
        format.settle(&target)?;
        return Err(Failure::usage(anyhow!("`{file}` exists; remove it, or name another TO")));
    }
    Ok(convert(conversion, stored, &target)?)
}

/// Returns the place of a single checkpoint.
fn target(format: TargetFormat, stored: &dyn Stored, to: &Path) -> Result<Path, Failure> {
    let step = stored.step().map_err(failure)?;
    if format == TargetFormat::Trainer && step == 0 && format.step_at(to).is_none() {
        return Err(Failure::usage(anyhow!(
            "`{}` is of no step, which is a part of the name: expected TO with its name, such as `{to}/model_0.pth`",
            stored.path()
        )));
    }
    match format.step_at(to) {
        // Formats without a step get that of the name.
        Some(named) if named == step || step == 0 => Ok(to.clone()),
        Some(named) => Err(Failure::usage(anyhow!(
            "TO is named {}, but `{}` is of step {step}; expected a folder, or the name {}",
            format.place(to, named).file_name(),
            stored.path(),
            format.place(to, step).file_name()
        ))),
        None => Ok(format.place(to, step)),
    }
}

fn convert(
    conversion: &Conversion<'_>,
    stored: Box<dyn Stored>,
    target: &Path,
) -> Result<(), Stop> {
    let Conversion { args, options, adapter } = conversion;
    refuse_damage(&*stored)?;
    let stored = match adapter {
        Some(OwnAdapter { adapter: Adapter::Lora { rank, alpha, .. }, separate, base, .. })
            if args.merge =>
        {
            arranged(merged(arranged(stored, separate), (*rank, *alpha))?, base)
        }
        _ => stored,
    };
    let from = Metered::new(&*stored, target);
    let format = args.format();
    match format {
        TargetFormat::T5x => drop(export_t5x(&from, step_at(format, target), &args.native())?),
        TargetFormat::Orbax => drop(export_orbax(&from, step_at(format, target), &args.native())?),
        TargetFormat::MeshTensorFlow => {
            export_mesh_tensorflow(&from, step_at(format, target), args.mesh())?;
        }
        TargetFormat::Trainer => {
            let (_, step) = step_at(format, target);
            export_trainer(&from, (target, step), options, HUGGING_FACE)?;
        }
        TargetFormat::Peft => {
            let own = adapter.as_ref().expect("it is found for this format");
            let options = PeftOptions {
                adapter: own.adapter,
                base: args.base.clone(),
                task_type: own.task_type,
                model_type: own.model_type.clone(),
                dtype: args.dtype(),
            };
            export_peft(&from, target, &options, HUGGING_FACE)?;
        }
        _ if args.is_file() => export_torch(&from, target, options, HUGGING_FACE)?,
        _ => export_hugging_face(&from, target, options, HUGGING_FACE)?,
    }
    let bytes = file_sizes(target)?.values().sum();
    notice(&format!("{target}: {}, from {} `{}`", size(bytes), stored.format(), stored.path()));
    Ok(())
}

/// The folder of checkpoints that a target lies in, and the step in its name.
fn step_at(format: TargetFormat, target: &Path) -> (Path, u64) {
    (target.folder(), format.step_at(target).expect("the target is named by its step"))
}

/// Refuses damage: a copy would get checksums that mark the damaged data as whole.
pub(super) fn refuse_damage(stored: &dyn Stored) -> Result<(), CheckpointError> {
    if !stored.has_checksums() {
        return Ok(());
    }
    let mut meter = Meter::new(&format!("verifying {}", stored.path()), None);
    let damages = stored.damages(&mut |bytes| meter.add(bytes))?;
    damages.into_iter().next().map_or(Ok(()), Err)
}
