//! The errors that an editor shows in a file: its own mistakes, and at each `include` those of the
//! included file.
//!
//! A file that is a part of runs may omit values that they give: a macro, or a required value. That
//! is a hint there. In a configuration that is a run, such a macro is an error; a required value is
//! a warning, since flags may still give it. A file that itself contains `%gin.REQUIRED` expects to
//! be completed, so it is a part.

use lsp_types::{DiagnosticRelatedInformation, DiagnosticSeverity, Location, Message};

use crate::gin::{Diagnostic, Missing, Severity, SourceMap, Span};

use super::analysis::Analysis;
use super::files::Files;
use super::position::Lines;

/// The greatest number of shown mistakes: a file that is not gin has thousands.
const MAX_SHOWN: usize = 500;

/// Returns the mistakes in the file.
pub fn diagnose(analysis: &Analysis, is_part: bool, files: &Files) -> Vec<lsp_types::Diagnostic> {
    let is_part = is_part || waits(analysis);
    let shown = Shown { analysis, is_part, files, lines: Lines::new(&analysis.text) };
    let mut out = Vec::new();
    let unread = analysis.unread.iter().filter(|_| !is_part);
    for diagnostic in analysis.loaded.diagnostics.iter().chain(unread) {
        let Some(shown) = shown.diagnostic(diagnostic) else { continue };
        // A file that is included twice has its mistakes twice.
        if !out.contains(&shown) {
            out.push(shown);
        }
        if out.len() == MAX_SHOWN {
            break;
        }
    }
    out
}

/// Whether the file itself asks for a value.
fn waits(analysis: &Analysis) -> bool {
    analysis.loaded.diagnostics.iter().any(|diagnostic| {
        let place = diagnostic.place.as_ref().map(|(span, _)| span.file);
        diagnostic.missing == Some(Missing::Value)
            && place.is_some_and(|file| analysis.ids.contains(&file))
    })
}

/// Returns the place of a span, for the editor.
pub fn location(span: Span, sources: &SourceMap, files: &Files) -> Location {
    let file = sources.file(span.file);
    let uri = files.uri(&files.path(&file.name));
    Location { uri, range: Lines::new(&file.text).range(span.start..span.end) }
}

struct Shown<'a> {
    analysis: &'a Analysis,
    is_part: bool,
    files: &'a Files,
    lines: Lines<'a>,
}

impl Shown<'_> {
    /// Converts a diagnostic; `None` if it belongs to another file.
    fn diagnostic(&self, diagnostic: &Diagnostic) -> Option<lsp_types::Diagnostic> {
        let (place, label) = match &diagnostic.place {
            Some((span, label)) => (Some(*span), label.as_str()),
            None => (None, ""),
        };
        let here = match place {
            Some(span) => self.here(span)?,
            None => Span { start: 0, end: 0, file: self.analysis.id()? },
        };
        let inside = place.filter(|span| *span != here);
        let severity = self.severity(diagnostic, inside.is_some())?;
        let sources = &self.analysis.loaded.sources;
        let related = diagnostic.related.iter().map(|(span, text)| (*span, text.as_str()));
        let related = inside.map(|span| (span, "here")).into_iter().chain(related);
        let related: Vec<_> =
            related.filter_map(|(span, text)| self.related(span, text, sources)).collect();
        Some(lsp_types::Diagnostic {
            range: self.lines.range(here.start..here.end),
            severity: Some(severity),
            source: Some("gimlet".to_string()),
            message: Message::String(self.message(diagnostic, label, inside)),
            related_information: (!related.is_empty()).then_some(related),
            ..lsp_types::Diagnostic::default()
        })
    }

    /// Returns the span itself, or the statement of this file that loaded the text of the span.
    fn here(&self, span: Span) -> Option<Span> {
        let sources = &self.analysis.loaded.sources;
        let mut chain =
            std::iter::successors(Some(span), |span| sources.file(span.file).included_from);
        chain.find(|span| self.analysis.ids.contains(&span.file))
    }

    fn severity(&self, diagnostic: &Diagnostic, inside: bool) -> Option<DiagnosticSeverity> {
        let is_run = self.analysis.is_run && !self.is_part;
        match (diagnostic.missing, diagnostic.severity) {
            (Some(_), _) if !is_run => (!inside).then_some(DiagnosticSeverity::Hint),
            (Some(Missing::Value), _) => Some(DiagnosticSeverity::Warning),
            (_, Severity::Error) => Some(DiagnosticSeverity::Error),
            (_, Severity::Warning) => (!inside).then_some(DiagnosticSeverity::Warning),
        }
    }

    fn message(&self, diagnostic: &Diagnostic, label: &str, inside: Option<Span>) -> String {
        let sources = &self.analysis.loaded.sources;
        let mut message = match inside {
            Some(span) => {
                let (line, _) = sources.line_column(span);
                format!("{}:{line}: {}", sources.file(span.file).name, diagnostic.message)
            }
            None => diagnostic.message.clone(),
        };
        if !label.is_empty() {
            message.push_str(&format!("\n{label}"));
        }
        for help in &diagnostic.help {
            message.push_str(&format!("\nhelp: {help}"));
        }
        message
    }

    fn related(
        &self,
        span: Span,
        text: &str,
        sources: &SourceMap,
    ) -> Option<DiagnosticRelatedInformation> {
        let is_flag = sources.file(span.file).name.starts_with("--");
        let location = || location(span, sources, self.files);
        (!is_flag).then(|| DiagnosticRelatedInformation {
            location: location(),
            message: text.to_string(),
        })
    }
}
