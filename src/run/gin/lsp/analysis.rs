//! The analysis of an open file: the configuration that contains it, loaded.
//!
//! A file is the root of its configuration, unless a comment in it holds the command that runs it:
//! `# gimlet train --gin_file=model.gin --gin_file=run.gin --gin.MODEL_DIR="'/tmp/run'"`. Then that
//! command's files and bindings are the configuration, provided that they read the file.

use std::path::{Path, PathBuf};

use crate::gin::ast::{Import, StatementKind};
use crate::gin::{
    Bound, Config, Diagnostic, FileId, Loaded, Mention, Missing, Named, Request, Severity, Span,
    Value, parse,
};
use crate::run::dialect::{Language, Registries};
use crate::run::gin_flags::{GinFileArgs, parse_flags};

use super::files::Files;

/// Last names of the configurables at which commands start, here and in T5X, Mesh TF and others.
const ENTRY_POINTS: [&str; 7] =
    ["train", "evaluate", "infer", "main", "run", "precompile", "train_and_eval"];

/// An open file and its configuration.
#[derive(Debug)]
pub struct Analysis {
    /// The file's path.
    pub path: PathBuf,
    /// Its text when it was analysed.
    pub text: String,
    /// The configuration.
    pub loaded: Loaded,
    /// Warnings of bindings that the run does not read.
    pub unread: Vec<Diagnostic>,
    /// The file among the configuration's texts: once for each time it is included.
    pub ids: Vec<FileId>,
    /// Whether the configuration binds an entry point, so that it is a run by itself.
    pub is_run: bool,
    /// The language in which the configuration is written.
    pub language: Language,
}

/// The environment in which files are read.
pub struct Reading<'a> {
    /// The texts.
    pub files: &'a Files,
    /// Folders in which includes are searched.
    pub search_paths: &'a [String],
    /// The known configurables.
    pub registries: &'a Registries,
}

impl Reading<'_> {
    /// Loads the configuration of the command in a file's comment; without such a command, the file
    /// alone.
    fn load(&self, path: &Path, text: &str) -> (Loaded, Language) {
        if let Some(args) = command_in(text) {
            let mut command = args.request();
            command.search_paths.splice(0..0, self.search_paths.iter().cloned());
            let loaded = self.registries.load(&command, self.files);
            if !self.ids_of(path, &loaded.0).is_empty() {
                return loaded;
            }
        }
        let files = vec![self.files.name(path)];
        let search_paths = self.search_paths.to_vec();
        let alone = Request { files, search_paths, ..Request::default() };
        self.registries.load(&alone, self.files)
    }

    fn ids_of(&self, path: &Path, loaded: &Loaded) -> Vec<FileId> {
        let files = loaded.sources.files();
        let here = files.filter(|(_, file)| self.files.path(&file.name) == path);
        here.map(|(id, _)| id).collect()
    }
}

impl Analysis {
    /// Analyses a file.
    pub fn new(path: &Path, text: String, reading: &Reading<'_>) -> Self {
        let (mut loaded, language) = reading.load(path, &text);
        let registry = reading.registries.of(language);
        let ids = reading.ids_of(path, &loaded);
        let running = language.running(&loaded.config, registry);
        let is_run = !running.is_empty() || binds_entry_point(&loaded.config);
        let mut unread = loaded.settle(&running, registry);
        if running.is_empty() || !can_be_run(&loaded) {
            unread.clear();
        }
        Self { path: path.to_path_buf(), text, loaded, unread, ids, is_run, language }
    }

    /// Returns the file as a text of the configuration; `None` if it could not be read.
    pub fn id(&self) -> Option<FileId> {
        self.ids.first().copied()
    }

    /// Returns the imports of the file.
    pub fn imports(&self) -> Vec<Import> {
        let (statements, _) = parse(FileId(0), &self.text);
        let imports = statements.into_iter().filter_map(|statement| match statement.kind {
            StatementKind::Import(import) => Some(import),
            _ => None,
        });
        imports.collect()
    }

    /// Returns the mention at a byte of the file.
    pub fn mention(&self, offset: usize) -> Option<&Mention> {
        let here = self.loaded.mentions.iter().filter(|mention| {
            let span = mention.span;
            self.ids.contains(&span.file) && (span.start..=span.end).contains(&offset)
        });
        here.min_by_key(|mention| mention.span.end - mention.span.start)
    }

    /// Returns the table that contains a text's statements.
    pub fn table(&self, mention: &Mention) -> &Config {
        if mention.in_task_file { &self.loaded.tasks } else { &self.loaded.config }
    }

    /// Returns the scope before a configurable, in a key or a reference; empty for none.
    pub fn scope_at(&self, mention: &Mention) -> &str {
        let file = self.loaded.sources.file(mention.span.file);
        let written = &file.text[mention.span.start..mention.span.end];
        if let Some(reference) = written.strip_prefix('@') {
            return reference.rsplit_once('/').map_or("", |(scope, _)| scope.trim());
        }
        let before = &file.text[..mention.span.start];
        let is_part = |c: char| c.is_alphanumeric() || "_./".contains(c);
        before[before.trim_end_matches(is_part).len()..].trim_end_matches('/')
    }

    /// Returns the macro that a path means in a use: itself, or the one of an outer scope.
    pub fn macro_meant<'p>(&self, path: &'p str, in_task_file: bool) -> &'p str {
        let config = if in_task_file { &self.loaded.tasks } else { &self.loaded.config };
        let outer = std::iter::successors(Some(path), |path| Some(path.rsplit_once('/')?.0));
        outer.into_iter().find(|path| config.macros.contains_key(*path)).unwrap_or(path)
    }

    /// Returns the macro that is named at a place, if any.
    pub fn macro_at<'a>(&self, mention: &'a Mention) -> Option<&'a str> {
        match &mention.named {
            Named::MacroDefinition(path) => Some(path),
            Named::MacroUse(path) => Some(self.macro_meant(path, mention.in_task_file)),
            _ => None,
        }
    }
}

/// A value and the place of its key.
#[derive(Clone, Copy, Debug)]
pub struct Setting<'a> {
    /// The value.
    pub value: &'a Value,
    /// Place of its key.
    pub key: Span,
}

/// The values bound to one key, newest first.
#[derive(Debug)]
pub struct Binding<'a> {
    /// The key's scope; empty for the root.
    pub scope: &'a str,
    /// The current value, and those that it replaced.
    pub chain: Vec<Setting<'a>>,
}

/// The binding whose key stands at a place.
pub fn binding_at(config: &Config, key: Span) -> Option<Binding<'_>> {
    config.bindings.iter().find_map(|((scope, _), arguments)| {
        let mut chains = arguments.values().map(chain);
        let chain = chains.find(|chain| chain.iter().any(|bound| bound.key == key))?;
        Some(Binding { scope, chain })
    })
}

/// Returns a binding and the values that it replaced, newest first.
pub fn chain(bound: &Bound) -> Vec<Setting<'_>> {
    let newest = Setting { value: &bound.value, key: bound.key };
    let older = bound.overridden.iter().rev();
    let older = older.map(|older| Setting { value: &older.value, key: older.key });
    std::iter::once(newest).chain(older).collect()
}

/// Whether a configuration binds a parameter of an entry point.
fn binds_entry_point(config: &Config) -> bool {
    config.bindings.keys().any(|(_, name)| {
        let last = name.rsplit('.').next().expect("split yields one part");
        ENTRY_POINTS.contains(&last)
    })
}

/// Whether the only errors are missing values, which flags may still give.
fn can_be_run(loaded: &Loaded) -> bool {
    let wrong = loaded.diagnostics.iter().filter(|d| d.severity == Severity::Error);
    wrong.into_iter().all(|diagnostic| diagnostic.missing == Some(Missing::Value))
}

/// Returns the flags of the first comment that contains a command with `--gin_file`.
fn command_in(text: &str) -> Option<GinFileArgs> {
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let Some(comment) = line.trim_start().strip_prefix('#') else { continue };
        let mut command = comment.to_string();
        while let Some(continued) = command.strip_suffix('\\') {
            let next = lines.next().unwrap_or_default().trim_start().trim_start_matches('#');
            command = format!("{continued} {next}");
        }
        if command.contains("--gin_file")
            && let Some(args) = gin_args(&command)
        {
            return Some(args);
        }
    }
    None
}

/// Reads the flags about gin; the rest of the command does not matter.
fn gin_args(command: &str) -> Option<GinFileArgs> {
    let words = shlex::split(command)?;
    let is_read = |word: &String| {
        word.starts_with("--skip_unknown") || word.starts_with("--gin") && word.contains('=')
    };
    let flags = words.into_iter().filter(is_read).collect();
    parse_flags(flags).filter(|args: &GinFileArgs| !args.gin_file.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_comment_with_a_command_says_how_a_file_is_run() {
        let text = "A = 1\n# Try this:\n#   python t5x/train.py --alsologtostderr \\\n\
                    #     --gin_file=a.gin --gin_file=\"b c.gin\" --gin.DIR=\"'/x'\"\n";
        let args = command_in(text).expect("the comment holds one");
        assert_eq!(args.gin_file, ["a.gin", "b c.gin"]);
        assert_eq!(args.bindings(), [("--gin.DIR".to_string(), "DIR = '/x'".to_string())]);
        for text in ["# see --gin_file", "A = '--gin_file=a'", "# --gin_file='a", "# \\"] {
            assert!(command_in(text).is_none(), "{text}");
        }
    }
}
