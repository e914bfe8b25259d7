//! Templates in promptsource's format: a `templates.yaml` for each data set.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use minijinja::Environment;
use saphyr::{LoadableYamlNode, Yaml};

use super::datasets::DATASETS;
use gimlet_storage::{Path, StorageError};

/// One template.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Template {
    pub name: String,
    /// Inputs and targets, separated by `|||`.
    pub jinja: String,
    /// The possible targets, separated by `|||`.
    pub answer_choices: Option<String>,
    /// Names of metrics, as in promptsource.
    pub metrics: Vec<String>,
    /// Whether the template asks for the data set's original task.
    pub is_original_task: bool,
}

impl Template {
    /// The answers, if they are the same for every example.
    pub(super) fn fixed_choices(&self) -> Option<Vec<String>> {
        let choices = self.answer_choices.as_ref()?;
        let environment = Environment::new();
        let parsed = environment.template_from_str(choices).ok()?;
        if !parsed.undeclared_variables(false).is_empty() {
            return None;
        }
        let text = parsed.render(()).ok()?;
        Some(text.split("|||").map(|choice| choice.trim().to_string()).collect())
    }
}

/// The templates of each data set, sorted by name.
pub(super) type Templates = BTreeMap<(&'static str, &'static str), Vec<Template>>;

/// Templates read before, by folder: many tasks need the same files.
static READ: Mutex<BTreeMap<String, Arc<Templates>>> = Mutex::new(BTreeMap::new());

/// The templates of T0's data sets in promptsource's folder, or in a checkout that contains it.
pub(super) fn templates(dir: &str) -> Result<Arc<Templates>, String> {
    let mut read = READ.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = read.get(dir) {
        return Ok(known.clone());
    }
    let found = Arc::new(read_all(dir)?);
    read.insert(dir.to_string(), found.clone());
    Ok(found)
}

fn read_all(dir: &str) -> Result<Templates, String> {
    let failed = |error: StorageError| error.to_string();
    let root = Path::parse(dir).map_err(failed)?;
    let within = root.join("promptsource/templates");
    let root = if within.is_dir().map_err(failed)? { within } else { root };
    let datasets = DATASETS.iter().map(|dataset| (dataset.name, dataset.subset));
    let mut found = Templates::new();
    for (name, subset) in datasets.chain([("anli", "")]) {
        let folder = if subset.is_empty() { root.join(name) } else { root.join(name).join(subset) };
        let file = folder.join("templates.yaml");
        if file.exists().map_err(failed)? {
            let text = file.read_to_string().map_err(failed)?;
            let templates = parsed(&text).map_err(|reason| format!("{file}: {reason}"))?;
            found.insert((name, subset), templates);
        }
    }
    match found.is_empty() {
        true => Err(format!(
            "no templates of T0's data sets are under `{root}`, expected such as \
             `ag_news/templates.yaml`; bind `t0.PromptSource.dir` to a checkout of promptsource"
        )),
        false => Ok(found),
    }
}

fn parsed(text: &str) -> Result<Vec<Template>, String> {
    let documents = Yaml::load_from_str(text).map_err(|error| error.to_string())?;
    let document = documents.first().map(untagged);
    let templates = document
        .and_then(|document| field(document, "templates"))
        .and_then(Yaml::as_mapping)
        .ok_or("expected a map of `templates`")?;
    let mut found: Vec<Template> = templates
        .iter()
        .map(|(id, value)| {
            let id = text_of(id).unwrap_or_default();
            template(untagged(value))
                .ok_or_else(|| format!("template {id} lacks `name` or `jinja`"))
        })
        .collect::<Result<_, _>>()?;
    found.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(found)
}

fn template(value: &Yaml<'_>) -> Option<Template> {
    let metadata = field(value, "metadata");
    let in_metadata = |key| metadata.and_then(|metadata| field(metadata, key));
    let metrics = in_metadata("metrics").and_then(Yaml::as_sequence);
    let is_original = in_metadata("original_task").and_then(Yaml::as_bool);
    Some(Template {
        name: text_of(field(value, "name")?)?,
        jinja: text_of(field(value, "jinja")?)?,
        answer_choices: field(value, "answer_choices").and_then(joined),
        metrics: metrics.into_iter().flatten().filter_map(text_of).collect(),
        is_original_task: is_original.unwrap_or(false),
    })
}

/// A text, or a list of texts as in older templates.
fn joined(choices: &Yaml<'_>) -> Option<String> {
    match choices.as_sequence() {
        Some(items) => {
            let texts: Vec<String> = items.iter().filter_map(text_of).collect();
            Some(texts.join(" ||| "))
        }
        None => text_of(choices),
    }
}

fn field<'a, 'b>(value: &'a Yaml<'b>, key: &str) -> Option<&'a Yaml<'b>> {
    untagged(value).as_mapping_get(key).map(untagged)
}

/// The value after promptsource's tags, such as `!Template`.
fn untagged<'a, 'b>(value: &'a Yaml<'b>) -> &'a Yaml<'b> {
    match value {
        Yaml::Tagged(_, inner) => untagged(inner),
        _ => value,
    }
}

/// A text; names that look like numbers are also texts.
fn text_of(value: &Yaml<'_>) -> Option<String> {
    match untagged(value) {
        value if value.is_null() => None,
        value => value
            .as_str()
            .map(str::to_string)
            .or_else(|| value.as_integer().map(|number| number.to_string()))
            .or_else(|| value.as_floating_point().map(|number| number.to_string()))
            .or_else(|| value.as_bool().map(|truth| truth.to_string())),
    }
}
