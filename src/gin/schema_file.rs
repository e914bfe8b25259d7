//! Schemas of another project's configurables, from a file of JSON (docs/gin.md, "Other projects").
//!
//! A schema lives as long as the program, as those of our own do: a file is read once.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use serde_json::{Value as Json, json};

use super::json::{from_json, to_json};
use super::schema::{Call, CallSite, Fallback, Param, Registry, Schema};
use super::value::Value;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    configurables: Vec<SchemaEntry>,
    #[serde(default)]
    constants: BTreeMap<String, Json>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SchemaEntry {
    selector: String,
    /// Further dotted names that Python has for it.
    #[serde(default)]
    names: Vec<String>,
    module: Option<String>,
    #[serde(default)]
    doc: String,
    #[serde(default)]
    parameters: Vec<Parameter>,
    #[serde(default)]
    kwargs: bool,
    allowlist: Option<Vec<String>>,
    denylist: Option<Vec<String>>,
    #[serde(default)]
    calls: Vec<Target>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Parameter {
    name: String,
    #[serde(default)]
    doc: String,
    /// Absent if the parameter has none; null for Python's None.
    #[serde(default, deserialize_with = "present")]
    default: Option<Json>,
    call: Option<CallSite>,
}

/// A site and the called configurable; `deny_unknown_fields` does not work with `flatten`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Target {
    selector: String,
    #[serde(default)]
    enters: Vec<String>,
    #[serde(default)]
    supplies: Vec<String>,
    #[serde(default)]
    later: bool,
}

/// Distinguishes a null from an absent key.
fn present<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Json>, D::Error> {
    Json::deserialize(deserializer).map(Some)
}

/// The registry of the configurables and constants that files of JSON declare.
///
/// # Errors
/// An error in a text, with its name, line and column.
pub fn registry_of<'a>(
    files: impl IntoIterator<Item = (&'a str, &'a str)>,
) -> Result<Registry, String> {
    let mut registry = Registry::of_another_project();
    for (name, text) in files {
        let file: File = serde_json::from_str(text).map_err(|error| format!("{name}: {error}"))?;
        let mut taken: BTreeSet<_> =
            file.configurables.iter().map(|e| e.selector.clone()).collect();
        for mut entry in file.configurables {
            // A name that two configurables have means neither of them.
            entry.names.retain(|name| registry.get(name).is_none() && taken.insert(name.clone()));
            let selector = entry.selector.clone();
            if registry.get(&selector).is_some() {
                return Err(format!("{name}: `{selector}` is declared twice"));
            }
            let schema = schema(entry).map_err(|error| format!("{name}: `{selector}`: {error}"))?;
            registry.add(Box::leak(Box::new(schema)));
        }
        for (constant, value) in file.constants {
            let value =
                literal(&value).map_err(|error| format!("{name}: `{constant}`: {error}"))?;
            registry.add_constant(constant, value.ok());
        }
    }
    Ok(registry)
}

fn schema(entry: SchemaEntry) -> Result<Schema, String> {
    if entry.allowlist.is_some() && entry.denylist.is_some() {
        return Err("an allowlist and a denylist exclude each other".to_string());
    }
    let call = |target: Target| Call {
        target: target.selector,
        site: CallSite { enters: target.enters, supplies: target.supplies, later: target.later },
    };
    Ok(Schema {
        name: leaked(entry.selector),
        aliases: Vec::leak(entry.names.into_iter().map(leaked).collect()),
        module: entry.module.map(leaked),
        doc: leaked(entry.doc),
        params: entry.parameters.into_iter().map(param).collect::<Result<_, _>>()?,
        takes_any: entry.kwargs,
        allowed: entry.allowlist.unwrap_or_default(),
        denied: entry.denylist.unwrap_or_default(),
        calls: entry.calls.into_iter().map(call).collect(),
        ..Schema::default()
    })
}

fn param(parameter: Parameter) -> Result<Param, String> {
    let default = match parameter.default {
        None => Fallback::Required,
        Some(json) => match literal(&json)? {
            Ok(value) => Fallback::Value(value),
            Err(text) => Fallback::Opaque(text),
        },
    };
    Ok(Param {
        name: leaked(parameter.name),
        doc: leaked(parameter.doc),
        expected: "any value".to_string(),
        default,
        call: parameter.call,
        ..Param::default()
    })
}

/// Converts the registry to such a file. Parameters without effect here have a default that is not
/// written out.
pub fn registry_to_json(registry: &Registry) -> Json {
    let others = registry.iter().filter(|schema| !schema.name.starts_with("gin."));
    let configurables: Vec<Json> = others.map(schema_to_json).collect();
    json!({ "configurables": configurables })
}

fn schema_to_json(schema: &'static Schema) -> Json {
    let call = |call: &Call| {
        let site = &call.site;
        json!({"selector": call.target, "enters": site.enters, "supplies": site.supplies, "later": site.later})
    };
    json!({
        "selector": schema.name,
        "doc": schema.doc,
        "parameters": schema.params.iter().map(param_to_json).collect::<Vec<_>>(),
        "calls": schema.calls.iter().map(call).collect::<Vec<_>>(),
    })
}

fn param_to_json(param: &Param) -> Json {
    let mut out = json!({"name": param.name, "doc": param.doc});
    let default = match &param.default {
        _ if param.ignored => Some(json!({"$opaque": "no effect"})),
        Fallback::Required => None,
        Fallback::Value(kind) => Some(to_json(&Value::unplaced(kind.clone()))),
        Fallback::Opaque(text) => Some(json!({"$opaque": text})),
    };
    if let Some(default) = default {
        out["default"] = default;
    }
    if let Some(site) = &param.call {
        out["call"] = json!(site);
    }
    out
}

/// Reads a value, or the text of `{"$opaque": "text"}` for a value that gin cannot write.
fn literal(json: &Json) -> Result<Result<super::ValueKind, String>, String> {
    match json.get("$opaque") {
        Some(Json::String(text)) => Ok(Err(text.clone())),
        Some(other) => Err(format!("{other} cannot be the value of `$opaque`")),
        None => from_json(json).map(Ok),
    }
}

fn leaked(text: String) -> &'static str {
    Box::leak(text.into_boxed_str())
}
