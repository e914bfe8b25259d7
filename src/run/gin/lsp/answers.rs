//! Answers the editor's requests, each from its parameters to its result.

use std::path::PathBuf;
use std::rc::Rc;

use lsp_types::{
    CompletionItem, CompletionParams, Contents, Definition, DefinitionParams, DefinitionResponse,
    DocumentFormattingParams, Documentation, Hover, HoverParams, MarkupContent, MarkupKind,
    Position, PrepareRenameParams, ReferenceParams, RenameParams, TextDocumentPositionParams,
    TextEdit,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value as Json;

use crate::gin::{Named, Unformatted, format};

use super::analysis::Analysis;
use super::context::context;
use super::hover::hover;
use super::navigate::{definitions, references};
use super::position::Lines;
use super::project::Project;
use super::proposals::{Proposal, proposals};
use super::rename::{name_at, rename};

/// The answer to a request.
pub enum Answer {
    /// The result, as the protocol writes it.
    Result(Json),
    /// A refusal for the user, with the reason.
    Refused(String),
    /// The parameters do not fit the method.
    BadParams(String),
    /// The method does not exist here.
    Unknown,
}

/// Answers a request.
pub fn answer(project: &mut Project, method: &str, params: Json) -> Answer {
    match method {
        "textDocument/completion" => with(params, |params| completions(project, params)),
        "textDocument/hover" => with(params, |params| hovered(project, params)),
        "textDocument/definition" => with(params, |params| defined(project, params)),
        "textDocument/references" => with(params, |params| referred(project, params)),
        "textDocument/prepareRename" => with(params, |params| renamable(project, params)),
        "textDocument/rename" => with(params, |params| renamed(project, params)),
        "textDocument/formatting" => with(params, |params| formatted(project, params)),
        _ => Answer::Unknown,
    }
}

fn with<P: DeserializeOwned, R: Serialize>(
    params: Json,
    answer: impl FnOnce(P) -> Result<R, String>,
) -> Answer {
    match serde_json::from_value(params) {
        Err(error) => Answer::BadParams(error.to_string()),
        Ok(params) => match answer(params) {
            Ok(result) => {
                Answer::Result(serde_json::to_value(result).expect("results are plain data"))
            }
            Err(why) => Answer::Refused(why),
        },
    }
}

/// A place in a file, and the file's analysis.
struct Asked {
    analysis: Rc<Analysis>,
    offset: usize,
}

/// Finds the place; `None` if the file no longer exists.
fn asked(project: &mut Project, at: &TextDocumentPositionParams) -> Option<Asked> {
    let path: PathBuf = project.files.path_of_uri(&at.text_document.uri);
    let analysis = project.analysis(&path)?;
    let offset = Lines::new(&analysis.text).offset(at.position);
    Some(Asked { analysis, offset })
}

fn completions(
    project: &mut Project,
    params: CompletionParams,
) -> Result<Vec<CompletionItem>, String> {
    let position = params.text_document_position_params.position;
    let Some(Asked { analysis, offset }) = asked(project, &params.text_document_position_params)
    else {
        return Ok(Vec::new());
    };
    let Some(typed) = context(&analysis.text, offset) else { return Ok(Vec::new()) };
    let lines = Lines::new(&analysis.text);
    let range = lines.range(offset - typed.word.len()..offset);
    if range.start.line != position.line {
        return Ok(Vec::new());
    }
    let imports = Imports::new(&analysis);
    let proposed = proposals(project, &analysis, &typed).into_iter();
    Ok(proposed.map(|proposal| item(proposal, range, &imports)).collect())
}

fn item(proposal: Proposal, range: lsp_types::Range, imports: &Imports) -> CompletionItem {
    let Proposal { text, kind, detail, doc, import } = proposal;
    let edit = import.and_then(|import| imports.added(&import));
    let doc = MarkupContent { kind: MarkupKind::Markdown, value: doc };
    CompletionItem {
        label: text.trim_end().to_string(),
        kind: Some(kind),
        detail: (!detail.is_empty()).then_some(detail),
        documentation: (!doc.value.is_empty()).then_some(Documentation::MarkupContent(doc)),
        filter_text: Some(text.clone()),
        text_edit: Some(TextEdit { range, new_text: text }.into()),
        additional_text_edits: edit.map(|edit| vec![edit]),
        ..CompletionItem::default()
    }
}

/// The imports of a file, and the place of the next one.
struct Imports {
    known: Vec<String>,
    /// The start of the line after the last import; without imports, of the file.
    position: Position,
    /// Whether that line does not exist yet, because the last import ends the file.
    needs_line: bool,
}

impl Imports {
    fn new(analysis: &Analysis) -> Self {
        let text = &analysis.text;
        let lines = Lines::new(text);
        let imports = analysis.imports();
        let last = imports.iter().map(|import| import.span.end).max();
        let end = last.map(|last| text[last..].find('\n').map_or(text.len(), |at| last + at + 1));
        let at = end.unwrap_or(0);
        Self {
            known: imports.iter().map(|import| import.module.clone()).collect(),
            position: lines.position(at),
            needs_line: at > 0 && !text[..at].ends_with('\n'),
        }
    }

    /// The edit that adds a statement; `None` if the file imports the module.
    fn added(&self, statement: &str) -> Option<TextEdit> {
        let module = match statement.strip_prefix("import ") {
            Some(module) => module.to_string(),
            None => statement.strip_prefix("from ")?.replace(" import ", "."),
        };
        if self.known.contains(&module) {
            return None;
        }
        let range = lsp_types::Range { start: self.position, end: self.position };
        let before = if self.needs_line { "\n" } else { "" };
        Some(TextEdit { range, new_text: format!("{before}{statement}\n") })
    }
}

fn hovered(project: &mut Project, params: HoverParams) -> Result<Option<Hover>, String> {
    let Some(Asked { analysis, offset }) = asked(project, &params.text_document_position_params)
    else {
        return Ok(None);
    };
    let Some(mention) = analysis.mention(offset) else { return Ok(None) };
    let shown = hover(&analysis, mention, project.registry(&analysis), &project.files);
    let range = Lines::new(&analysis.text).range(mention.span.start..mention.span.end);
    Ok(shown.map(|value| Hover {
        contents: Contents::MarkupContent(MarkupContent { kind: MarkupKind::Markdown, value }),
        range: Some(range),
    }))
}

fn defined(
    project: &mut Project,
    params: DefinitionParams,
) -> Result<Option<DefinitionResponse>, String> {
    let Some(Asked { analysis, offset }) = asked(project, &params.text_document_position_params)
    else {
        return Ok(None);
    };
    let found = definitions(project, &analysis, offset);
    Ok(Some(DefinitionResponse::Definition(Definition::LocationList(found))))
}

fn referred(
    project: &mut Project,
    params: ReferenceParams,
) -> Result<Vec<lsp_types::Location>, String> {
    project.rescan();
    let Some(Asked { analysis, offset }) = asked(project, &params.text_document_position_params)
    else {
        return Ok(Vec::new());
    };
    let places = references(project, &analysis, offset);
    let is_definition = |named: &Named| matches!(named, Named::MacroDefinition(_));
    let wanted = places
        .iter()
        .filter(|place| params.context.include_declaration || !is_definition(&place.mention.named));
    Ok(wanted.map(|place| place.location(project)).collect())
}

/// Returns one edit of the whole text, if its layout is not that of `gimlet gin fmt`.
fn formatted(
    project: &mut Project,
    params: DocumentFormattingParams,
) -> Result<Vec<TextEdit>, String> {
    let path = project.files.path_of_uri(&params.text_document.uri);
    let analysis = project.analysis(&path).ok_or("there is no such file")?;
    let text = &analysis.text;
    let new_text = format(text).map_err(|why| match why {
        Unformatted::Mistakes(mistakes) => {
            let first = mistakes.first().map_or("", |mistake| &mistake.message);
            format!("fix the mistakes first: {first}")
        }
        Unformatted::Unfaithful => {
            "a bug in gimlet: the text would mean something else".to_string()
        }
    })?;
    if new_text == *text {
        return Ok(Vec::new());
    }
    Ok(vec![TextEdit { range: Lines::new(text).range(0..text.len()), new_text }])
}

fn renamable(
    project: &mut Project,
    params: PrepareRenameParams,
) -> Result<lsp_types::Range, String> {
    let Asked { analysis, offset } =
        asked(project, &params.text_document_position_params).ok_or("there is no such file")?;
    Ok(Lines::new(&analysis.text).range(name_at(&analysis, offset)?))
}

fn renamed(
    project: &mut Project,
    params: RenameParams,
) -> Result<lsp_types::WorkspaceEdit, String> {
    project.rescan();
    let Asked { analysis, offset } =
        asked(project, &params.text_document_position_params).ok_or("there is no such file")?;
    rename(project, &analysis, offset, &params.new_name)
}
