//! What is written and has no effect: bindings that nothing reads, scopes that nothing enters,
//! macros that nothing uses, and bindings that a later one of the same file replaces.

use std::collections::BTreeSet;

use super::config::{Bound, Config, scope_components};
use super::diagnostic::Diagnostic;
use super::find::LIBRARY;
use super::reach::{Reached, reach};
use super::schema::{Registry, Schema};
use super::source::{FileId, SourceMap, Span};
use super::suggest::nearest;
use super::value::ValueKind;

/// What has no effect whatever is run, in the order of the texts.
pub(super) fn ineffective(config: &Config, sources: &SourceMap) -> Vec<Diagnostic> {
    let mut out = shadowed(config, sources);
    out.extend(unused_macros(config, sources));
    out.sort_by_key(|diagnostic| diagnostic.place.as_ref().map(|(span, _)| *span));
    out
}

/// Bindings that the same file, or one that it includes later, binds again.
fn shadowed(config: &Config, sources: &SourceMap) -> Vec<Diagnostic> {
    let arguments = config.bindings.values().flat_map(|arguments| arguments.values());
    let mut out = Vec::new();
    for bound in arguments.chain(config.macros.values()) {
        let keys = bound.overridden.iter().map(|earlier| earlier.key).chain([bound.key]);
        let (earlier, later) = (keys.clone(), keys.skip(1));
        for (earlier, later) in earlier.zip(later) {
            if includes(earlier.file, later.file, sources) {
                let message = format!("`{}` is bound again later", sources.text(earlier));
                let diagnostic = Diagnostic::error(earlier, message)
                    .label("this has no effect")
                    .related(later, "bound again here")
                    .warning();
                out.push(diagnostic);
            }
        }
    }
    out
}

/// Whether `outer` is `inner`, or includes it.
fn includes(outer: FileId, inner: FileId, sources: &SourceMap) -> bool {
    let mut chain = std::iter::successors(Some(inner), |file| {
        sources.file(*file).included_from.map(|span| span.file)
    });
    chain.any(|file| file == outer)
}

/// Macros that the user has typed on the command line and that nothing uses: misspelled, most likely.
/// Files may well define more than a run needs.
fn unused_macros(config: &Config, sources: &SourceMap) -> Vec<Diagnostic> {
    let mut used = BTreeSet::new();
    let arguments = config.bindings.values().flat_map(|arguments| arguments.values());
    for bound in arguments.chain(config.macros.values()) {
        bound.value.for_each(&mut |value| {
            if let ValueKind::Macro(macro_use) = &value.kind {
                used.insert(macro_use.path());
            }
        });
    }
    let typed = |span: Span| sources.file(span.file).name.starts_with("--");
    // A use in a scope may find the macro of an outer one.
    let is_used =
        |name: &str| used.iter().any(|path| path == name || path.ends_with(&format!("/{name}")));
    let unused = config.macros.iter().filter(|(name, bound)| typed(bound.key) && !is_used(name));
    unused
        .map(|(name, bound)| {
            let others: Vec<&str> = used.iter().map(String::as_str).collect();
            let help = match nearest(name, &others) {
                Some(other) => format!("did you mean `{other}`?"),
                None => format!("it would be read as `%{name}`"),
            };
            let message = format!("macro `{name}` is used nowhere");
            Diagnostic::error(bound.key, message).help(help).warning()
        })
        .collect()
}

/// Bindings that running any of the `roots` does not read, in the order of the texts. Whatever tasks may name
/// (what is `open`) counts as run.
pub(super) fn unread(
    config: &Config,
    sources: &SourceMap,
    roots: &[&'static Schema],
    registry: &Registry,
) -> Vec<Diagnostic> {
    let open = config.bindings.keys().filter_map(|(scope, name)| {
        let schema = registry.get(name).filter(|schema| schema.open)?;
        Some((scope_components(scope), schema))
    });
    let roots = roots.iter().map(|root| (Vec::new(), *root));
    let reached = reach(config, registry, roots.chain(open));
    let mut out = Vec::new();
    for ((scope, name), arguments) in &config.bindings {
        let schema = registry.get(name).expect("bindings name what the registry holds");
        let unread = arguments.iter().filter(|(argument, bound)| {
            let key = (scope.clone(), *name, argument.to_string());
            !reached.used.contains(&key) && !is_library(bound, sources)
        });
        for (argument, bound) in unread {
            let key = format!("{}.{argument}", registry.minimal_selector(schema));
            out.push(why_unread(scope, &key, name, bound, &reached));
        }
    }
    out.sort_by_key(|diagnostic| diagnostic.place.as_ref().map(|(span, _)| *span));
    out
}

fn is_library(bound: &Bound, sources: &SourceMap) -> bool {
    sources.file(bound.key.file).name.starts_with(LIBRARY)
}

fn why_unread(scope: &str, key: &str, name: &str, bound: &Bound, reached: &Reached) -> Diagnostic {
    let runs_in: Vec<&str> = reached
        .sections
        .keys()
        .filter(|(_, reached)| *reached == name)
        .map(|(scope, _)| scope.as_str())
        .collect();
    let warning = |message: String| Diagnostic::error(bound.key, message).warning();
    if runs_in.is_empty() {
        let name = key.rsplit_once('.').map_or(key, |(name, _)| name);
        return warning(format!("`{key}` is read by nothing"))
            .label(format!("nothing that runs refers to `{name}`"));
    }
    let known: Vec<&str> = reached.scopes.iter().map(String::as_str).collect();
    if !scope.is_empty() && !reached.scopes.contains(scope) {
        let warning = warning(format!("scope `{scope}` is never entered"))
            .label("so this is read by nothing");
        return match nearest(scope, &known) {
            Some(near) if !near.is_empty() => warning.help(format!("did you mean `{near}`?")),
            _ => warning,
        };
    }
    let scopes: Vec<String> = runs_in.iter().map(|scope| described(scope)).collect();
    warning(format!("`{key}` is read by nothing"))
        .label(format!("it is run in {}", scopes.join(" and ")))
}

fn described(scope: &str) -> String {
    match scope {
        "" => "the root scope".to_string(),
        scope => format!("scope `{scope}`"),
    }
}
