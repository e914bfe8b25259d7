//! Diagnostics as a user reads them: the line, the caret, the remedy and the chain of includes.
//!
//! ```text
//! error: `Adafactor` has no parameter `decay_rat`
//!   --> runs/small.gin:12:21
//!    |
//! 12 | adafactor.Adafactor.decay_rat = 0.8
//!    |                     ^^^^^^^^^ did you mean `decay_rate`?
//! ```

use std::ops::Range;

use annotate_snippets::{Annotation, AnnotationKind, Element, Group, Level, Renderer, Snippet};

use super::diagnostic::{Diagnostic, Diagnostics, Severity};
use super::source::{SourceMap, Span};

/// The number of shown errors; one mistake can cause many.
const MAX_SHOWN: usize = 20;

/// Longer pictures are cut around the relevant place.
const MAX_WINDOW: usize = 2000;

/// The length of the shown part of a cut line.
const MAX_LINE: usize = 200;

/// Places within this many lines and bytes share a picture.
const NEAR: (usize, usize) = (10, MAX_WINDOW);

impl Diagnostics {
    /// Renders the first diagnostics of each severity, warnings first, with terminal colours on
    /// request.
    pub fn render(&self, color: bool) -> String {
        self.render_up_to(MAX_SHOWN, color)
    }

    /// Renders all diagnostics.
    pub fn render_all(&self, color: bool) -> String {
        self.render_up_to(usize::MAX, color)
    }

    fn render_up_to(&self, max_shown: usize, color: bool) -> String {
        let renderer = if color { Renderer::styled() } else { Renderer::plain() };
        let of = |severity| self.list.iter().filter(move |d| d.severity == severity);
        let mut out = String::new();
        for severity in [Severity::Warning, Severity::Error] {
            for diagnostic in of(severity).take(max_shown) {
                out.push_str(&self.one(diagnostic, &renderer));
                out.push_str("\n\n");
            }
            let hidden = of(severity).count().saturating_sub(max_shown);
            if hidden > 0 {
                let (level, word) = level(severity);
                let title = level.primary_title(match hidden {
                    1 => format!("one more {word} is not shown"),
                    _ => format!("{hidden} more {word}s are not shown"),
                });
                out.push_str(&renderer.render(&[Group::with_title(title)]));
                out.push_str("\n\n");
            }
        }
        out
    }

    fn one(&self, diagnostic: &Diagnostic, renderer: &Renderer) -> String {
        let text = renderer.render(&[group(diagnostic, &self.sources)]);
        let Some((span, _)) = diagnostic.place else { return text };
        // The renderer counts columns from the start of the text that it gets, which for a very
        // long line is not the start of the line; and in the text of a flag a position means
        // little.
        let file = self.sources.file(span.file);
        let shown = position(span, &self.sources, window(&file.text, &[span]).start);
        let meant = match is_flag(&self.sources, span) {
            true => file.name.clone(),
            false => position(span, &self.sources, line_start(&file.text, span.start)),
        };
        if shown == meant { text } else { text.replacen(&shown, &meant, 1) }
    }
}

/// `name:line:column`, the column counted from byte `start`.
fn position(span: Span, sources: &SourceMap, start: usize) -> String {
    let file = sources.file(span.file);
    let start = start.max(line_start(&file.text, span.start));
    let column = file.text[start..span.start].chars().count() + 1;
    format!("{}:{}:{column}", file.name, sources.line_column(span).0)
}

fn level(severity: Severity) -> (Level<'static>, &'static str) {
    match severity {
        Severity::Warning => (Level::WARNING, "warning"),
        Severity::Error => (Level::ERROR, "error"),
    }
}

fn group<'a>(diagnostic: &'a Diagnostic, sources: &'a SourceMap) -> Group<'a> {
    let title = level(diagnostic.severity).0.primary_title(diagnostic.message.as_str());
    let mut group = Group::with_title(title);
    let mut from_flag = false;
    if let Some((span, label)) = &diagnostic.place {
        from_flag = is_flag(sources, *span);
        group = group.elements(place(*span, label, &diagnostic.related, sources));
        let chain = include_chain(*span, sources);
        group = group.elements(chain.into_iter().map(|line| Level::NOTE.message(line)));
    }
    let flag_help = diagnostic.flag_help.as_ref().filter(|_| from_flag);
    let help = match flag_help {
        Some(help) => std::slice::from_ref(help),
        None => &diagnostic.help,
    };
    group.elements(help.iter().map(|help| Level::HELP.message(help.as_str())))
}

/// Returns the element of the place, together with the related ones, which may share its picture.
fn place<'a>(
    span: Span,
    label: &'a str,
    related: &'a [(Span, String)],
    sources: &'a SourceMap,
) -> Vec<Element<'a>> {
    let (near, far): (Vec<_>, Vec<_>) =
        related.iter().partition(|(other, _)| is_near(*other, span, sources));
    let primary = (span, label, AnnotationKind::Primary);
    let context =
        near.into_iter().map(|(span, label)| (*span, label.as_str(), AnnotationKind::Context));
    let marks: Vec<Mark> = std::iter::once(primary).chain(context).collect();
    let mut elements = vec![snippet(&marks, sources)];
    for (span, label) in far {
        elements.push(snippet(&[(*span, label, AnnotationKind::Context)], sources));
    }
    elements
}

type Mark<'a> = (Span, &'a str, AnnotationKind);

/// Returns the lines with the marks, which lie near each other; the first mark gives the position.
fn snippet<'a>(marks: &[Mark<'a>], sources: &'a SourceMap) -> Element<'a> {
    let (first, ..) = marks[0];
    let file = sources.file(first.file);
    let text = file.text.as_str();
    let spans: Vec<Span> = marks.iter().map(|(span, ..)| *span).collect();
    let window = window(text, &spans);
    let annotation = |(span, label, kind): &Mark<'a>| -> Annotation<'a> {
        // A span over several lines is marked on its first.
        let end = span.end.min(line_end(text, span.start)).min(window.end).max(span.start);
        let label = (!label.is_empty()).then_some(*label);
        kind.span(span.start - window.start..end - window.start).label(label)
    };
    Snippet::source(&text[window.clone()])
        .path(file.name.as_str())
        .line_start(sources.line_column(Span { start: window.start, ..first }).0)
        .line_numbering(!is_flag(sources, first))
        .annotations(marks.iter().map(annotation))
        .into()
}

/// The whole lines of some places that lie near each other, or a part of one very long line.
fn window(text: &str, spans: &[Span]) -> Range<usize> {
    let starts = || spans.iter().map(|span| span.start);
    let (Some(first), Some(last)) = (starts().min(), starts().max()) else { return 0..0 };
    let lines = line_start(text, first)..line_end(text, last);
    if lines.len() <= MAX_WINDOW {
        return lines;
    }
    let boundary = |mut at: usize| {
        while !text.is_char_boundary(at) {
            at += 1;
        }
        at
    };
    let start = boundary(first.saturating_sub(MAX_LINE / 4).max(lines.start));
    start..boundary((last + MAX_LINE).min(lines.end))
}

fn include_chain(span: Span, sources: &SourceMap) -> Vec<String> {
    let includes = std::iter::successors(sources.file(span.file).included_from, |span| {
        sources.file(span.file).included_from
    });
    let line = |span: Span| (sources.file(span.file).name.as_str(), sources.line_column(span).0);
    includes.map(line).map(|(name, line)| format!("included from {name}:{line}")).collect()
}

/// Whether a flag gave the text; the text is then named like the flag.
fn is_flag(sources: &SourceMap, span: Span) -> bool {
    sources.file(span.file).name.starts_with("--")
}

/// Whether two places fit into one picture.
fn is_near(a: Span, b: Span, sources: &SourceMap) -> bool {
    if a.file != b.file {
        return false;
    }
    let text = &sources.file(a.file).text;
    let (low, high) = (a.start.min(b.start), a.start.max(b.start));
    high - low < NEAR.1 && text[low..high].matches('\n').count() < NEAR.0
}

fn line_start(text: &str, at: usize) -> usize {
    text[..at].rfind('\n').map_or(0, |at| at + 1)
}

fn line_end(text: &str, at: usize) -> usize {
    let end = text[at..].find('\n').map_or(text.len(), |length| at + length);
    if text[..end].ends_with('\r') && end > at { end - 1 } else { end }
}

#[cfg(test)]
mod tests {
    use crate::{Diagnostics, SourceFile, SourceMap, Span, parse};

    fn rendered(name: &str, text: &str) -> String {
        let mut sources = SourceMap::default();
        let outer = "include 'b.gin'\n".to_string();
        let outer =
            sources.add(SourceFile { name: "a.gin".into(), text: outer, included_from: None });
        let from = (!name.starts_with("--")).then_some(Span { file: outer, start: 8, end: 15 });
        let file =
            sources.add(SourceFile { name: name.into(), text: text.into(), included_from: from });
        let list = parse(file, text).1;
        Diagnostics { sources, list }.render(false)
    }

    #[test]
    fn a_diagnostic_shows_the_line_the_caret_and_the_includes() {
        let expected = "error: `adam` is not a valid value
 --> b.gin:2:5
  |
2 | X = adam
  |     ^^^^ did you forget the quotes?
  |
  = note: included from a.gin:1
  = help: write `X = 'adam'`

";
        assert_eq!(rendered("b.gin", "\nX = adam\n"), expected);
    }

    #[test]
    fn a_flag_is_named_and_its_remedy_is_for_the_shell() {
        let expected = "error: `adam` is not a valid value
--> --gin.X
 |
 | X = adam
 |     ^^^^ did you forget the quotes?
 |
 = help: write `--gin.X=\"'adam'\"`: the shell eats the outer quotes

";
        assert_eq!(rendered("--gin.X", "X = adam"), expected);
    }

    #[test]
    fn a_line_of_megabytes_is_cut_around_its_mistake() {
        let text = format!("X = [{} adam, {}]", "1, ".repeat(500_000), "2, ".repeat(500_000));
        let text = rendered("b.gin", &text);
        assert!(text.len() < 2000 && text.contains("b.gin:1:1500007"), "{text}");
    }
}
