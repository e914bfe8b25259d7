//! Renames a macro in every file that shares it.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

use lsp_types::{TextEdit, Uri, WorkspaceEdit};

use crate::gin::ast::StatementKind;
use crate::gin::{FileId, Mention, Registry, parse};

use super::analysis::Analysis;
use super::navigate::{MentionPlace, macro_family};
use super::position::Lines;
use super::project::Project;

/// Returns the bytes of the macro's name at a byte of a file; an error states why it cannot be
/// renamed.
pub fn name_at(analysis: &Analysis, offset: usize) -> Result<Range<usize>, String> {
    let nothing = || "only macros are renamed".to_string();
    let mention = analysis.mention(offset).ok_or_else(nothing)?;
    let path = analysis.macro_at(mention).ok_or_else(nothing)?;
    range_in(analysis, mention, path).ok_or_else(nothing)
}

/// Returns the edits that rename the macro at a byte of a file.
pub fn rename(
    project: &mut Project,
    analysis: &Analysis,
    offset: usize,
    new_name: &str,
) -> Result<WorkspaceEdit, String> {
    name_at(analysis, offset)?;
    let mention = analysis.mention(offset).expect("a name was found there");
    let path = analysis.macro_at(mention).expect("it is a macro's").to_string();
    let new_path = match path.rsplit_once('/') {
        Some((scope, _)) => format!("{scope}/{new_name}"),
        None => new_name.to_string(),
    };
    check_name(new_name, project.registry(analysis))?;
    let places = macro_family(project, &analysis.path, &path, mention.in_task_file);
    check_places(project, &places, &new_path)?;
    let mut edits: BTreeMap<String, Vec<TextEdit>> = BTreeMap::new();
    for place in &places {
        let range = range_in(&place.analysis, &place.mention, &path).ok_or_else(|| {
            format!("cannot tell where the name stands in {}", place.path.display())
        })?;
        let text = &place.analysis.loaded.sources.file(place.mention.span.file).text;
        let edit =
            TextEdit { range: Lines::new(text).range(range), new_text: new_name.to_string() };
        edits.entry(project.files.uri(&place.path).0).or_default().push(edit);
    }
    let changes: HashMap<Uri, Vec<TextEdit>> =
        edits.into_iter().map(|(uri, edits)| (Uri(uri), edits)).collect();
    Ok(WorkspaceEdit { changes: Some(changes), ..WorkspaceEdit::default() })
}

/// Returns the bytes of the path's last component in a mention of the macro or of a scope inside
/// it.
fn range_in(analysis: &Analysis, mention: &Mention, path: &str) -> Option<Range<usize>> {
    let name = path.rsplit('/').next().expect("split yields one part");
    let at = analysis.loaded.sources.text(mention.span).find(path)?;
    let end = mention.span.start + at + path.len();
    Some(end - name.len()..end)
}

fn check_name(name: &str, registry: &Registry) -> Result<(), String> {
    let (statements, wrong) = parse(FileId(0), &format!("{name} = 1"));
    let is_name = matches!(&statements[..], [statement]
        if matches!(&statement.kind, StatementKind::Macro(found) if found.path == name));
    if !wrong.is_empty() || !is_name || name.contains('/') {
        return Err(format!("`{name}` is not a valid name for a macro"));
    }
    match registry.matching_constants(name).first() {
        Some(constant) => Err(format!("`%{name}` is the constant `{constant}`")),
        None => Ok(()),
    }
}

/// Checks that each place may be changed, and that the new name is free.
fn check_places(project: &Project, places: &[MentionPlace], new_path: &str) -> Result<(), String> {
    for place in places {
        if project.files.is_library(&place.path) {
            let name = project.files.name(&place.path);
            return Err(format!("{name} uses this name too, and comes with Gimlet"));
        }
        let taken = place.analysis.loaded.mentions.iter().find(|other| {
            other.in_task_file == place.mention.in_task_file
                && place.analysis.macro_at(other) == Some(new_path)
        });
        if let Some(taken) = taken {
            let name = &place.analysis.loaded.sources.file(taken.span.file).name;
            return Err(format!("{name} has a macro `{new_path}` already"));
        }
    }
    Ok(())
}
