//! Evaluates flags to the root spec that a command runs.

use std::collections::BTreeMap;

use crate::data::{Mixture, Task, TaskFamily, set_tfds_data_dir};
use crate::dialects::{DIALECTS, Dialect};
use crate::gin::{
    Bound, Config, Configurable, Diagnostic, Diagnostics, Evaluator, Loaded, Modules, Registry,
    Request, Running, Schema, Severity, Source, ValueKind,
};
use crate::storage::{Path, parse_path_map, set_path_map};

use super::failure::Failure;
use super::functions::{with_functions, with_task_functions};
use super::gin_flags::GinArgs;
use super::older;
use super::output::write_error;
use super::python_only_names;
use super::python_tasks::load_for_run;
use super::root::{Root, roots, with_roots};
use super::sweep::Sweep;
use super::tasks::GinTasks;

/// Settings that flags give beside gin.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// Folder of TFDS datasets.
    pub tfds_data_dir: Option<String>,
}

/// A run, ready to be built.
#[derive(Debug)]
pub struct Configured<T> {
    /// The root spec.
    pub spec: T,
    /// The resolved configuration, as `config.gin` prints it.
    pub config: Config,
    /// Its bindings by name.
    pub bindings: BTreeMap<String, BoundValue>,
    /// Tasks and mixtures by name.
    pub tasks: GinTasks,
    /// Settings that flags give beside gin.
    pub settings: Settings,
    /// Warnings to show, rendered.
    pub warnings: String,
}

/// T5X's entry points, and the packages that its files import for other reasons than a name.
pub const MODULES: Modules = Modules {
    entry_points: &["t5x.train", "t5x.eval", "t5x.infer", "t5x.precompile", "t5x.export"],
    packages: &["t5x", "t5", "t5.data", "seqio", "jax", "jax.numpy", LAYOUTS_MODULE],
    yielding: &["t5x.examples.scalable_t5", "t5x.contrib.moe", "prompt_tuning"],
    absent: python_only_names::T5X,
    older: older::T5X,
};

/// The module of places of layers with experts.
const LAYOUTS_MODULE: &str = "flaxformer.architectures.moe.moe_enums";

/// The members of its enumeration `LayerLayout`, which files name as constants.
const LAYOUTS: [&str; 4] = ["bottom", "middle", "mixed", "top"];

/// Returns every configurable that a gin file may name, over all commands.
pub fn registry() -> Registry {
    let mut registry = Registry::default().with_modules(MODULES);
    for layout in LAYOUTS {
        let name = format!("{LAYOUTS_MODULE}.LayerLayout.{}", layout.to_uppercase());
        registry.add_constant(name, Some(ValueKind::Str(layout.to_string())));
    }
    let registry = with_roots(registry).with::<Task>().with::<TaskFamily>().with::<Mixture>();
    with_functions(registry.with::<Sweep>())
}

/// Returns every configurable that a gin file of a dialect may name: its own, and those of tasks.
pub fn dialect_registry(dialect: &dyn Dialect) -> Registry {
    let registry = Registry::default().with_modules(dialect.modules());
    let tasks = registry.with::<Task>().with::<TaskFamily>().with::<Mixture>();
    dialect.with_configurables(with_task_functions(tasks))
}

/// Returns the configurables of every dialect, for the page that lists them.
pub fn documented_registry() -> Registry {
    DIALECTS.iter().fold(registry(), |registry, dialect| dialect.with_configurables(registry))
}

/// Loads and evaluates the configuration that flags describe.
///
/// # Errors
/// Every mistake in flags and gin files.
pub fn configure<T: Root>(
    args: &GinArgs,
    source: &dyn Source,
    color: bool,
) -> Result<Configured<T>, Failure> {
    let (mut loaded, registry) = load_files(args, Wanted::Run, source)?;
    // A value of the wrong type matters if this command reads it, such as not the training's batch size where the
    // configuration of a training is followed by that of an export.
    loaded.settle(&running(&[T::schema()], &loaded.config), &registry);
    let roots = [vec![T::schema()], bound_roots(&loaded.config, &registry)].concat();
    let unread = loaded.settle(&running(&roots, &loaded.config), &registry);
    let mut loaded = loaded.checked()?;
    loaded.diagnostics.extend(unread);
    let loaded = strict(args, loaded)?;
    let spec = evaluate::<T>(&loaded, &registry)?;
    spec.check().map_err(Failure::usage)?;
    let warnings = warnings(&loaded, color);
    let settings = Settings { tfds_data_dir: args.tfds_data_dir.clone() };
    let config = loaded.config.clone();
    let bindings = bindings(&loaded);
    let tasks = GinTasks::new(loaded, registry).with_caches(args.caches());
    Ok(Configured { spec, config, bindings, tasks, settings, warnings })
}

/// The name of a parameter in a scope, for files and tables: `scope/module.Name.parameter`.
fn binding_name(scope: &str, configurable: &str, parameter: &str) -> String {
    let slash = if scope.is_empty() { "" } else { "/" };
    format!("{scope}{slash}{configurable}.{parameter}")
}

/// A value that is bound, and the place of its binding: `runs/small.gin:12`, or a flag.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BoundValue {
    /// The value as gin prints it.
    pub value: String,
    /// The place.
    pub place: String,
}

/// Returns every macro by its name and every bound parameter by its [`binding_name`].
pub fn bindings(loaded: &Loaded) -> BTreeMap<String, BoundValue> {
    let of = |bound: &Bound| BoundValue {
        value: bound.value.to_string(),
        place: loaded.sources.place(bound.key),
    };
    let macros = loaded.config.macros.iter().map(|(name, bound)| (name.clone(), of(bound)));
    let parameters = loaded.config.bindings.iter().flat_map(|((scope, name), arguments)| {
        let named = move |parameter: &String| binding_name(scope, name, parameter);
        arguments.iter().map(move |(parameter, bound)| (named(parameter), of(bound)))
    });
    macros.chain(parameters).collect()
}

/// The roots of commands that the files bind or refer to.
pub fn bound_roots(config: &Config, registry: &Registry) -> Vec<&'static Schema> {
    let bound = roots().into_iter().filter(|root| config.mentioned.contains(root.name));
    bound.filter_map(|root| registry.get(root.name)).collect()
}

/// The library's file for each command whose configurations are usually made of two files.
const RUN_FILES: [(&str, &str); 4] = [
    ("t5x.train.train", "pretrain.gin, or finetune.gin in the same folder"),
    ("t5x.eval.evaluate", "eval.gin"),
    ("t5x.infer.infer", "infer.gin"),
    ("t5x.export_lib.save", "export.gin"),
];

/// Returns the configurables that run: the roots, and each declared task and mixture, in its scope.
/// The roots are the command's own and those of other commands that the files bind too: the
/// configuration of a training may be evaluated, and bindings that only training reads are then no
/// mistake.
pub fn running(roots: &[&'static Schema], config: &Config) -> Vec<Running> {
    let declared = [Task::schema(), TaskFamily::schema(), Mixture::schema()].into_iter();
    let declared = declared
        .flat_map(|schema| config.scopes_of(schema.name).into_iter().map(move |s| (s, schema)))
        .filter(|(scope, _)| !scope.is_empty())
        .map(|(scope, schema)| (scope.to_string(), schema));
    roots.iter().map(|root| (String::new(), *root)).chain(declared).collect()
}

/// Returns the tasks that gin files and modules declare, and warnings to show. No run is evaluated,
/// so the values that a run needs may be missing.
///
/// # Errors
/// Every mistake in flags and gin files.
pub fn configure_tasks(
    args: &GinArgs,
    modules: &[String],
    source: &dyn Source,
    color: bool,
) -> Result<(GinTasks, String), Failure> {
    let (mut loaded, registry) = load_files(args, Wanted::Tasks { modules }, source)?;
    // Bindings that nothing reads are reported when the run starts.
    let roots = bound_roots(&loaded.config, &registry);
    loaded.settle(&running(&roots, &loaded.config), &registry);
    let loaded = strict(args, loaded.checked()?)?;
    let warnings = warnings(&loaded, color);
    Ok((GinTasks::new(loaded, registry), warnings))
}

/// Loads texts that configure one spec and no run, and evaluates it.
///
/// # Errors
/// Every mistake in them.
pub fn evaluated<T: Configurable>(
    request: &Request,
    source: &dyn Source,
    color: bool,
) -> Result<T, Failure> {
    let registry = registry();
    let loaded = load_for_run(request, source, &registry)?.checked()?;
    write_error(&warnings(&loaded, color));
    evaluate(&loaded, &registry)
}

/// The part of the gin files that a command reads.
enum Wanted<'a> {
    Run,
    Tasks { modules: &'a [String] },
}

fn load_files(
    args: &GinArgs,
    wanted: Wanted<'_>,
    source: &dyn Source,
) -> Result<(Loaded, Registry), Failure> {
    map_paths(&args.path_map)?;
    set_tfds_data_dir(args.tfds_data_dir.clone());
    let import = |module: &String| ("--module_import".to_string(), format!("import {module}"));
    let mut request = args.files.request();
    if let Wanted::Tasks { modules } = wanted {
        request.bindings.splice(0..0, modules.iter().map(import));
        request.fragment = true;
    }
    if request.files.is_empty() && request.bindings.is_empty() {
        let or_module = match wanted {
            Wanted::Run => "",
            Wanted::Tasks { .. } => ", or --module_import=MODULE with the tasks",
        };
        let message = anyhow::anyhow!("no configuration: give --gin_file=FILE{or_module}");
        return Err(Failure::Usage(message));
    }
    let registry = registry();
    let mut loaded = load_for_run(&request, source, &registry)?;
    loaded.diagnostics.splice(0..0, missing_folders(&request.search_paths));
    Ok((loaded, registry))
}

/// Lets the folders of `--path_map` replace remote ones from now on.
///
/// # Errors
/// An entry that maps nothing.
pub fn map_paths(path_map: &[String]) -> Result<(), Failure> {
    let path_map = parse_path_map(&path_map.join(",")).map_err(Failure::usage)?;
    set_path_map(path_map).map_err(Failure::usage)
}

/// Warns of search folders that do not exist.
fn missing_folders(search_paths: &[String]) -> Vec<Diagnostic> {
    let is_missing = |path: &&String| {
        let found = Path::parse(path).and_then(|folder| folder.is_dir());
        matches!(found, Ok(false))
    };
    let warning = |path: &String| Diagnostic {
        severity: Severity::Warning,
        ..Diagnostic::nowhere(format!("--gin_search_paths names `{path}`, which is not a folder"))
    };
    search_paths.iter().filter(is_missing).map(warning).collect()
}

/// Treats warnings as errors if the flag is set.
fn strict(args: &GinArgs, mut loaded: Loaded) -> Result<Loaded, Failure> {
    if !args.strict {
        return Ok(loaded);
    }
    loaded.diagnostics.iter_mut().for_each(|warning| warning.severity = Severity::Error);
    Ok(loaded.checked()?)
}

fn warnings(loaded: &Loaded, color: bool) -> String {
    if loaded.diagnostics.is_empty() {
        return String::new();
    }
    let list = loaded.diagnostics.clone();
    Diagnostics { sources: loaded.sources.clone(), list }.render(color)
}

/// Evaluates the root spec of a command in the root scope.
fn evaluate<T: Configurable>(loaded: &Loaded, registry: &Registry) -> Result<T, Failure> {
    let mut evaluator = Evaluator::new(&loaded.config, registry);
    let result = evaluator.evaluate_in::<T>("");
    let mut list = evaluator.into_diagnostics();
    match result {
        Ok(spec) if list.is_empty() => Ok(spec),
        _ => {
            list.splice(0..0, without_run_file(T::schema(), &loaded.config, registry));
            Err(Diagnostics { sources: loaded.sources.clone(), list }.into())
        }
    }
}

/// Says that no file configures what the command runs, which is a more likely mistake than each of the missing values.
fn without_run_file(root: &Schema, config: &Config, registry: &Registry) -> Option<Diagnostic> {
    if config.mentioned.contains(root.name) {
        return None;
    }
    let (_, file) = RUN_FILES.iter().find(|(name, _)| *name == root.name)?;
    let others: Vec<String> = bound_roots(config, registry)
        .iter()
        .map(|other| format!("`{}`", other.short_name()))
        .collect();
    let but = match others.is_empty() {
        true => String::new(),
        false => format!(", but {}", others.join(" and ")),
    };
    let message =
        format!("no gin file configures `{}`, which this command runs{but}", root.short_name());
    Some(Diagnostic::nowhere(message).help(format!("add --gin_file=t5x/configs/runs/{file}")))
}
