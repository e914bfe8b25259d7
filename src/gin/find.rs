//! Finds gin files and task files: in the working directory, the search paths, the library, and last
//! beside the file that names them.

use std::path::Path;

use super::ast::Import;
use super::diagnostic::Diagnostic;
use super::resolve::nameless_modules;
use super::schema::Registry;
use super::source::{Source, Span};
use super::suggest::{did_you_mean, nearest};

/// Folder of the library configs within a [`Source`].
pub const LIBRARY: &str = "<gimlet>/gin";
/// Folder of the library's task files within a [`Source`].
pub const TASK_LIBRARY: &str = "<gimlet>/tasks";

/// Looks for files by path.
pub struct Finder<'a> {
    source: &'a dyn Source,
    /// The working directory, then those the user gave.
    search_paths: Vec<String>,
}

/// A module that has no task file and is a file of Python.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PythonModule {
    /// Its name, as imported.
    pub module: String,
    /// Its file.
    pub file: String,
    /// The folder in which Python finds it; empty for the working directory.
    pub folder: String,
    /// The `import`.
    pub span: Span,
}

/// A file: its name and its text.
pub type Found = (String, String);

impl<'a> Finder<'a> {
    /// Creates a finder for the working directory and then the given folders.
    pub fn new(source: &'a dyn Source, search_paths: &[String]) -> Self {
        let working_directory = std::iter::once(String::new());
        let others = search_paths.iter().filter(|path| !matches!(&***path, "." | "./"));
        let search_paths = working_directory.chain(others.cloned()).collect();
        Self { source, search_paths }
    }

    /// Returns the first file of that path, `None` if there is none. `library` is the folder of
    /// Gimlet's own files of that kind, `including` the name of the file that names this one.
    ///
    /// # Errors
    /// An existing file that cannot be read.
    pub fn find(
        &self,
        path: &str,
        library: &str,
        including: Option<&str>,
    ) -> Result<Option<Found>, String> {
        let mut candidates = Vec::new();
        if Path::new(path).is_absolute() || path.contains("://") {
            candidates.push(path.to_string());
        } else {
            candidates.extend(self.search_paths.iter().map(|root| join(root, path)));
            candidates.push(join(library, path));
            if let Some((folder, _)) = including.and_then(|name| name.rsplit_once('/')) {
                candidates.push(join(folder, path));
            }
            if let Some(path) = in_package(path) {
                candidates.extend(self.search_paths.iter().map(|root| join(root, &path)));
                candidates.push(join(library, &path));
            }
        }
        for name in candidates {
            // Buckets have no `..`; an include of a file beside the folder may contain it.
            let name = if name.contains("://") { plain(&name) } else { name };
            match self.source.read(&name) {
                Ok(Some(text)) => return Ok(Some((name, text))),
                Ok(None) => {}
                Err(error) => return Err(format!("cannot read {name}: {error}")),
            }
        }
        Ok(None)
    }

    /// Reports that a gin file does not exist, with the searched folders and files of similar
    /// names.
    pub(super) fn missing_file(&self, path: &str, library: &str) -> Diagnostic {
        let diagnostic = Diagnostic::nowhere(format!("there is no gin file `{path}`"))
            .help(format!("searched in {}", self.searched(library)));
        let roots = self.search_paths.iter().map(String::as_str).chain([library]);
        let similar: Vec<String> =
            roots.flat_map(|root| self.source.similar(&join(root, path))).collect();
        match similar.is_empty() {
            true => diagnostic,
            false => diagnostic.help(format!("did you mean {}?", similar.join(" or "))),
        }
    }

    /// Returns the Python file of a module that has no task file: beside gin files, or in one of the other folders.
    pub(super) fn python_module(&self, import: &Import, others: &[String]) -> Option<PythonModule> {
        let path = import.module.replace('.', "/");
        let roots = self.search_paths.iter().chain(others).filter(|root| !root.contains("://"));
        let mut files = roots.flat_map(|root| {
            [format!("{path}.py"), format!("{path}/__init__.py")]
                .map(|file| (root, join(root, &file)))
        });
        let (folder, file) =
            files.find(|(_, file)| matches!(self.source.read(file), Ok(Some(_))))?;
        let (module, folder) = (import.module.clone(), folder.clone());
        Some(PythonModule { module, file, folder, span: import.span })
    }

    /// Reports that no task file stands for a module, with remedies.
    pub(super) fn missing_module(
        &self,
        import: &Import,
        python: Option<&PythonModule>,
        registry: &Registry,
    ) -> Diagnostic {
        let module = &import.module;
        if let Some(meant) = module_of_file(module) {
            let message = format!("`{module}` names a file, and a module is expected");
            return Diagnostic::error(import.span, message).help(format!("write `{meant}`"));
        }
        let path = module.replace('.', "/");
        if let Some(PythonModule { file, .. }) = python {
            let message = format!("module `{module}` is Python, which only a run imports");
            return Diagnostic::error(import.span, message)
                .label(format!("found {file}"))
                .help(format!(
                    "write its tasks as {path}.gin with `gimlet task import {module}`, which asks your own Python"
                ))
                .help("or by hand: CONTRIBUTING.md shows a task");
        }
        let known = registry.names().filter_map(|name| Some(name.rsplit_once('.')?.0));
        let known: Vec<&str> = known.chain(nameless_modules(registry)).collect();
        let files = self.similar_modules(&path);
        let files: Vec<&str> = files.iter().map(String::as_str).collect();
        let named = [&files[..], &known].concat();
        let diagnostic =
            Diagnostic::error(import.span, format!("no module or task file is named `{module}`"))
                .help(format!(
                    "searched for {path}.gin and {path}.py in {}",
                    self.searched(TASK_LIBRARY)
                ));
        match nearest(module, &named) {
            Some(near) => diagnostic.help(format!("did you mean `{near}`?")),
            None => diagnostic.help(did_you_mean(module, known)),
        }
    }

    /// Returns modules with task files that are spelled nearly like the one of that path.
    fn similar_modules(&self, path: &str) -> Vec<String> {
        let roots = self.search_paths.iter().map(String::as_str).chain([TASK_LIBRARY]);
        let files = roots.flat_map(|root| {
            let below = format!("{root}/");
            let similar = self.source.similar(&join(root, &format!("{path}.gin")));
            similar.into_iter().map(move |name| match name.strip_prefix(&below) {
                Some(inner) => inner.to_string(),
                None => name,
            })
        });
        let modules = files.filter_map(|file| Some(file.strip_suffix(".gin")?.replace('/', ".")));
        modules.map(|module| module.trim_start_matches('.').to_string()).collect()
    }

    fn searched(&self, library: &str) -> String {
        let mut roots: Vec<&str> = self.search_paths.iter().map(String::as_str).collect();
        roots[0] = "the working directory";
        roots.push(library);
        roots.join(", ")
    }
}

/// Returns the module that the name of a task file stands for: `pkg/tasks.gin` is `pkg.tasks`.
pub fn module_of_file(name: &str) -> Option<String> {
    let stem = name.strip_suffix(".gin").or_else(|| name.strip_suffix(".py"))?;
    Some(stem.trim_start_matches("./").replace('/', "."))
}

/// Converts `pkg.sub/x.gin`, which names a file of a Python package, to `pkg/sub/x.gin` (gin-config
/// `resource_reader.py`).
fn in_package(path: &str) -> Option<String> {
    let (package, file) = path.rsplit_once('/')?;
    let is_package =
        package.split('/').flat_map(|part| part.split('.')).all(|part| !part.is_empty());
    (is_package && package.contains('.')).then(|| format!("{}/{file}", package.replace('.', "/")))
}

/// Removes `.` and `..` from a path: files that include each other by `../` have ever longer names.
pub fn plain(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match (part, parts.last()) {
            (".", _) => {}
            ("..", Some(last)) if !["", ".."].contains(last) => {
                parts.pop();
            }
            _ => parts.push(part),
        }
    }
    parts.join("/")
}

fn join(root: &str, path: &str) -> String {
    match root.is_empty() {
        true => path.to_string(),
        false => format!("{}/{path}", root.trim_end_matches('/')),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_with_dots_names_a_file_of_a_package() {
        for (path, expected) in [
            ("pkg.sub/x.gin", Some("pkg/sub/x.gin")),
            ("a/pkg.sub/x.gin", Some("a/pkg/sub/x.gin")),
            ("pkg.sub.x.gin", None),
            ("pkg/x.gin", None),
            ("../x.gin", None),
            ("./a/x.gin", None),
        ] {
            assert_eq!(in_package(path).as_deref(), expected, "{path}");
        }
    }

    #[test]
    fn a_plain_path_has_no_detours() {
        for (path, expected) in [
            ("a/../b/./c.gin", "b/c.gin"),
            ("../a/../../b.gin", "../../b.gin"),
            ("/../a/b/../c.gin", "/../a/c.gin"),
            ("<gimlet>/gin/x/../a.gin", "<gimlet>/gin/a.gin"),
        ] {
            assert_eq!(plain(path), expected);
        }
    }
}
