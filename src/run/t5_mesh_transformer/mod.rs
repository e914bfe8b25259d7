//! `gimlet t5_mesh_transformer`: t5's program of that name. It translates a run of Mesh TensorFlow into a training, an
//! evaluation, or predictions of text files, which then is what `gimlet train`, `eval`, `generate` or `score` would do.

mod api;
mod flags;
mod record;
mod vocabularies;

pub use flags::T5MeshTransformerArgs;

use std::collections::BTreeSet;

use crate::dialects::Statement;
use crate::dialects::mesh_tf::{self, Given, Mode, Translation, read, running, translate};
use crate::gin::{Diagnostic, Diagnostics, Loaded, Registry, Request, Severity};
use crate::launch::DistributedArgs;

use super::cli::{Command, CommandLine, Unparsed, try_parse};
use super::commands::{EvalArgs, FilesArgs, ModelCommand, TrainArgs};
use super::configure::{dialect_registry, map_paths};
use super::failure::Failure;
use super::foreign::{ForeignCommand, Translated};
use super::gin_flags::{GinArgs, GinFileArgs};
use super::library::Library;
use super::python_tasks::load_for_run;
use super::tasks::GinTasks;
use vocabularies::vocabularies;

/// Reads and translates a command line of t5's program, without the program's name, for one process.
///
/// # Errors
/// Words that are no such command line, and the errors of the translation.
pub fn translate_mesh_tf(words: &[&str]) -> Result<Translated, Failure> {
    let words = ["gimlet", "t5_mesh_transformer"].into_iter().chain(words.iter().copied());
    match try_parse(words.map(str::to_string).collect()) {
        Ok(CommandLine { command: Command::T5MeshTransformer(args), .. }) => {
            args.translated(1, false)
        }
        Ok(_) => unreachable!("the command is among the words"),
        Err(Unparsed::Mistake(mistake)) => Err(Failure::Usage(mistake)),
        Err(Unparsed::Clap(error)) => Err(Failure::usage(error)),
    }
}

impl ForeignCommand for T5MeshTransformerArgs {
    fn translated(&self, num_processes: usize, color: bool) -> Result<Translated, Failure> {
        map_paths(&self.path_map)?;
        let registry = dialect_registry(&mesh_tf::MeshTf);
        let (loaded, sentinels) = self.load(&registry)?;
        let meaning = read(&loaded, &registry).map_err(|list| failure(&loaded, list))?;
        let tasks = GinTasks::new(loaded.clone(), registry.clone());
        let given = Given {
            model_dir: self.model_dir.clone(),
            tpu: self.tpu.is_some(),
            num_processes: num_processes as u64,
            vocabularies: vocabularies(&meaning, &loaded, &tasks)?,
            sentinels,
        };
        let translation =
            translate(&meaning, &loaded, &given).map_err(|list| failure(&loaded, list))?;
        let warnings = self.warnings(&loaded, &translation, color)?;
        let command = self.command(&translation, &loaded);
        let record = record::record(&self.model_dir, &meaning, &loaded, &registry);
        let statements = translation.statements;
        let description = if self.dry_run { described(&statements) } else { String::new() };
        let notices = self.notices(&loaded.skipped);
        Ok(Translated { command, record, statements, notices, warnings, description })
    }

    fn prints_gin(&self) -> bool {
        self.print_gin
    }
}

impl T5MeshTransformerArgs {
    /// Mentions the flags without effect, and the unknown names of configurables that t5's program skips too.
    fn notices(&self, skipped: &BTreeSet<String>) -> Vec<String> {
        let flags = self.without_effect();
        let names: Vec<String> = skipped.iter().map(|name| format!("`{name}`")).collect();
        let flags =
            (!flags.is_empty()).then(|| format!("no effect without TPUs: {}", flags.join(", ")));
        let names =
            (!names.is_empty()).then(|| format!("unknown names are skipped: {}", names.join(", ")));
        flags.into_iter().chain(names).collect()
    }

    /// Refuses modules of the command line that declare nothing; those of gin files are skipped, as t5 does.
    fn check_modules(&self, loaded: &Loaded) -> Result<(), Failure> {
        let is_found =
            |module: &String| loaded.config.imports.values().any(|import| import.module == *module);
        if self.module_import.iter().all(is_found) {
            return Ok(());
        }
        let import = |module: &String| ("--module_import".to_string(), format!("import {module}"));
        let request = Request {
            bindings: self.module_import.iter().map(import).collect(),
            search_paths: self.own_search_paths(),
            fragment: true,
            ..Request::default()
        };
        load_for_run(&request, &Library, &dialect_registry(&mesh_tf::MeshTf))?.checked()?;
        Ok(())
    }

    /// Loads the gin files, and drops the vocabulary that they bind, since the task has one.
    fn load(&self, registry: &Registry) -> Result<(Loaded, Option<mesh_tf::Sentinels>), Failure> {
        let mut request = self.request()?;
        let import = |module: &String| ("--module_import".to_string(), format!("import {module}"));
        request.bindings.splice(0..0, self.module_import.iter().map(import));
        let mut loaded = load_for_run(&request, &Library, registry)?;
        let sentinels = mesh_tf::without_effect(&mut loaded);
        mesh_tf::explain(&mut loaded.diagnostics);
        self.check_modules(&loaded)?;
        let unread = loaded.settle(&running(&loaded.config), registry);
        let mut loaded = loaded.checked()?;
        loaded.diagnostics.extend(unread);
        Ok((loaded, sentinels))
    }

    /// Renders what may not be intended.
    fn warnings(
        &self,
        loaded: &Loaded,
        translation: &Translation,
        color: bool,
    ) -> Result<String, Failure> {
        let mut list = [loaded.diagnostics.clone(), translation.warnings.clone()].concat();
        if self.strict && !list.is_empty() {
            list.iter_mut().for_each(|warning| warning.severity = Severity::Error);
            return Err(failure(loaded, list));
        }
        let sources = loaded.sources.clone();
        Ok(if list.is_empty() {
            String::new()
        } else {
            Diagnostics { sources, list }.render(color)
        })
    }

    /// Returns the command with the flags that stand for the translation.
    fn command(&self, translation: &Translation, loaded: &Loaded) -> ModelCommand {
        let gin = self.native(translation, loaded);
        match translation.mode {
            Mode::Train => ModelCommand::Train(Box::new(TrainArgs {
                gin,
                distributed: DistributedArgs::default(),
                take_over: self.take_over,
                dry_run: self.dry_run,
            })),
            Mode::Evaluate => ModelCommand::Eval(Box::new(EvalArgs {
                gin,
                take_over: self.take_over,
                dry_run: self.dry_run,
            })),
            Mode::Files => ModelCommand::Files(Box::new(FilesArgs { gin, dry_run: self.dry_run })),
        }
    }

    fn native(&self, translation: &Translation, loaded: &Loaded) -> GinArgs {
        let mut files = GinFileArgs {
            gin_file: translation.files.clone(),
            gin_search_paths: self.own_search_paths(),
            ..GinFileArgs::default()
        };
        let modules = task_modules(loaded);
        for module in &modules {
            files.bind("--module_import", &format!("import {module}"));
        }
        let task_flags = modules.iter().map(|module| format!("--module_import={module}")).collect();
        for Statement { place, text } in &translation.statements {
            files.bind(place, text);
        }
        GinArgs {
            files,
            tfds_data_dir: self.t5_tfds_data_dir.clone(),
            seqio_additional_cache_dirs: self.additional_task_cache_dirs.clone(),
            strict: false,
            path_map: self.path_map.clone(),
            task_flags: Some(task_flags),
        }
    }
}

/// Describes what a dry run of the command itself does not: microbatches, and the learning rate.
fn described(statements: &[Statement]) -> String {
    let parts = statements.iter().filter_map(|statement| statement.text.split_once(" = "));
    let of = |prefix: &str| {
        let values =
            parts.clone().filter_map(|(key, value)| Some((key.strip_prefix(prefix)?, value)));
        values.map(|(name, value)| format!("{name} = {value}")).collect::<Vec<_>>()
    };
    let microbatches = of("t5x.trainer.Trainer.num_microbatches").concat();
    let own = of("t5x.utils.create_learning_rate_scheduler.");
    let schedule = if own.is_empty() { of("learning_rate_") } else { own };
    let lines = [
        ("microbatches", microbatches.trim_start_matches(" = ").to_string()),
        ("schedule", schedule.join(", ")),
    ];
    let line = |(name, value): &(&str, String)| format!("{name:<12} {value}\n");
    lines.iter().filter(|(_, value)| !value.is_empty()).map(line).collect()
}

/// Returns the imported modules that may declare tasks.
fn task_modules(loaded: &Loaded) -> Vec<String> {
    let others = ["mesh_tensorflow", "t5.models"];
    let imports = loaded.config.imports.values().map(|import| import.module.clone());
    imports.filter(|module| !others.iter().any(|other| module.starts_with(other))).collect()
}

/// Combines mistakes with their texts.
fn failure(loaded: &Loaded, list: Vec<Diagnostic>) -> Failure {
    Diagnostics { sources: loaded.sources.clone(), list }.into()
}
