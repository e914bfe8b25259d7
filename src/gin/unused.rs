//! Statements without effect: bindings that nothing reads, scopes that nothing enters,
//! macros that nothing uses, and bindings that a later one of the same file replaces.

use std::collections::{BTreeMap, BTreeSet};
use std::ops;

use super::config::{Bound, Config, scope_components};
use super::diagnostic::Diagnostic;
use super::find::LIBRARY;
use super::includes::successive;
use super::load::Running;
use super::print::is_printed;
use super::reach::{Reached, reach};
use super::schema::Registry;
use super::source::{SourceMap, Span};
use super::suggest::nearest;
use super::value::ValueKind;

/// The shortest name in a file that is checked for misspelling.
const MIN_NAME: usize = 4;

/// The greatest number of names that are compared, and of misspelled names that are reported.
const MAX_NAMES: usize = 500;

/// Reports statements that have no effect in any run, in the order of the texts.
pub(super) fn ineffective(config: &Config, sources: &SourceMap) -> Vec<Diagnostic> {
    let mut out = shadowed(config, sources);
    out.extend(unused_macros(config, sources));
    out.sort_by_key(|diagnostic| diagnostic.place.as_ref().map(|(span, _)| *span));
    out
}

/// Bindings that the same file binds again.
fn shadowed(config: &Config, sources: &SourceMap) -> Vec<Diagnostic> {
    let arguments = config.bindings.values().flat_map(|arguments| arguments.values());
    let keys = arguments.chain(config.macros.values()).flat_map(successive);
    let again = keys.filter(|(earlier, later)| earlier.file == later.file);
    let warning = |(earlier, later): (Span, Span)| {
        let message = format!("`{}` is bound again later", sources.text(earlier));
        Diagnostic::error(earlier, message)
            .label("this has no effect")
            .related(later, "bound again here")
            .warning()
    };
    again.map(warning).collect()
}

/// Reports macros that nothing uses, which are probably misspelled. A file may define more than a
/// run needs: there only names are reported that are similar to a used macro.
fn unused_macros(config: &Config, sources: &SourceMap) -> Vec<Diagnostic> {
    let mut used = BTreeSet::new();
    let arguments = config.bindings.values().flat_map(|arguments| arguments.values());
    for bound in arguments.chain(config.macros.values()) {
        bound.value.for_each(&mut |value| {
            if let ValueKind::Macro(macro_use) = &value.kind {
                // A use in a scope may find the macro of an outer one.
                let path = macro_use.path();
                let inner = path.match_indices('/').map(|(at, _)| path[at + 1..].to_string());
                used.extend(inner.chain([path.clone()]));
            }
        });
    }
    let others: Vec<&str> = used.iter().map(String::as_str).take(MAX_NAMES).collect();
    // A file that binds both names needs both: `EVAL_OUTPUT_DIR` is no misspelled `INFER_OUTPUT_DIR`.
    let is_bound = |name: &&str| {
        config.macros.get(*name).is_some_and(|bound| !is_for_many_runs(bound, sources))
    };
    let unbound: Vec<&str> = others.iter().copied().filter(|name| !is_bound(name)).collect();
    let unused = config
        .macros
        .iter()
        .filter(|(name, bound)| !used.contains(*name) && !is_for_many_runs(bound, sources));
    let warning = |(name, bound): (&String, &Bound)| {
        let is_typed = sources.file(bound.key.file).name.starts_with("--");
        let help = match nearest(name, if is_typed { &others } else { &unbound }) {
            // Every name is near to such a short one.
            Some(other) if is_typed || name.len() >= MIN_NAME => {
                format!("did you mean `{other}`?")
            }
            _ if is_typed => format!("it would be read as `%{name}`"),
            _ => return None,
        };
        let message = format!("macro `{name}` is never used");
        Some(Diagnostic::error(bound.key, message).help(help).warning())
    };
    unused.filter_map(warning).take(MAX_NAMES).collect()
}

/// Returns everything that a run of each configurable in its scope reaches. Configurables that
/// tasks may name (`open`) count as run.
pub(super) fn run(config: &Config, running: &[Running], registry: &Registry) -> Reached {
    let open = config.bindings.keys().filter_map(|(scope, name)| {
        let schema = registry.get(name).filter(|schema| schema.open)?;
        Some((scope_components(scope), schema))
    });
    let roots = running.iter().map(|(scope, root)| (scope_components(scope), *root));
    reach(config, registry, roots.chain(open))
}

/// Bindings that were not read, and scopes of references that are probably misspelled, in the order of the
/// texts.
pub(super) fn unread(
    config: &Config,
    sources: &SourceMap,
    reached: &Reached,
    registry: &Registry,
) -> Vec<Diagnostic> {
    let (mut out, meant) = misspelled_scopes(config, reached);
    for ((scope, name), arguments) in &config.bindings {
        if meant.contains(scope.as_str()) {
            continue;
        }
        let schema = registry.get(name).expect("bindings name what the registry holds");
        let unread = arguments.iter().filter(|(argument, bound)| {
            let key = (scope.clone(), *name, argument.to_string());
            !reached.used.contains(&key) && !is_for_many_runs(bound, sources)
        });
        for (argument, bound) in unread {
            let key = format!("{}.{argument}", registry.minimal_selector(schema));
            out.push(why_unread(scope, &key, name, bound, reached));
        }
    }
    out.sort_by_key(|diagnostic| diagnostic.place.as_ref().map(|(span, _)| *span));
    out
}

/// Returns references in a scope without bindings, if nearly the same name is a scope with bindings
/// that nothing enters; and the names of the latter.
fn misspelled_scopes<'a>(
    config: &'a Config,
    reached: &Reached,
) -> (Vec<Diagnostic>, BTreeSet<&'a str>) {
    let of_macros = config.macros.keys().filter_map(|path| Some(path.rsplit_once('/')?.0));
    let of_bindings = config.bindings.keys().map(|(scope, _)| scope.as_str());
    let bound: BTreeSet<&str> = of_bindings.chain(of_macros).collect();
    let entered: BTreeSet<&str> = reached.scopes.iter().map(String::as_str).collect();
    let forgotten =
        bound.iter().copied().filter(|scope| !scope.is_empty() && !holds(&entered, scope));
    let forgotten: Vec<&str> = forgotten.take(MAX_NAMES).collect();
    let mut out: BTreeMap<Span, Diagnostic> = BTreeMap::new();
    let mut meant = BTreeSet::new();
    let arguments = config.bindings.values().flat_map(|arguments| arguments.values());
    for value in arguments.chain(config.macros.values()).map(|bound| &bound.value) {
        value.for_each(&mut |value| {
            let ValueKind::Reference(reference) = &value.kind else { return };
            let scope = reference.scope.join("/");
            if scope.is_empty() || out.len() == MAX_NAMES || holds(&bound, &scope) {
                return;
            }
            let Some(near) = nearest(&scope, &forgotten) else { return };
            let warning =
                Diagnostic::error(value.span, format!("nothing is bound in scope `{scope}`"))
                    .label(format!("did you mean `{near}/`?"))
                    .help(format!("scope `{near}` has bindings, and nothing enters it"));
            out.insert(value.span, warning.warning());
            meant.insert(near);
        });
    }
    (out.into_values().collect(), meant)
}

/// Whether a scope, or one within it, is among the others.
fn holds(scopes: &BTreeSet<&str>, scope: &str) -> bool {
    let inside = format!("{scope}/");
    let mut behind =
        scopes.range::<str, _>((ops::Bound::Included(&inside[..]), ops::Bound::Unbounded));
    scopes.contains(scope) || behind.next().is_some_and(|next| next.starts_with(&inside))
}

/// Whether a binding comes from the library, or from a configuration that a run printed, which has those of the
/// library: they bind more than one command reads.
fn is_for_many_runs(bound: &Bound, sources: &SourceMap) -> bool {
    let file = sources.file(bound.key.file);
    file.name.starts_with(LIBRARY) || is_printed(&file.text)
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
        return warning(format!("`{key}` is never read"))
            .label(format!("nothing that runs refers to `{name}`"));
    }
    let known: Vec<&str> = reached.scopes.iter().map(String::as_str).collect();
    if !scope.is_empty() && !reached.scopes.contains(scope) {
        let warning =
            warning(format!("scope `{scope}` is never entered")).label("so this is never read");
        return match nearest(scope, &known) {
            Some(near) if !near.is_empty() => warning.help(format!("did you mean `{near}`?")),
            _ => warning,
        };
    }
    let scopes: Vec<String> = runs_in.iter().map(|scope| described(scope)).collect();
    warning(format!("`{key}` is never read"))
        .label(format!("it is run in {}", scopes.join(" and ")))
}

fn described(scope: &str) -> String {
    match scope {
        "" => "the root scope".to_string(),
        scope => format!("scope `{scope}`"),
    }
}
