//! Finds the definition of a name, and every place that uses it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use lsp_types::Location;

use crate::gin::{Bound, Config, Loaded, Mention, Named, Registry, Schema, Span, ValueKind};
use crate::run::declarations::declared;

use super::analysis::{Analysis, binding_at, chain};
use super::diagnose::location;
use super::project::Project;

/// Returns the definitions of the name at a byte of a file; the effective one is first.
pub fn definitions(project: &mut Project, analysis: &Analysis, offset: usize) -> Vec<Location> {
    let Some(mention) = analysis.mention(offset) else {
        return places(
            project,
            analysis,
            task_at(analysis, project.registry(analysis), offset).into_iter().collect(),
        );
    };
    let config = analysis.table(mention);
    let keys: Vec<Span> = match &mention.named {
        Named::File(name) => {
            let path = project.files.path(name);
            project.files.show(&path);
            let uri = project.files.uri(&path);
            return vec![Location { uri, range: lsp_types::Range::default() }];
        }
        Named::MacroDefinition(_) | Named::MacroUse(_) => {
            let path = analysis.macro_at(mention).expect("the mention is of a macro").to_string();
            if !config.macros.contains_key(&path) {
                return macro_elsewhere(project, analysis, mention, &path);
            }
            chain(&config.macros[&path]).iter().map(|bound| bound.key).collect()
        }
        Named::Parameter(..) => {
            let binding = binding_at(config, mention.span);
            binding.into_iter().flat_map(|b| b.chain).map(|bound| bound.key).collect()
        }
        Named::Configurable(schema) => bindings_of(schema, mention, analysis),
    };
    places(project, analysis, keys)
}

/// Converts the places for the editor, without those on a command line.
fn places(project: &Project, analysis: &Analysis, keys: Vec<Span>) -> Vec<Location> {
    let sources = &analysis.loaded.sources;
    let in_files = keys.into_iter().filter(|key| !sources.file(key.file).name.starts_with("--"));
    let places = in_files.map(|key| {
        project.files.show(&project.files.path(&sources.file(key.file).name));
        location(key, sources, &project.files)
    });
    places.collect()
}

/// Definitions of a macro in the files that include this one.
fn macro_elsewhere(
    project: &mut Project,
    analysis: &Analysis,
    mention: &Mention,
    path: &str,
) -> Vec<Location> {
    let in_task_file = mention.in_task_file;
    let is_definition = |_: &Analysis, other: &Mention| {
        matches!(&other.named, Named::MacroDefinition(defined) if defined == path)
            && other.in_task_file == in_task_file
    };
    let found = family(project, &analysis.path, is_definition);
    found.iter().map(|place| place.location(project)).collect()
}

/// Returns the places at which a configurable's arguments are bound, in each file the first. A
/// written scope excludes bindings that the scope does not see.
fn bindings_of(schema: &'static Schema, mention: &Mention, analysis: &Analysis) -> Vec<Span> {
    let scope = analysis.scope_at(mention);
    let bound = analysis.table(mention).bindings.iter().filter(|((bound_in, name), _)| {
        let outer = format!("{bound_in}/");
        let sees = [bound_in.is_empty(), scope.is_empty(), scope == *bound_in];
        *name == schema.name && (sees.contains(&true) || scope.starts_with(&outer))
    });
    // Bindings of the innermost scope come first.
    let mut bound: Vec<_> = bound.collect();
    bound.sort_by_key(|((scope, _), _)| std::cmp::Reverse(scope.len()));
    let keys = bound.into_iter().flat_map(|(_, arguments)| {
        let mut keys: Vec<Span> = arguments.values().map(|bound| bound.key).collect();
        keys.sort();
        keys.dedup_by_key(|key| key.file);
        keys
    });
    keys.filter(|key| key.start != mention.span.start).collect()
}

/// A place in one of the configurations that contain a file.
#[derive(Clone, Debug)]
pub struct MentionPlace {
    /// The configuration.
    pub analysis: Rc<Analysis>,
    /// The mention there.
    pub mention: Mention,
    /// The file.
    pub path: PathBuf,
}

impl MentionPlace {
    /// Converts the place for the editor.
    pub fn location(&self, project: &Project) -> Location {
        location(self.mention.span, &self.analysis.loaded.sources, &project.files)
    }
}

/// Returns mentions of the same thing in all files that some configuration loads together with this
/// one, directly or through others that mention it too. Each place once, in the order of files and
/// texts.
pub fn family(
    project: &mut Project,
    path: &Path,
    is_same: impl Fn(&Analysis, &Mention) -> bool,
) -> Vec<MentionPlace> {
    let mut files = BTreeSet::from([path.to_path_buf()]);
    let mut loaded = BTreeSet::new();
    let mut places: Vec<MentionPlace> = Vec::new();
    let mut next = vec![path.to_path_buf()];
    while !next.is_empty() {
        for root in std::mem::take(&mut next) {
            let Some(analysis) = project.analysis(&root) else { continue };
            loaded.insert(root);
            for mention in &analysis.loaded.mentions {
                let name = &analysis.loaded.sources.file(mention.span.file).name;
                if name.starts_with("--") || !is_same(&analysis, mention) {
                    continue;
                }
                let path = project.files.path(name);
                // Every run includes the library; that does not relate the runs to each other.
                if !project.files.is_library(&path) {
                    files.insert(path.clone());
                }
                let (analysis, mention) = (analysis.clone(), mention.clone());
                places.push(MentionPlace { analysis, mention, path });
            }
        }
        next.extend(project.workspace.roots_of(&files));
        next.retain(|root| !loaded.contains(root));
    }
    places.sort_by_key(|place| (place.path.clone(), place.mention.span.start));
    places.dedup_by_key(|place| (place.path.clone(), place.mention.span.start));
    places
}

/// Returns every place with the same name as a byte of a file.
pub fn references(project: &mut Project, analysis: &Analysis, offset: usize) -> Vec<MentionPlace> {
    let Some(mention) = analysis.mention(offset) else { return Vec::new() };
    match &mention.named {
        Named::MacroDefinition(_) | Named::MacroUse(_) => {
            let path = analysis.macro_at(mention).expect("the mention is of a macro").to_string();
            macro_family(project, &analysis.path, &path, mention.in_task_file)
        }
        Named::Configurable(schema) => family(
            project,
            &analysis.path,
            |_, other| matches!(&other.named, Named::Configurable(named) if named.name == schema.name),
        ),
        Named::Parameter(schema, name) => family(project, &analysis.path, |_, other| {
            matches!(&other.named, Named::Parameter(of, named)
                if of.name == schema.name && named == name)
        }),
        Named::File(file) => family(
            project,
            &analysis.path,
            |_, other| matches!(&other.named, Named::File(named) if named == file),
        ),
    }
}

/// Every definition and use of a macro.
pub fn macro_family(
    project: &mut Project,
    file: &Path,
    path: &str,
    in_task_file: bool,
) -> Vec<MentionPlace> {
    family(project, file, |analysis, other| {
        other.in_task_file == in_task_file && analysis.macro_at(other) == Some(path)
    })
}

/// Returns the declaration of the task that a text at a byte of the file names.
fn task_at(analysis: &Analysis, registry: &Registry, offset: usize) -> Option<Span> {
    let Loaded { config, tasks, .. } = &analysis.loaded;
    let mut text = None;
    for bound in bound_values(config).chain(bound_values(tasks)) {
        bound.value.for_each(&mut |value| {
            let covers = (value.span.start..=value.span.end).contains(&offset);
            if let (true, ValueKind::Str(found)) = (covers, &value.kind)
                && analysis.ids.contains(&value.span.file)
            {
                text = Some(found.clone());
            }
        });
    }
    let (scope, _) = declared(&analysis.loaded, registry).names.remove(&text?)?;
    let in_scope = tasks.bindings.iter().filter(|((bound_in, _), _)| *bound_in == scope);
    in_scope.flat_map(|(_, arguments)| arguments.values()).map(|bound| bound.key).min()
}

fn bound_values(config: &Config) -> impl Iterator<Item = &Bound> {
    let bindings = config.bindings.values().flat_map(|arguments| arguments.values());
    bindings.chain(config.macros.values())
}
