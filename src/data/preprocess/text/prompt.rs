//! Prompts: a template turns a record into inputs, targets and answer choices, as in promptsource
//! and T0.

use std::collections::BTreeMap;

use minijinja::{Environment, Value as Jinja};

use super::jinja::{RANDOMNESS, Randomness, environment};
use super::{Context, PairKeys, Preprocess, Step, filter_map};
use crate::error::DataError;
use crate::example::Example;
use crate::random::Draw;
use crate::value::{Key, Value};
use gimlet_gin::Configurable;

/// Makes inputs and targets from a record with a Jinja template, `inputs ||| targets`, whose
/// variables are the record's features. Source: promptsource `templates.py`, T0
/// `seqio_tasks/utils.py`.
///
/// Empty targets become `<NO LABEL>`. A record is dropped if its template yields nothing, no
/// inputs, or more than two parts. Hyphens in features' names are underscores in templates. Answer
/// choices are a variable of the template and a feature of the example, 'answer_choices'.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "gimlet.preprocessors.apply_template")]
pub struct ApplyTemplate {
    /// The template: `{{premise}} Yes or no? ||| {{answer_choices[label]}}`.
    pub template: String,
    /// A template of the possible targets, `Yes ||| No`; without it there are no answer choices.
    #[gin(default = None)]
    pub answer_choices: Option<String>,
    /// Maximum number of characters of an inserted value, which is cut at a space; None cuts
    /// nothing.
    #[gin(default = Some(2048))]
    pub truncate_length: Option<usize>,
}

impl Preprocess for ApplyTemplate {
    fn steps(&self, _: &Context<'_>) -> Result<Vec<Step>, DataError> {
        let prompt = Prompt::compile(self)?;
        Ok(vec![filter_map(move |example, place| prompt.apply(&example, place.draw()))])
    }
}

/// Separates inputs from targets, and answer choices from each other.
const SEPARATOR: &str = "|||";

/// Replaces a separator within the data: a text that does not occur in data, of the same length as
/// promptsource's, since printed values may be cut after a number of characters.
const PROTECTED: &str = "\u{f8ff}______________________________\u{f8ff}";

const TEMPLATE: &str = "template";
const CHOICES: &str = "answer_choices";

/// A compiled template.
struct Prompt {
    environment: Environment<'static>,
    has_choices: bool,
    keys: PairKeys,
    choices_key: Key,
}

impl Prompt {
    fn compile(spec: &ApplyTemplate) -> Result<Self, DataError> {
        let mut environment = environment();
        let template = match spec.truncate_length {
            // As in promptsource, every printed value is truncated.
            Some(length) => {
                spec.template.replace("}}", &format!(" | string | truncate({length}) }}}}"))
            }
            None => spec.template.clone(),
        };
        let choices = spec.answer_choices.clone().map(|choices| (CHOICES, choices));
        for (name, text) in [Some((TEMPLATE, template)), choices].into_iter().flatten() {
            environment.add_template_owned(name, text).map_err(|error| {
                DataError::Config(format!("`apply_template.{name}` is malformed: {error}"))
            })?;
        }
        Ok(Self {
            environment,
            has_choices: spec.answer_choices.is_some(),
            keys: PairKeys::new(),
            choices_key: CHOICES.into(),
        })
    }

    /// Inputs and targets; `None` if the template yields no example for the record.
    fn apply(&self, example: &Example, draw: Draw) -> Result<Option<Example>, String> {
        let mut variables = variables(example)?;
        let choices = if self.has_choices { Some(self.render(CHOICES, &variables)?) } else { None };
        let listed = choices.as_ref().map(|choices| choices.iter().collect::<Jinja>());
        variables.insert(CHOICES.to_string(), listed.unwrap_or(Jinja::from(())));
        variables.insert(RANDOMNESS.to_string(), Randomness::value(draw));
        let mut parts = self.render(TEMPLATE, &variables)?.into_iter();
        let (Some(inputs), Some(targets), None) = (parts.next(), parts.next(), parts.next()) else {
            return Ok(None);
        };
        if inputs.is_empty() {
            return Ok(None);
        }
        let targets = if targets.is_empty() { "<NO LABEL>".to_string() } else { targets };
        let mut made = self.keys.pair(inputs, targets);
        if let Some(choices) = choices {
            made.set(self.choices_key.clone(), Value::Texts(choices));
        }
        Ok(Some(made))
    }

    /// The parts between separators, stripped.
    fn render(
        &self,
        template: &str,
        variables: &BTreeMap<String, Jinja>,
    ) -> Result<Vec<String>, String> {
        let failed = |error: minijinja::Error| format!("the {template} fails: {error}");
        let ready = self.environment.get_template(template).map_err(failed)?;
        let context = Jinja::from_pairs(variables.iter().map(|(k, v)| (k.as_str(), v.clone())));
        let text = ready.render(context).map_err(failed)?;
        let part = |part: &str| strip(&part.replace(PROTECTED, SEPARATOR)).to_string();
        Ok(text.split(SEPARATOR).map(part).collect())
    }
}

/// Python's `strip`.
fn strip(text: &str) -> &str {
    text.trim_matches(|c: char| c.is_whitespace() || ('\x1c'..='\x1f').contains(&c))
}

/// The features as variables; features below a path become dicts.
fn variables(example: &Example) -> Result<BTreeMap<String, Jinja>, String> {
    let mut tree = Tree::default();
    for (key, value) in example.iter() {
        let (first, below) = key.split_once('/').map_or((&**key, None), |(a, b)| (a, Some(b)));
        let first = first.replace('-', "_");
        if first == CHOICES {
            return Err(format!(
                "the record has a feature '{CHOICES}', which templates know as theirs"
            ));
        }
        match (below, value) {
            (None, Value::Text(text)) => {
                tree.insert(&first, Jinja::from(text.replace(SEPARATOR, PROTECTED)));
            }
            (None, value) => tree.insert(&first, jinja(value)),
            (Some(below), value) => tree.insert(&format!("{first}/{below}"), jinja(value)),
        }
    }
    Ok(tree.values().collect())
}

/// Features by the components of their paths, in order.
#[derive(Default)]
struct Tree(Vec<(String, Node)>);

enum Node {
    Leaf(Jinja),
    Below(Tree),
}

impl Tree {
    fn insert(&mut self, path: &str, value: Jinja) {
        let Some((first, rest)) = path.split_once('/') else {
            self.0.push((path.to_string(), Node::Leaf(value)));
            return;
        };
        let place = self.0.iter().position(|(name, _)| name == first).unwrap_or_else(|| {
            self.0.push((first.to_string(), Node::Below(Self::default())));
            self.0.len() - 1
        });
        if let Node::Below(tree) = &mut self.0[place].1 {
            tree.insert(rest, value);
        }
    }

    fn values(self) -> impl Iterator<Item = (String, Jinja)> {
        self.0.into_iter().map(|(name, node)| match node {
            Node::Leaf(value) => (name, value),
            Node::Below(tree) => (name, Jinja::from_pairs(tree.values().collect::<Vec<_>>())),
        })
    }
}

fn jinja(value: &Value) -> Jinja {
    match value {
        Value::Text(text) => Jinja::from(text.as_str()),
        Value::Int(number) => Jinja::from(*number),
        Value::Float(number) => Jinja::from(*number),
        Value::Texts(texts) => texts.iter().map(|text| Jinja::from(text.as_str())).collect(),
        Value::Ints(ids) => ids.iter().map(|id| Jinja::from(*id)).collect(),
        Value::Longs(numbers) => numbers.iter().map(|number| Jinja::from(*number)).collect(),
        Value::Floats(numbers) => numbers.iter().map(|number| Jinja::from(*number)).collect(),
        Value::IntRows(rows) => rows.iter().map(|row| Jinja::from(row.clone())).collect(),
        Value::FloatRows(rows) => rows.iter().map(|row| Jinja::from(row.clone())).collect(),
        Value::Lists(lists) => lists.iter().map(jinja).collect(),
    }
}
