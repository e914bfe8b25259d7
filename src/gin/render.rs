//! Diagnostics as a user reads them: the line, the caret, the remedy and the chain of includes.
//!
//! ```text
//! error: `Adafactor` has no parameter `decay_rat`
//!   --> runs/small.gin:12:21
//!    |
//! 12 | adafactor.Adafactor.decay_rat = 0.8
//!    |                     ^^^^^^^^^ did you mean `decay_rate`?
//! ```

use annotate_snippets::{
    Annotation, AnnotationKind, Element, Group, Level, Origin, Renderer, Snippet,
};

use super::diagnostic::{Diagnostic, Diagnostics, Severity};
use super::source::{SourceMap, Span};

/// How many errors are shown; one mistake can cause many.
const MAX_SHOWN: usize = 20;

/// Longer lines are cut around the place that matters.
const MAX_LINE: usize = 400;

impl Diagnostics {
    /// All of it as text, warnings first, with terminal colours if asked for.
    pub fn render(&self, color: bool) -> String {
        let renderer = if color { Renderer::styled() } else { Renderer::plain() };
        let of = |severity| self.list.iter().filter(move |d| d.severity == severity);
        let mut out = String::new();
        for severity in [Severity::Warning, Severity::Error] {
            for diagnostic in of(severity).take(MAX_SHOWN) {
                out.push_str(&renderer.render(&[group(diagnostic, &self.sources)]));
                out.push_str("\n\n");
            }
            let hidden = of(severity).count().saturating_sub(MAX_SHOWN);
            if hidden > 0 {
                let (level, word) = level(severity);
                let title = level.primary_title(format!("{hidden} more {word}s are not shown"));
                out.push_str(&renderer.render(&[Group::with_title(title)]));
                out.push_str("\n\n");
            }
        }
        out
    }
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

/// The place, and with it or after it the related ones.
fn place<'a>(
    span: Span,
    label: &'a str,
    related: &'a [(Span, String)],
    sources: &'a SourceMap,
) -> Vec<Element<'a>> {
    let near = |other: &Span| same_line(*other, span, sources) || is_near(*other, span, sources);
    let (near, far): (Vec<_>, Vec<_>) = related.iter().partition(|(other, _)| near(other));
    let primary = (span, label, AnnotationKind::Primary);
    let context =
        near.into_iter().map(|(span, label)| (*span, label.as_str(), AnnotationKind::Context));
    let marks: Vec<Mark> = std::iter::once(primary).chain(context).collect();
    let mut elements = snippet(&marks, sources);
    for (span, label) in far {
        elements.extend(snippet(&[(*span, label, AnnotationKind::Context)], sources));
    }
    elements
}

type Mark<'a> = (Span, &'a str, AnnotationKind);

/// Lines that hold the marks, which lie near each other; the first mark gives the position.
fn snippet<'a>(marks: &[Mark<'a>], sources: &'a SourceMap) -> Vec<Element<'a>> {
    let (first, ..) = marks[0];
    let file = sources.file(first.file);
    let text = file.text.as_str();
    let start = marks.iter().map(|(span, ..)| line_start(text, span.start)).min();
    let start = start.expect("there is a mark");
    let last = marks.iter().map(|(span, ..)| span.start).max().expect("there is a mark");
    let window = start..line_end(text, last);
    let (line, column) = sources.line_column(first);
    let origin = match is_flag(sources, first) {
        true => Origin::path(file.name.as_str()),
        false => Origin::path(file.name.as_str()).line(line).char_column(column),
    };
    let (window, cut) = if window.len() > MAX_LINE && marks.len() == 1 {
        around(text, first.start, window)
    } else {
        (window, false)
    };
    let annotation = |(span, label, kind): &Mark<'a>| -> Annotation<'a> {
        // A span over several lines is marked on its first.
        let end = span.end.min(line_end(text, span.start)).clamp(span.start, window.end);
        let range = span.start - window.start..end - window.start;
        let label = (!label.is_empty()).then_some(*label);
        kind.span(range).label(label)
    };
    let line = sources.line_column(Span { start: window.start, ..first }).0;
    let snippet = Snippet::source(&text[window.clone()])
        .line_start(line)
        .line_numbering(!is_flag(sources, first) && !cut)
        .annotations(marks.iter().map(annotation));
    vec![origin.into(), snippet.into()]
}

/// A part of a very long line, and the fact that it is one.
fn around(text: &str, at: usize, line: std::ops::Range<usize>) -> (std::ops::Range<usize>, bool) {
    let boundary = |mut at: usize| {
        while !text.is_char_boundary(at) {
            at += 1;
        }
        at
    };
    let start = boundary(at.saturating_sub(MAX_LINE / 8).max(line.start));
    (start..boundary((start + MAX_LINE / 4).min(line.end)), true)
}

fn include_chain(span: Span, sources: &SourceMap) -> Vec<String> {
    let includes = std::iter::successors(sources.file(span.file).included_from, |span| {
        sources.file(span.file).included_from
    });
    let line = |span: Span| (sources.file(span.file).name.as_str(), sources.line_column(span).0);
    includes.map(line).map(|(name, line)| format!("included from {name}:{line}")).collect()
}

/// Whether the text was given by a flag, whose name it then bears.
fn is_flag(sources: &SourceMap, span: Span) -> bool {
    sources.file(span.file).name.starts_with("--")
}

fn same_line(a: Span, b: Span, sources: &SourceMap) -> bool {
    if a.file != b.file {
        return false;
    }
    let text = &sources.file(a.file).text;
    line_start(text, a.start) == line_start(text, b.start)
}

/// Whether two places fit into one picture.
fn is_near(a: Span, b: Span, sources: &SourceMap) -> bool {
    if a.file != b.file {
        return false;
    }
    let text = &sources.file(a.file).text;
    let (low, high) = (a.start.min(b.start), a.start.max(b.start));
    high - low < 10 * MAX_LINE && text[low..high].matches('\n').count() < 10
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
    use crate::gin::{Diagnostics, SourceFile, SourceMap, Span, parse};

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
        let expected = "error: `adam` is no value
 --> b.gin:2:5
  |
2 | X = adam
  |     ^^^^ did you forget the quotes?
  = note: included from a.gin:1
  = help: write `X = 'adam'`

";
        assert_eq!(rendered("b.gin", "\nX = adam\n"), expected);
    }

    #[test]
    fn a_flag_is_named_and_its_remedy_is_for_the_shell() {
        let expected = "error: `adam` is no value
 --> --gin.X
  |
  | X = adam
  |     ^^^^ did you forget the quotes?
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
