//! The statements of one gin text, before names are resolved.

use std::fmt::{Display, Formatter};

use super::source::Span;
use super::value::Value;

/// One statement and the text it covers.
#[derive(Clone, Debug, PartialEq)]
pub struct Statement {
    /// The kind of the statement, with its parts.
    pub kind: StatementKind,
    /// The whole statement.
    pub span: Span,
}

/// The kinds of statements.
#[derive(Clone, Debug, PartialEq)]
pub enum StatementKind {
    /// `scope/selector.arg = value`
    Binding(Target, Argument),
    /// `scope/selector:` and an indented block of `arg = value`
    Block(Target, Vec<Argument>),
    /// `scope/NAME = value`
    Macro(MacroDefinition),
    /// `import a.b as c`, `from a import b as c`
    Import(Import),
    /// `include 'path'`
    Include(Include),
}

/// The configurable that a binding or block addresses.
#[derive(Clone, Debug, PartialEq)]
pub struct Target {
    /// Scope components; empty for the root.
    pub scope: Vec<String>,
    /// The selector as written, without the argument.
    pub selector: String,
    /// Place of the selector in the text.
    pub span: Span,
}

/// `arg = value`
#[derive(Clone, Debug, PartialEq)]
pub struct Argument {
    /// The argument's name.
    pub name: String,
    /// Place of the name.
    pub span: Span,
    /// The value bound.
    pub value: Value,
}

/// `scope/NAME = value`
#[derive(Clone, Debug, PartialEq)]
pub struct MacroDefinition {
    /// Scope components and the macro's name, joined with `/`.
    pub path: String,
    /// Place of the key.
    pub span: Span,
    /// The macro's value.
    pub value: Value,
}

/// An import of a module or of a symbol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Import {
    /// The full dotted path of the import: `a.b` for `import a.b` and for `from a import b`.
    pub module: String,
    /// Whether it was written `from a import b`.
    pub from: bool,
    /// The name after `as`.
    pub alias: Option<String>,
    /// Place of the module's name.
    pub span: Span,
}

impl Import {
    /// The first component under which the file may name the imported thing, and the dotted module
    /// for which that component stands.
    pub fn binding(&self) -> (&str, &str) {
        if let Some(alias) = &self.alias {
            return (alias, &self.module);
        }
        if self.from {
            let name = self.module.rsplit('.').next().expect("split yields one part");
            return (name, &self.module);
        }
        let root = self.module.split('.').next().expect("split yields one part");
        (root, root)
    }

    /// The part of the import that a selector uses, and the rest of the path, as gin-config's
    /// `ParseContext._import_source`: to `import a.b`, `a.c.f` is `c.f` inside `a`.
    pub(super) fn source_of(&self, selector: &str) -> ImportSource {
        if self.from || self.alias.is_some() {
            let path = selector.split_once('.').map_or("", |(_, path)| path);
            return ImportSource { import: self.clone(), path: path.to_string() };
        }
        let names: Vec<&str> = selector.split('.').collect();
        let modules = names[..names.len() - 1].iter().zip(self.module.split('.'));
        let followed = modules.take_while(|(name, module)| *name == module).count();
        let import = Self { module: names[..followed].join("."), ..self.clone() };
        ImportSource { import, path: names[followed..].join(".") }
    }
}

/// The place of a configurable: an import, and the path inside the imported module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImportSource {
    /// The import.
    pub import: Import,
    /// The dotted path inside.
    pub path: String,
}

impl Display for Import {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        match self.module.rsplit_once('.').filter(|_| self.from) {
            Some((module, name)) => write!(f, "from {module} import {name}")?,
            None => write!(f, "import {}", self.module)?,
        }
        match &self.alias {
            Some(alias) => write!(f, " as {alias}"),
            None => Ok(()),
        }
    }
}

/// `include 'path'`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Include {
    /// The path as written.
    pub path: String,
    /// Place of the path in the text.
    pub span: Span,
}
