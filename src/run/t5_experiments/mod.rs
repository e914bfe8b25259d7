//! `gimlet t5_experiments`: t5-experiments' programs. It translates their flags into a training, which then is what
//! `gimlet train` would do.

mod bert;
mod description;
mod record;
mod tuning;

use std::process;

use anyhow::anyhow;
use clap::Args;

use crate::dialects::Statement;
use crate::dialects::t5_experiments::{
    Arguments, Facts, Flag, PROGRAMS, Program, Translation, check, help, translate,
};
use crate::gin::{Diagnostic, Diagnostics, SourceMap, did_you_mean};
use crate::launch::DistributedArgs;
use crate::models::open;
use crate::storage::Path;

use super::commands::{EvalArgs, ModelCommand, TrainArgs};
use super::configure::map_paths;
use super::failure::Failure;
use super::foreign::{ForeignCommand, Translated};
use super::gin_flags::{GinArgs, GinFileArgs};
use super::output::write;
use super::world::visible_gpus;
use description::description;
use record::record;

/// The words of `gimlet t5_experiments`.
#[derive(Args, Clone, Debug)]
pub struct T5ExperimentsArgs {
    /// The program and its flags.
    #[arg(value_name = "PROGRAM FLAGS", trailing_var_arg = true, allow_hyphen_values = true)]
    pub words: Vec<String>,
}

/// Reads and translates the words of `gimlet t5_experiments` for one process.
///
/// # Errors
/// Words that are no such command line, and the errors of the translation.
pub fn translate_t5_experiments(words: &[&str]) -> Result<Translated, Failure> {
    let words = words.iter().map(|word| word.to_string()).collect();
    T5ExperimentsArgs { words }.translated(1, false)
}

impl ForeignCommand for T5ExperimentsArgs {
    fn translated(&self, num_processes: usize, color: bool) -> Result<Translated, Failure> {
        let arguments = self.arguments()?;
        map_paths(arguments.text("path_map").as_slice())?;
        match check(&arguments) {
            list if list.is_empty() => {}
            list => return Err(failure(list)),
        }
        let facts = facts(&arguments, num_processes)?;
        let translation = translate(&arguments, &facts).map_err(failure)?;
        let command = command(&arguments, &translation);
        let description = match &command {
            ModelCommand::Train(train) if train.dry_run => {
                description(&arguments, &facts, train, color)?
            }
            _ => String::new(),
        };
        Ok(Translated {
            command,
            record: record(&arguments, num_processes),
            statements: translation.statements,
            notices: translation.notices.into_iter().chain(idle_gpus(num_processes)).collect(),
            warnings: String::new(),
            description,
        })
    }

    /// Each process has a batch and files of its own, so their number belongs to the run.
    fn uses_every_gpu(&self) -> bool {
        false
    }

    fn prints_gin(&self) -> bool {
        self.arguments().is_ok_and(|arguments| arguments.is("print_gin"))
    }
}

impl T5ExperimentsArgs {
    fn arguments(&self) -> Result<Arguments, Failure> {
        let (program, flags) = self.program()?;
        let words = &self.words[1..];
        if words.iter().any(|word| ["--help", "-h"].contains(&&word[..])) {
            write(&format!("{} by its own flags:\n{}", program.script, help(flags)))?;
            process::exit(0)
        }
        Arguments::parse(flags, words).map_err(|message| {
            let list = format!("`gimlet t5_experiments {} --help` lists the flags", program.name);
            failure(vec![Diagnostic::nowhere(message).help(list)])
        })
    }

    /// Finds the program of the first word.
    fn program(&self) -> Result<(&'static Program, &'static [&'static [Flag]]), Failure> {
        let usage = |message: String| Failure::Usage(anyhow!(message));
        let names = || PROGRAMS.iter().map(|program| program.name);
        let Some(name) = self.words.first() else {
            return Err(usage(
                "`gimlet t5_experiments` names no program, as in `gimlet t5_experiments t5 --help`"
                    .to_string(),
            ));
        };
        let Some(program) = PROGRAMS.iter().find(|program| program.name == *name) else {
            let message =
                format!("t5-experiments has no program `{name}`: {}", did_you_mean(name, names()));
            return Err(usage(message));
        };
        Ok((program, program.flags))
    }
}

/// Mentions that one process leaves GPUs idle.
fn idle_gpus(num_processes: usize) -> Option<String> {
    let count = visible_gpus();
    (num_processes == 1 && count > 1).then(|| {
        format!(
            "one of {count} visible GPUs is used: `gimlet launch` before `t5_experiments`, or `horovodrun -np {count}`, \
             starts a process with a batch of its own for each"
        )
    })
}

/// Reads the facts of a run that its flags do not say.
fn facts(arguments: &Arguments, num_processes: usize) -> Result<Facts, Failure> {
    if arguments.is_tuning() {
        return tuning::facts(arguments, num_processes);
    }
    if arguments.is_bert() {
        return bert::facts(arguments, num_processes);
    }
    let model_config = Some(model_config(arguments)?);
    let shards = shards("data_path", arguments)?;
    if arguments.text("valid_data_path").is_some() {
        self::shards("valid_data_path", arguments)?;
    }
    let init_step = init_step(arguments)?;
    Ok(Facts { num_processes, model_config, shards, init_step, tuning: None, bert: None })
}

/// Returns the step of `--init_checkpoint`, if a flag asks what it is; a resumed run need not have that file any more.
fn init_step(arguments: &Arguments) -> Result<u64, Failure> {
    let asks = ["reset_lr", "reset_iteration"].iter().any(|flag| arguments.is(flag));
    let Some(file) = arguments.path("init_checkpoint").filter(|_| asks) else { return Ok(0) };
    let path = Path::parse(&file).map_err(Failure::usage)?;
    let step = open(&path).and_then(|stored| stored.step());
    step.map_err(|error| {
        Failure::Usage(anyhow!(error).context("`--init_checkpoint` cannot be read"))
    })
}

/// Returns the file of the network and its text: that of `--model_cfg`, or else of the folder `--base_model`.
fn model_config(arguments: &Arguments) -> Result<(String, String), Failure> {
    let base = arguments.path("base_model").unwrap_or_default();
    let (flag, file) = match arguments.path("model_cfg") {
        Some(file) => ("model_cfg", file),
        None => ("base_model", format!("{base}/config.json")),
    };
    let path = Path::parse(&file).map_err(Failure::usage)?;
    if flag == "base_model" && !path.exists().map_err(Failure::world)? {
        let message = format!(
            "`--model_cfg` is missing, and `--base_model` is `{base}`, expected a folder with a config.json"
        );
        let help =
            "models are described by files: --model_cfg=models_configs/t5_configs/t5-base.json";
        return Err(failure(vec![Diagnostic::nowhere(message).help(help)]));
    }
    let read =
        path.read().map_err(|error| anyhow!(error).context(format!("`--{flag}` cannot be read")));
    let bytes = read.map_err(Failure::Usage)?;
    Ok((file, String::from_utf8_lossy(&bytes).into_owned()))
}

/// Returns the names of the files `*.jsonl` in the folder that a flag names, sorted.
fn shards(flag: &str, arguments: &Arguments) -> Result<Vec<String>, Failure> {
    let name = arguments.path(flag).unwrap_or_default();
    let folder = Path::parse(&name).map_err(Failure::usage)?;
    let found = folder.glob_below("*.jsonl").map_err(Failure::usage)?;
    if found.is_empty() {
        let message = format!("`--{flag}` is `{name}`, expected a folder with files `*.jsonl`");
        return Err(failure(vec![Diagnostic::nowhere(message)]));
    }
    Ok(found.iter().map(|path| path.file_name().to_string()).collect())
}

/// Makes the command that stands for the translation.
fn command(arguments: &Arguments, translation: &Translation) -> ModelCommand {
    let mut files = GinFileArgs {
        gin_file: translation.files.clone(),
        gin_search_paths: vec![".".to_string()],
        ..GinFileArgs::default()
    };
    for Statement { place, text } in &translation.statements {
        files.bind(place, text);
    }
    for (flag, text) in &arguments.bindings {
        files.bind(flag, text);
    }
    let gin = GinArgs {
        files,
        tfds_data_dir: None,
        seqio_additional_cache_dirs: Vec::new(),
        strict: arguments.is("strict"),
        path_map: arguments.text("path_map").into_iter().collect(),
        task_flags: None,
    };
    let [take_over, dry_run] = ["take_over", "dry_run"].map(|flag| arguments.is(flag));
    if arguments.is("validate_only") {
        return ModelCommand::Eval(Box::new(EvalArgs { gin, take_over, dry_run }));
    }
    let distributed = DistributedArgs::default();
    ModelCommand::Train(Box::new(TrainArgs { gin, distributed, take_over, dry_run }))
}

fn failure(list: Vec<Diagnostic>) -> Failure {
    Diagnostics { sources: SourceMap::default(), list }.into()
}
