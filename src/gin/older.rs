//! Names of earlier versions of another project, which old files use: what became of them, and the notice of a file.

use std::collections::BTreeMap;

use super::diagnostic::Diagnostic;
use super::source::{FileId, Span};

/// A name of an earlier version: that of a configurable, or of a parameter of one that exists today.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Older {
    /// The full name.
    pub name: &'static str,
    /// The present meaning.
    pub became: Became,
}

/// The present meaning of a name of an earlier version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Became {
    /// The full name of the same thing.
    Name(&'static str),
    /// Nothing, for this reason. A binding of it is dropped, and a reference to it is None.
    Nothing(&'static str),
}

impl Older {
    /// A configurable or parameter that has another name today; both are full names.
    pub const fn renamed(name: &'static str, today: &'static str) -> Self {
        Self { name, became: Became::Name(today) }
    }

    /// A configurable or parameter that has no effect here.
    pub const fn without_effect(name: &'static str, reason: &'static str) -> Self {
        Self { name, became: Became::Nothing(reason) }
    }

    /// Says what became of the name.
    pub(super) fn told(&self) -> String {
        match self.became {
            Became::Name(today) => format!("`{}` is read as `{today}`", self.name),
            Became::Nothing(reason) => format!("`{}` has no effect: {reason}", self.name),
        }
    }
}

/// Returns a warning for each file that uses such names, at its first one.
pub(super) fn notices(met: &[(Span, &'static Older)]) -> Vec<Diagnostic> {
    let mut files: BTreeMap<FileId, Vec<(Span, &'static Older)>> = BTreeMap::new();
    for &(span, older) in met {
        let of_file = files.entry(span.file).or_default();
        if of_file.iter().all(|(_, known)| known.name != older.name) {
            of_file.push((span, older));
        }
    }
    let notice = |names: Vec<(Span, &'static Older)>| {
        let message = "this file is written for an earlier version, and read as it was meant";
        let (first, _) = names[0];
        let warning = Diagnostic::error(first, message).warning();
        names.iter().fold(warning, |warning, (_, older)| warning.help(older.told()))
    };
    files.into_values().map(notice).collect()
}
