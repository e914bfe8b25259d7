//! Includes that come too late: their bindings replace those above them.

use std::collections::BTreeMap;

use super::check::is_required;
use super::config::{Bound, Config};
use super::diagnostic::Diagnostic;
use super::source::{FileId, SourceMap, Span};

/// How many names a message lists.
const MAX_NAMES: usize = 6;

/// Includes by their place, each with the keys above it that it binds again.
pub(super) struct LateIncludes(BTreeMap<Span, Vec<Replaced>>);

struct Replaced {
    /// The key above the include.
    earlier: Span,
    /// The key that replaces it.
    later: Span,
    /// Whether the later binding asks for a value (`%gin.REQUIRED`).
    requires: bool,
}

/// Finds the includes that replace bindings which the including file makes above them.
pub(super) fn late_includes(config: &Config, sources: &SourceMap) -> LateIncludes {
    let arguments = config.bindings.values().flat_map(|arguments| arguments.values());
    let mut out: BTreeMap<Span, Vec<Replaced>> = BTreeMap::new();
    for bound in arguments.chain(config.macros.values()) {
        for (earlier, later) in successive(bound) {
            let Some(include) = including(earlier.file, later.file, sources) else { continue };
            let requires = later == bound.key && is_required(&bound.value);
            out.entry(include).or_default().push(Replaced { earlier, later, requires });
        }
    }
    out.values_mut().for_each(|replaced| replaced.sort_by_key(|replaced| replaced.earlier));
    LateIncludes(out)
}

/// Each key of a binding with the one that replaced it.
pub(super) fn successive(bound: &Bound) -> impl Iterator<Item = (Span, Span)> {
    let keys = bound.overridden.iter().map(|earlier| earlier.key).chain([bound.key]);
    keys.clone().zip(keys.skip(1))
}

/// The include of `outer` through which `inner` was read.
pub(super) fn including(outer: FileId, inner: FileId, sources: &SourceMap) -> Option<Span> {
    let from = |file: FileId| sources.file(file).included_from;
    let mut chain = std::iter::successors(from(inner), |span| from(span.file));
    chain.find(|span| span.file == outer)
}

impl LateIncludes {
    /// Whether a value is missing because an include asks for it again.
    pub fn explain(&self, missing: &Diagnostic) -> bool {
        let Some((span, _)) = &missing.place else { return false };
        let mut replaced = self.0.values().flatten();
        replaced.any(|replaced| replaced.requires && replaced.later == *span)
    }

    /// A warning for each include; an error where a value is required after it.
    pub fn into_diagnostics(self, sources: &SourceMap) -> Vec<Diagnostic> {
        let told = self.0.into_iter().map(|(include, replaced)| {
            let mut names: Vec<String> = replaced
                .iter()
                .take(MAX_NAMES)
                .map(|replaced| format!("`{}`", sources.text(replaced.earlier)))
                .collect();
            if replaced.len() > MAX_NAMES {
                names.push(format!("{} more", replaced.len() - MAX_NAMES));
            }
            let message = format!(
                "this include binds again names that are bound above it: {}",
                names.join(", ")
            );
            let requires = replaced.iter().any(|replaced| replaced.requires);
            let diagnostic = Diagnostic::error(include, message)
                .label("later statements win")
                .related(replaced[0].earlier, "this has no effect")
                .help("move the include above these lines");
            if requires { diagnostic } else { diagnostic.warning() }
        });
        told.collect()
    }
}
