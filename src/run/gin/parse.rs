//! `gimlet gin parse`: prints each file by itself as JSON, for programs and for comparing with
//! gin-config.
//!
//! Includes are named, not followed, and no name is looked up. Statements before a file's first
//! mistake are printed, as gin-config reads them one after another.

use clap::Args;
use serde_json::{Map, Value as Json, json};

use crate::gin::ast::{Argument, Import, Statement, StatementKind, Target};
use crate::gin::{Diagnostics, Severity, SourceFile, SourceMap, Span, parse, to_json};
use crate::run::failure::Failure;
use crate::run::output::write_error;

use super::{input, write};

/// Records are collected up to this many bytes, and then printed.
const WORTH_WRITING: usize = 1 << 16;

/// Flags of `gimlet gin parse`.
#[derive(Args, Debug)]
pub struct ParseArgs {
    /// Gin files; `-` is standard input.
    #[arg(value_name = "FILE", required = true)]
    files: Vec<String>,
}

/// Prints the records of every file.
pub fn run(args: &ParseArgs, color: bool) -> Result<(), Failure> {
    let mut wrong = false;
    for file in &args.files {
        match input::read(file) {
            Ok(text) => wrong |= !print_records(file, text, color)?,
            Err(failure) => {
                failure.report(color);
                let message = failure.to_string();
                write(&format!(
                    "{}\n",
                    json!({"file": file, "kind": "error", "message": message})
                ))?;
                wrong = true;
            }
        }
    }
    if wrong { Err(Failure::Said) } else { Ok(()) }
}

/// Prints the records of one file; returns whether it is without mistakes.
fn print_records(name: &str, text: String, color: bool) -> Result<bool, Failure> {
    let mut sources = SourceMap::default();
    let source = SourceFile { name: input::name(name).to_string(), text, included_from: None };
    let file = sources.add(source);
    let text = &sources.file(file).text;
    let (statements, mut diagnostics) = parse(file, text);
    diagnostics.retain(|diagnostic| diagnostic.severity == Severity::Error);
    let error = diagnostics.first();
    let mistake = error.map(|error| start(error.place.as_ref()));
    let mut records = Records { name, lines: Lines::new(text), count: 0, out: String::new() };
    for statement in statements.iter().take_while(|statement| ends_before(statement, mistake, text))
    {
        records.statement(statement)?;
    }
    match error.zip(mistake) {
        Some((error, at)) => records.error(&error.message, at)?,
        None => records.end()?,
    }
    write(&records.out)?;
    let correct = error.is_none();
    if !correct {
        write_error(&Diagnostics { sources, list: diagnostics }.render(color));
    }
    Ok(correct)
}

/// Whether a statement ends on a line before the mistake, if there is one. A block with a wrong
/// line does not: gin-config reads a block completely or not at all.
fn ends_before(statement: &Statement, mistake: Option<usize>, text: &str) -> bool {
    mistake.is_none_or(|at| {
        let between = text.get(statement.span.end..at);
        between.is_some_and(|between| between.contains(['\n', '\r']))
    })
}

fn start(place: Option<&(Span, String)>) -> usize {
    place.expect("a mistake in a text has a place").0.start
}

/// The records of one file, in the order of the text.
struct Records<'t> {
    name: &'t str,
    lines: Lines<'t>,
    count: usize,
    out: String,
}

impl Records<'_> {
    fn statement(&mut self, statement: &Statement) -> Result<(), Failure> {
        let at = statement.span.start;
        match &statement.kind {
            StatementKind::Binding(target, argument) => self.binding(target, argument, at, false),
            StatementKind::Block(target, arguments) => {
                let fields = json!({"scope": target.scope.join("/"), "selector": target.selector});
                self.record("block", fields, at)?;
                let mut lines = arguments.iter();
                lines.try_for_each(|line| self.binding(target, line, line.span.start, true))
            }
            StatementKind::Macro(definition) => {
                let path = &definition.path;
                let (scope, name) = path.rsplit_once('/').unwrap_or(("", path));
                let value = to_json(&definition.value);
                self.record("macro", json!({"scope": scope, "selector": name, "value": value}), at)
            }
            StatementKind::Import(import) => self.record("import", import_fields(import), at),
            StatementKind::Include(include) => {
                self.record("include", json!({"value": include.path}), at)
            }
        }
    }

    fn binding(
        &mut self,
        target: &Target,
        argument: &Argument,
        at: usize,
        in_block: bool,
    ) -> Result<(), Failure> {
        let fields = json!({
            "scope": target.scope.join("/"),
            "selector": target.selector,
            "arg": argument.name,
            "value": to_json(&argument.value),
            "in_block": in_block,
        });
        self.record("binding", fields, at)
    }

    /// Writes a statement's record: its own fields between the common ones.
    fn record(&mut self, kind: &str, fields: Json, at: usize) -> Result<(), Failure> {
        self.count += 1;
        let line = self.lines.number(at);
        self.write(kind, fields, json!({"line": line}))
    }

    fn error(&mut self, message: &str, at: usize) -> Result<(), Failure> {
        let line = self.lines.number(at);
        self.write("error", json!({"message": message}), json!({"line": line}))
    }

    fn end(&mut self) -> Result<(), Failure> {
        self.write("eof", json!({"statements": self.count}), json!({}))
    }

    fn write(&mut self, kind: &str, fields: Json, more: Json) -> Result<(), Failure> {
        let mut record = Map::new();
        record.insert("file".to_string(), json!(self.name));
        record.insert("kind".to_string(), json!(kind));
        for part in [fields, more] {
            let Json::Object(part) = part else { unreachable!("fields are objects") };
            record.extend(part);
        }
        self.out.push_str(&Json::Object(record).to_string());
        self.out.push('\n');
        if self.out.len() < WORTH_WRITING {
            return Ok(());
        }
        write(&std::mem::take(&mut self.out))
    }
}

fn import_fields(import: &Import) -> Json {
    let mut fields = json!({"module": import.module, "is_from": import.from});
    if let Some(alias) = &import.alias {
        fields["alias"] = json!(alias);
    }
    fields
}

/// The numbers of lines, counted from 1. Queries come in order, so each byte is seen once.
struct Lines<'t> {
    text: &'t [u8],
    at: usize,
    number: usize,
}

impl<'t> Lines<'t> {
    fn new(text: &'t str) -> Self {
        Self { text: text.as_bytes(), at: 0, number: 1 }
    }

    /// Returns the line of a byte, which must not lie before the last queried one. As in Python, a
    /// lone `\r` ends a line too.
    fn number(&mut self, at: usize) -> usize {
        for i in self.at..at {
            let ends = match self.text[i] {
                b'\n' => true,
                b'\r' => self.text.get(i + 1) != Some(&b'\n'),
                _ => false,
            };
            self.number += usize::from(ends);
        }
        self.at = self.at.max(at);
        self.number
    }
}
