//! Bindings of tasks, which mean the same here, and warnings of what means something else than it seems.

use std::collections::BTreeSet;

use gimlet_gin::{Bound, Config, Diagnostic, Loaded, Value, ValueKind};

use super::given::Given;
use super::statements::Statements;
use crate::Statement;

/// The prefixes of the dialect's own names, whose bindings are translated.
const OWN: [&str; 4] =
    ["mesh_tensorflow.", "t5.models.mesh_transformer.", "Bitransformer.", "Unitransformer."];

/// Passes the bindings of other configurables than the dialect's, and the macros that they use.
pub fn pass(out: &mut Statements<'_>) {
    let config = out.places.config();
    let mut macros = BTreeSet::new();
    let mut statements = Vec::new();
    for ((scope, name), arguments) in &config.bindings {
        if OWN.iter().any(|own| name.starts_with(own)) || *name == "Graph.rewrite_stack_variables" {
            continue;
        }
        let slash = if scope.is_empty() { "" } else { "/" };
        for (argument, bound) in arguments {
            used_by(&bound.value, config, &mut macros);
            statements.push(statement(&format!("{scope}{slash}{name}.{argument}"), bound, out));
        }
    }
    let defined = macros.iter().filter_map(|name| Some((name, config.macros.get(name)?)));
    let macros: Vec<Statement> = defined.map(|(name, bound)| statement(name, bound, out)).collect();
    out.statements.extend(macros);
    out.statements.extend(statements);
}

/// Writes a binding with full names.
fn statement(key: &str, bound: &Bound, out: &Statements<'_>) -> Statement {
    let mut value = bound.value.clone();
    value.for_each_mut(&mut |value| {
        if let ValueKind::Reference(reference) = &mut value.kind {
            reference.selector.clone_from(&reference.target);
        }
    });
    Statement { place: out.places.text(bound.key), text: format!("{key} = {value}") }
}

/// Adds the macros that a value uses, and those that they use.
fn used_by(value: &Value, config: &Config, macros: &mut BTreeSet<String>) {
    value.for_each(&mut |value| {
        if let ValueKind::Macro(used) = &value.kind
            && macros.insert(used.path())
            && let Some(bound) = config.macros.get(&used.path())
        {
            used_by(&bound.value, config, macros);
        }
    });
}

/// Warns of sentinels that the task's vocabulary does not have, and of a prefix LM whose parts are exchanged.
pub fn warn(given: &Given, loaded: &Loaded, out: &mut Statements<'_>) {
    let denoise = |parameter: &str| {
        let bound = loaded.config.bindings.get(&(String::new(), DENOISE))?.get(parameter)?;
        match &bound.value.kind {
            ValueKind::Reference(reference) => Some((reference.target.as_str(), bound.key)),
            _ => None,
        }
    };
    let is_prefix = denoise("noise_mask_fn")
        .is_some_and(|(name, _)| name.ends_with(".random_prefix_noise_mask"));
    let second = denoise("inputs_fn").filter(|(name, _)| name.ends_with(".drop_noise_tokens"));
    if let (true, Some((_, place))) = (is_prefix, second) {
        let message = "the inputs are the second part of a text, and the targets the first";
        let help = "t5's files had both exchanged until 2020-10; for a prefix LM bind `denoise.inputs_fn = \
                    @preprocessors.drop_nonnoise_tokens` and `denoise.targets_fn = @preprocessors.drop_noise_tokens`";
        out.warnings.push(Diagnostic::error(place, message).help(help).warning());
    }
    let of_task = given.vocabularies.targets.extra_ids;
    if let Some((bound, place)) = given.sentinels.filter(|(bound, _)| *bound != of_task) {
        let message =
            format!("the task's vocabulary has {of_task} sentinels, and {bound} are bound here");
        let help = "the task's vocabulary is used, as t5 does since 2020";
        out.warnings.push(
            Diagnostic::error(place, message).help(help).label("this has no effect").warning(),
        );
    }
}

const DENOISE: &str = "t5.data.preprocessors.denoise";
