//! Comparison of token preprocessors with the results of real t5 and SeqIO on the same examples
//! (`tests/pipeline/data/reference/token_preprocessors.py`), each configured by gin.

#![cfg(test)]

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value as Json;

use super::{
    BuiltFeature, Context, Features, Preprocessor, RandomSpansTargetsLength,
    RandomSpansTokensLength, Step,
};
use crate::error::DataError;
use crate::example::Example;
use crate::feature::{Feature, FeatureDtype};
use crate::pipeline::testing::run_steps;
use crate::value::Value;
use gimlet_gin::{Configurable, Evaluator, Registry, Request, Source, load};
use gimlet_vocab::{PassThroughVocabulary, SentencePieceVocabulary, VocabularySpec};

/// One part of the reference data.
pub(super) fn reference(part: &str) -> Json {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/pipeline/data/reference");
    let text = std::fs::read_to_string(format!("{folder}/token_preprocessors.json")).unwrap();
    let mut parts: BTreeMap<String, Json> = serde_json::from_str(&text).unwrap();
    parts.remove(part).unwrap()
}

/// Holds the preprocessor that gin names.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "tests.Holder")]
pub(super) struct Holder {
    /// The preprocessor.
    preprocessor: Preprocessor,
}

struct NoFiles;

impl Source for NoFiles {
    fn read(&self, _: &str) -> std::io::Result<Option<String>> {
        Ok(None)
    }

    fn similar(&self, _: &str) -> Vec<String> {
        Vec::new()
    }
}

/// The preprocessor of that name, with parameters bound by these lines.
pub(super) fn preprocessor(name: &str, bindings: &[String]) -> Preprocessor {
    let registry = Registry::default()
        .with::<Holder>()
        .with_function::<RandomSpansTokensLength>()
        .with_function::<RandomSpansTargetsLength>();
    let lines = [format!("tests.Holder.preprocessor = @preprocessors.{name}()")];
    let lines = lines.iter().chain(bindings).map(|line| ("--gin".to_string(), line.clone()));
    let request = Request { bindings: lines.collect(), ..Request::default() };
    let loaded = load(&request, &NoFiles, &registry).unwrap_or_else(|e| panic!("{name}: {e:?}"));
    let mut evaluator = Evaluator::new(&loaded.config, &registry);
    let holder = evaluator.evaluate_in::<Holder>("");
    let mistakes = evaluator.into_diagnostics();
    assert!(mistakes.is_empty(), "{name}: {mistakes:?}");
    holder.unwrap().preprocessor
}

/// Makes a line `preprocessors.name.key = value` for each binding.
fn gin_lines(name: &str, bindings: &Json) -> Vec<String> {
    let line = |(key, value): (&String, &Json)| {
        let value = match value {
            Json::Null => "None".to_string(),
            Json::Bool(truth) => if *truth { "True" } else { "False" }.to_string(),
            Json::String(function) => format!("@preprocessors.{function}"),
            other => other.to_string(),
        };
        format!("preprocessors.{name}.{key} = {value}")
    };
    bindings.as_object().unwrap().iter().map(line).collect()
}

/// 'inputs' and 'targets' with 1000 ids and EOS 1.
pub(super) fn features(add_eos: bool, rank: usize) -> Features {
    let vocabulary =
        VocabularySpec::PassThrough(PassThroughVocabulary { size: 1000, eos_id: Some(1) });
    let dtype = FeatureDtype::Int32;
    let feature = Feature { vocabulary, add_eos, required: true, dtype, rank };
    let built = |name: &str| (name.to_string(), BuiltFeature::new(name, &feature).unwrap());
    ["inputs", "targets"].map(built).into()
}

pub(super) fn steps_of(
    preprocessor: &Preprocessor,
    features: &Features,
    lengths: &[(&str, usize)],
) -> Result<Vec<Step>, DataError> {
    let lengths = lengths.iter().map(|(key, length)| (key.to_string(), *length)).collect();
    preprocessor.steps(&Context { features, lengths: Some(&lengths) })
}

fn example(json: &Json) -> Example {
    let features = json.as_object().unwrap().iter();
    features
        .map(|(key, value)| (key.as_str().into(), serde_json::from_value(value.clone()).unwrap()))
        .collect()
}

/// Features by name, since t5 orders them differently.
fn sorted(examples: &[Example]) -> Vec<BTreeMap<String, Value>> {
    let features = |example: &Example| {
        example.iter().map(|(key, value)| (key.to_string(), value.clone())).collect()
    };
    examples.iter().map(features).collect()
}

#[test]
fn preprocessors_make_what_t5_and_seqio_make() {
    let cases = reference("streams");
    let cases = cases.as_array().unwrap();
    assert!(cases.len() > 30);
    for case in cases {
        let name = case["name"].as_str().unwrap();
        let own = case["gin"].as_array().into_iter().flatten();
        let own = own.map(|line| line.as_str().unwrap().to_string());
        let lines: Vec<String> =
            gin_lines(name, &case["bindings"]).into_iter().chain(own).collect();
        let preprocessor = preprocessor(name, &lines);
        let rank = case["rank"].as_u64().unwrap() as usize;
        let features = features(case["add_eos"].as_bool().unwrap(), rank);
        let lengths: BTreeMap<String, usize> =
            serde_json::from_value(case["lengths"].clone()).unwrap();
        let lengths: Vec<(&str, usize)> =
            lengths.iter().map(|(key, length)| (key.as_str(), *length)).collect();
        let examples: Vec<Example> =
            case["examples"].as_array().unwrap().iter().map(example).collect();
        let steps = || steps_of(&preprocessor, &features, &lengths).unwrap();
        let found = run_steps(steps, &examples, 1).unwrap();
        let expected: Vec<Example> =
            case["outputs"].as_array().unwrap().iter().map(example).collect();
        assert_eq!(sorted(&found), sorted(&expected), "{name} {}", case["bindings"]);
    }
}

#[test]
fn lengths_of_corrupted_spans_are_those_of_t5() {
    for case in reference("helper").as_array().unwrap() {
        let [inputs, density, mean, per_input, per_target]: [f64; 5] =
            serde_json::from_value(case["arguments"].clone()).unwrap();
        let lengths = [("tokens", 0), ("targets", 1)].map(|(name, i)| {
            let function = format!("random_spans_{name}_length");
            let length = format!("split_tokens.max_tokens_per_segment = @{function}()");
            let arguments = format!(
                "random_spans_helper.inputs_length = {inputs}\n\
                 random_spans_helper.noise_density = {density}\n\
                 random_spans_helper.mean_noise_span_length = {mean}\n\
                 random_spans_helper.extra_tokens_per_span_inputs = {per_input}\n\
                 random_spans_helper.extra_tokens_per_span_targets = {per_target}"
            );
            let lines: Vec<String> =
                arguments.lines().map(str::to_string).chain([length]).collect();
            let split = preprocessor("split_tokens", &lines);
            let Preprocessor::SplitTokens(split) = split else { panic!("{split:?}") };
            (split.max_tokens_per_segment.unwrap(), case["lengths"][i].as_u64().unwrap() as usize)
        });
        assert!(lengths.iter().all(|(found, expected)| found == expected), "{case} {lengths:?}");
    }
}

#[test]
fn rows_of_the_prefix_lm_objective_are_those_of_t5() {
    let case = reference("packing");
    let length = case["length"].as_u64().unwrap() as usize;
    let targets = case["examples"].as_array().unwrap();
    let examples: Vec<Example> =
        targets.iter().map(|ids| example(&serde_json::json!({ "targets": ids }))).collect();
    let lengths = [("inputs", length), ("targets", length)];
    for (name, bindings, expected) in [
        ("pack_prefix_lm_encoder_decoder", "", "pairs"),
        ("pack_prefix_lm_decoder_only", "loss_on_targets_only = True", "on_targets"),
        ("pack_prefix_lm_decoder_only", "loss_on_targets_only = False", "on_all"),
    ] {
        let line = format!("preprocessors.{name}.{bindings}");
        let lines = if bindings.is_empty() { Vec::new() } else { vec![line] };
        let preprocessor = preprocessor(name, &lines);
        let expected = case[expected].as_array().unwrap().iter().map(example);
        let expected = sorted(&expected.collect::<Vec<_>>());
        let mut unseen: Vec<usize> = (0..expected.len()).collect();
        // The rows depend on where each is split: over many seeds every row of t5 occurs, and equal
        // splits give equal rows.
        for seed in 0..200 {
            let features = features(true, 1);
            let steps = || steps_of(&preprocessor, &features, &lengths).unwrap();
            let found = sorted(&run_steps(steps, &examples, seed).unwrap());
            assert_eq!(found.len(), expected.len());
            unseen.retain(|&i| found[i] != expected[i]);
            for (found, expected) in found.iter().zip(&expected) {
                let split = ["encoder_segment_ids", "decoder_causal_attention"];
                if split.iter().all(|key| found.get(*key) == expected.get(*key)) {
                    assert_eq!(found, expected, "{name}");
                }
            }
        }
        assert!(unseen.is_empty(), "{name}: rows {unseen:?} never came up");
    }
}

#[test]
fn what_is_drawn_is_all_that_t5_draws_and_nothing_else() {
    for case in reference("draws").as_array().unwrap() {
        let name = case["name"].as_str().unwrap();
        let preprocessor = preprocessor(name, &gin_lines(name, &case["bindings"]));
        let lengths: BTreeMap<String, usize> =
            serde_json::from_value(case["lengths"].clone()).unwrap();
        let lengths: Vec<(&str, usize)> =
            lengths.iter().map(|(key, length)| (key.as_str(), *length)).collect();
        let features = features(true, 1);
        let mut found = BTreeSet::new();
        for seed in 0..3000 {
            let steps = || steps_of(&preprocessor, &features, &lengths).unwrap();
            let made = run_steps(steps, &[example(&case["example"])], seed).unwrap();
            found.extend(sorted(&made).iter().map(|made| serde_json::to_string(made).unwrap()));
        }
        let expected = case["outputs"].as_array().unwrap().iter().map(example);
        let expected = sorted(&expected.collect::<Vec<_>>());
        let expected: BTreeSet<String> =
            expected.iter().map(|made| serde_json::to_string(made).unwrap()).collect();
        assert_eq!(found, expected, "{name} {} {}", case["bindings"], case["lengths"]);
    }
}

#[test]
fn lists_of_texts_become_the_rows_that_seqio_makes() {
    let case = reference("texts");
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/pipeline/data/reference");
    let vocabulary = VocabularySpec::SentencePiece(SentencePieceVocabulary {
        sentencepiece_model_file: format!("{folder}/sentencepiece.model"),
        extra_ids: 0,
        reverse_extra_ids: true,
        normalizer_spec_overrides: None,
    });
    let built = [("inputs", 2), ("targets", 1)].map(|(name, rank)| {
        let vocabulary = vocabulary.clone();
        let dtype = FeatureDtype::Int32;
        let feature = Feature { vocabulary, add_eos: true, required: true, dtype, rank };
        (name.to_string(), BuiltFeature::new(name, &feature).unwrap())
    });
    let features: Features = built.into();
    let examples: Vec<Example> = case["examples"].as_array().unwrap().iter().map(example).collect();
    for (name, expected) in case["outputs"].as_object().unwrap() {
        let line = format!("seqio.preprocessors.{name}.copy_pretokenized = False");
        let preprocessor = preprocessor(name, &[line]);
        let steps = || steps_of(&preprocessor, &features, &[]).unwrap();
        let expected: Vec<Example> = expected.as_array().unwrap().iter().map(example).collect();
        let found = run_steps(steps, &examples, 0).unwrap();
        assert_eq!(sorted(&found), sorted(&expected), "{name}");
    }
}
