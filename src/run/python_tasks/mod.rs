//! Python modules that gin files import and that have no task file: a run imports them in the user's Python, and keeps
//! their tasks as task files (decision 27).

mod kept;
mod registered_tasks;

use std::collections::BTreeSet;
use std::env;
use std::path::Path;

use crate::gin::{
    Diagnostic, Diagnostics, Evaluator, Loaded, PythonModule, Registry, Request, Source,
    load_anyway,
};
use crate::python::{Interpreter, PythonWorkers, search_for_modules};
use crate::telemetry;

use kept::KeptTasks;
pub(super) use registered_tasks::{ImportError, ModuleImport, ask};

/// Loads as much of a configuration as possible, for a command that runs: modules of Python are imported.
///
/// # Errors
/// A module that Python cannot import.
pub(super) fn load_for_run(
    request: &Request,
    source: &dyn Source,
    registry: &Registry,
) -> Result<Loaded, Diagnostics> {
    let folders = env::var_os("PYTHONPATH").unwrap_or_default();
    let folders =
        env::split_paths(&folders).filter_map(|folder| folder.to_str().map(str::to_string));
    let mut request = Request { python_paths: folders.collect(), ..request.clone() };
    let mut tried = BTreeSet::new();
    loop {
        let loaded = load_anyway(&request, source, registry);
        let modules = loaded.python_modules.iter();
        let new: Vec<&PythonModule> =
            modules.filter(|module| tried.insert(module.module.clone())).collect();
        if new.is_empty() {
            return Ok(loaded);
        }
        let python = interpreter(&loaded, registry);
        for module in new {
            match translated(module, &python, registry) {
                Ok(folder) => request.search_paths.push(folder),
                // As gin does with an import that fails.
                Err(_) if request.skip_unknown.skips_imports() => {}
                Err(error) => return Err(failed(module, &error, &loaded)),
            }
        }
    }
}

/// Returns the interpreter that the configuration binds, or the one of the environment.
fn interpreter(loaded: &Loaded, registry: &Registry) -> Interpreter {
    let mut evaluator = Evaluator::new(&loaded.config, registry);
    match evaluator.evaluate_in::<PythonWorkers>("") {
        Ok(workers) => workers.interpreter(),
        // The mistake is reported with those of the other bindings.
        Err(_) => Interpreter::new(None, None, &[]),
    }
}

/// Returns the folder with the task file of a module, which is imported unless its tasks are known.
fn translated(
    module: &PythonModule,
    python: &Interpreter,
    registry: &Registry,
) -> Result<String, ImportError> {
    if !module.folder.is_empty() {
        search_for_modules(&module.folder);
    }
    let name = &module.module;
    let kept = KeptTasks::of(module, python, registry);
    let kept = kept.map_err(|error| unkept(name, Path::new("a folder"), &error))?;
    let failed = |error| unkept(name, &kept.folder, &error);
    if !kept.is_current() {
        let _lock = kept.lock().map_err(failed)?;
        // Another process may have imported it in the meantime.
        if !kept.is_current() {
            import(module, python, registry, &kept)?;
        }
    }
    Ok(kept.folder.display().to_string())
}

fn import(
    module: &PythonModule,
    python: &Interpreter,
    registry: &Registry,
    kept: &KeptTasks,
) -> Result<(), ImportError> {
    let name = &module.module[..];
    let imported =
        ask(&ModuleImport { module: name, names: &[], python, imported_with: None }, registry)?;
    let imported = if imported.imports().is_empty() { imported.if_any(name)? } else { imported };
    let (version, summary) = (imported.version(), imported.summary());
    let mut head =
        vec![format!("Imported from {} by {python} with SeqIO {version}: {summary}", module.file)];
    head.extend(KeptTasks::read_lines(&imported.files));
    let text = imported.task_file(&head)?;
    kept.save(&text).map_err(|error| unkept(name, &kept.folder, &error))?;
    let left_out = imported.notes.iter().filter(|note| note.is_left_out);
    let left_out: String = left_out.map(|note| format!("\n  {note}")).collect();
    telemetry::notice(&format!(
        "imported {} with {python} and SeqIO {version}: {summary}; `gimlet task import {name}` writes it as a \
         task file{left_out}",
        module.file
    ));
    Ok(())
}

fn unkept(module: &str, folder: &Path, error: &std::io::Error) -> ImportError {
    let (module, folder) = (module.to_string(), folder.display().to_string());
    ImportError::Unkept { module, folder, reason: error.to_string() }
}

/// The error at the import that asks for the module.
fn failed(module: &PythonModule, error: &ImportError, loaded: &Loaded) -> Diagnostics {
    let list = vec![
        Diagnostic::error(module.span, error.to_string()).label(format!("found {}", module.file)),
    ];
    Diagnostics { sources: loaded.sources.clone(), list }
}
