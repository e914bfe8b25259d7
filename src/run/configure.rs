//! From flags to an evaluated run.

use crate::data::{Mixture, Task};
use crate::gin::{
    Config, Configurable, Diagnostics, Evaluator, Loaded, Registry, Request, Severity, Source, load,
};
use crate::storage::{parse_path_map, set_path_map};
use crate::train::{Train, check};

use super::cli::{GinArgs, skip_unknown};
use super::failure::Failure;
use super::functions::with_functions;
use super::tasks::GinTasks;

/// What flags say beside gin.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// Folders with cached tasks.
    pub cache_dirs: Vec<String>,
    /// Folder of TFDS datasets.
    pub tfds_data_dir: Option<String>,
}

/// A run, ready to be built.
#[derive(Debug)]
pub struct Configured {
    /// The root spec.
    pub train: Train,
    /// The resolved configuration, as `config.gin` prints it.
    pub config: Config,
    /// Tasks and mixtures by name.
    pub tasks: GinTasks,
    /// What flags say beside gin.
    pub settings: Settings,
    /// Warnings to show, rendered.
    pub warnings: String,
}

/// What the commands run, by full name.
pub const ROOTS: [&str; 1] = ["t5x.train.train"];

/// Every configurable that a gin file may name, over all commands.
pub fn registry() -> Registry {
    with_functions(Registry::default().with::<Train>().with::<Task>().with::<Mixture>())
}

/// Loads and evaluates the configuration that flags describe.
///
/// # Errors
/// Every mistake in flags and gin files.
pub fn configure(args: &GinArgs, source: &dyn Source, color: bool) -> Result<Configured, Failure> {
    let path_map = parse_path_map(&args.path_map.join(",")).map_err(Failure::usage)?;
    set_path_map(path_map).map_err(Failure::usage)?;
    let request = Request {
        files: args.gin_file.clone(),
        bindings: args.bindings(),
        search_paths: args.gin_search_paths.clone(),
        skip_unknown: skip_unknown(args.skip_unknown.as_deref()),
        ..Request::default()
    };
    if request.files.is_empty() && request.bindings.is_empty() {
        return Err(Failure::Usage(anyhow::anyhow!("no configuration: give --gin_file=FILE")));
    }
    let registry = registry();
    let mut loaded = load(&request, source, &registry)?;
    loaded.warnings.extend(loaded.unread(Train::schema(), &registry));
    if args.strict {
        loaded.warnings.iter_mut().for_each(|warning| warning.severity = Severity::Error);
        loaded = loaded.checked()?;
    }
    let train = evaluate::<Train>(&loaded, &registry)?;
    check(&train).map_err(Failure::usage)?;
    let warnings = match loaded.warnings.is_empty() {
        true => String::new(),
        false => {
            let list = loaded.warnings.clone();
            Diagnostics { sources: loaded.sources.clone(), list }.render(color)
        }
    };
    let settings = Settings {
        cache_dirs: args.seqio_additional_cache_dirs.clone(),
        tfds_data_dir: args.tfds_data_dir.clone(),
    };
    let config = loaded.config.clone();
    Ok(Configured { train, config, tasks: GinTasks::new(loaded, registry), settings, warnings })
}

/// Evaluates the root spec of a command in the root scope.
fn evaluate<T: Configurable>(loaded: &Loaded, registry: &Registry) -> Result<T, Failure> {
    let mut evaluator = Evaluator::new(&loaded.config, registry);
    let result = evaluator.evaluate_in::<T>("");
    let list = evaluator.into_diagnostics();
    match result {
        Ok(spec) if list.is_empty() => Ok(spec),
        _ => Err(Diagnostics { sources: loaded.sources.clone(), list }.into()),
    }
}
