//! The GLUE and SuperGLUE tasks whose examples are pairs of a text and a label.

use std::sync::LazyLock;

use fancy_regex::Regex;

use super::{
    Context, PairKeys, Preprocess, Step, copy_tree, flat_map, label_name, text_of, texts_of,
    value_of,
};
use crate::error::DataError;
use crate::example::Example;
use crate::value::Value;
use gimlet_gin::Configurable;

/// Converts a labelled example to "NAME feature: .. feature: ..", with its label's name as targets.
/// Source: t5 `preprocessors.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "t5.data.preprocessors.glue")]
pub struct Glue {
    /// Name of the benchmark, which begins the inputs.
    pub benchmark_name: String,
    /// Names of the labels, in the order of their numbers; -1 is always `<unk>`.
    pub label_names: Vec<String>,
    /// The features of inputs, in their order; None takes all features but 'idx' and 'label',
    /// sorted.
    #[gin(default = None)]
    pub feature_names: Option<Vec<String>>,
    /// The feature that identifies an example in evaluation, kept as 'idx'; None keeps none.
    #[gin(default = Some("idx".to_string()))]
    pub id_key: Option<String>,
}

impl Preprocess for Glue {
    fn steps(&self, _: &Context<'_>) -> Result<Vec<Step>, DataError> {
        let (spec, keys) = (self.clone(), PairKeys::new());
        Ok(vec![Step::map(move |example| {
            let targets = label_name(&example, &spec.label_names)?;
            let mut made = keys.pair(spec.inputs(&example)?, targets);
            spec.copy_id(&example, &mut made)?;
            Ok(made)
        })])
    }
}

impl Glue {
    fn inputs(&self, example: &Example) -> Result<String, String> {
        let mut inputs = self.benchmark_name.clone();
        let mut push = |key: &str| {
            inputs.extend([" ", key, ": ", text_of(example, key)?]);
            Ok::<_, String>(())
        };
        match &self.feature_names {
            Some(names) if !names.is_empty() => names.iter().try_for_each(|name| push(name))?,
            _ => {
                let other = |name: &&str| *name != "label" && name.split('/').next() != Some("idx");
                let mut names: Vec<&str> =
                    example.iter().map(|(name, _)| &**name).filter(other).collect();
                names.sort_unstable();
                names.into_iter().try_for_each(push)?;
            }
        }
        if self.benchmark_name == "multirc" {
            for (markup, text) in [("<br>", " "), ("<b>", ""), ("</b>", "")] {
                inputs = inputs.replace(markup, text);
            }
        }
        Ok(inputs)
    }

    fn copy_id(&self, example: &Example, made: &mut Example) -> Result<(), String> {
        if self.benchmark_name == "multirc" {
            return ["idx/paragraph", "idx/question", "idx/answer"]
                .into_iter()
                .try_for_each(|key| copy_tree(example, key, made));
        }
        match self.id_key.as_deref() {
            None | Some("") => Ok(()),
            Some("idx") => copy_tree(example, "idx", made),
            Some(key) => {
                made.set("idx".into(), value_of(example, key)?.clone());
                Ok(())
            }
        }
    }
}

/// Converts an STS-B pair to "stsb sentence1: .. sentence2: ..", with its score, rounded to a
/// fifth, as targets. Source: t5 `preprocessors.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "t5.data.preprocessors.stsb")]
pub struct Stsb {}

impl Preprocess for Stsb {
    fn steps(&self, _: &Context<'_>) -> Result<Vec<Step>, DataError> {
        let keys = PairKeys::new();
        Ok(vec![Step::map(move |example| {
            let sentence = |key| text_of(&example, key);
            let inputs = format!(
                "stsb sentence1: {} sentence2: {}",
                sentence("sentence1")?,
                sentence("sentence2")?
            );
            let mut made = keys.pair(inputs, fifths(score(&example)?));
            made.set("idx".into(), value_of(&example, "idx")?.clone());
            Ok(made)
        })])
    }
}

fn score(example: &Example) -> Result<f32, String> {
    match value_of(example, "label")? {
        Value::Float(score) => Ok(*score as f32),
        Value::Int(score) => Ok(*score as f32),
        value => Err(format!("'label' is {}, expected a number", value.type_name())),
    }
}

/// The score rounded to a fifth, with one decimal, computed in f32 as TensorFlow does.
fn fifths(score: f32) -> String {
    format!("{:.1}", (score * 5.0).round_ties_even() / 5.0)
}

/// Makes one example for each answer of a ReCoRD query, or one with `<unk>` if there is no answer.
/// Source: t5 `preprocessors.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "t5.data.preprocessors.record", open)]
pub struct Record {}

/// The beginning of a passage's highlight after the end of a sentence.
static HIGHLIGHT: LazyLock<Regex> =
    LazyLock::new(|| Regex::new("([.?!\"'])\n@highlight\n").expect("the pattern is well formed"));

impl Preprocess for Record {
    fn steps(&self, _: &Context<'_>) -> Result<Vec<Step>, DataError> {
        let keys = PairKeys::new();
        Ok(vec![flat_map(move |example, _| {
            let passage = HIGHLIGHT.replace_all(text_of(&example, "passage")?, "$1 ");
            let inputs = format!(
                "record query: {} entities: {} passage: {}",
                text_of(&example, "query")?,
                texts_of(&example, "entities")?.join(", "),
                passage.replace("\n@highlight\n", ". "),
            );
            let answers = texts_of(&example, "answers")?;
            let unknown = ["<unk>".to_string()];
            let targets = if answers.is_empty() { &unknown[..] } else { answers };
            let of = |target: &String| {
                let mut made = keys.pair(inputs.clone(), target.clone());
                copy_tree(&example, "idx/passage", &mut made)?;
                copy_tree(&example, "idx/query", &mut made)?;
                made.set("answers".into(), Value::Texts(answers.to_vec()));
                Ok(made)
            };
            targets.iter().map(of).collect()
        })])
    }
}
