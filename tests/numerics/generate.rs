//! Compares decoding by transformers' rules with transformers itself.
//!
//! Reference: `generate.json`, made by `generate.py`. Tolerance: scores 1e-4.

use std::sync::Arc;

use gimlet::models::decoding::{
    AnswerSet, Constraint, DecodeFn, Decodes, Generate, NextLogits, Prompt, Target,
};
use gimlet::vocab::{PartialCodepointVocabulary, VocabularySpec};
use serde_json::Value;
use tch::{Device, Kind, Tensor};

use crate::fixture::generator;
use crate::optax_rules::{evaluated, gin};

/// Enough that a token of little probability is drawn too.
const NUM_SAMPLES: i64 = 6000;
const VOCAB: i64 = 17;

/// A model whose logits depend on the last token and on the number of tokens.
struct Table {
    length: i64,
    end: f64,
}

impl NextLogits for Table {
    fn next_logits(&mut self, tokens: &Tensor) -> Tensor {
        self.length += 1;
        let numbers = Tensor::arange(VOCAB * VOCAB, (Kind::Double, Device::Cpu));
        let numbers = numbers.view([VOCAB, VOCAB]) * 1.7 + self.length as f64 * 0.05;
        let table: Tensor = numbers.sin() * 2.0;
        let _ = table.select(1, 1).g_add_scalar_(self.end);
        table.to_kind(Kind::Float).index_select(0, &tokens.view(-1))
    }

    fn reorder(&mut self, _: &Tensor) {}
}

fn reference() -> Value {
    serde_json::from_str(include_str!("generate.json")).expect("it is committed")
}

/// The set of answers of a case, if it has one. Letters are the tokens from 3 on.
fn constraint(answers: &Value) -> Option<Arc<Constraint>> {
    let set = match answers {
        Value::Null => return None,
        Value::String(pattern) => AnswerSet::Pattern(pattern.clone()),
        list => AnswerSet::Choices(serde_json::from_value(list.clone()).expect("texts")),
    };
    let codepoints = ('a'..='n').map(u64::from).collect();
    let letters = PartialCodepointVocabulary { codepoints, extra_ids: 0 };
    let letters = VocabularySpec::PartialCodepoint(letters).build().expect("it needs no file");
    let target = Target { vocabulary: &*letters, ends: &[1] };
    Some(Arc::new(Constraint::new(&set, &target).expect("it can be decoded")))
}

fn decode(record: &Value, case: &Value, length: i64) -> Decodes {
    let settings = case["settings"].as_object().expect("an object").iter();
    let bindings =
        settings.map(|(key, value)| format!("decoding.generate.{key} = {}\n", gin(value)));
    let spec: Generate = evaluated(&format!(
        "from __gin__ import dynamic_registration\nfrom gimlet import decoding\n{}",
        bindings.collect::<String>()
    ));
    let inputs: Vec<Vec<i64>> = serde_json::from_value(record["inputs"].clone()).expect("rows");
    let decode_fn = DecodeFn::Generate(spec);
    let samples = if decode_fn.draws() { NUM_SAMPLES as usize } else { 1 };
    let prompt = Prompt {
        inputs: Tensor::zeros([inputs.len() as i64, length], (Kind::Int64, Device::Cpu)),
        bos_id: 0,
        eos_id: 1,
        num_decodes: decode_fn.num_decodes(samples) as i64,
        start: 0,
        // Padding has no effect.
        encoder_inputs: Some(Tensor::from_slice2(&inputs).constant_pad_nd([0, 3])),
        constraint: constraint(&case["answers"]),
    };
    let mut model = Table { length: 0, end: case["end"].as_f64().expect("a number") };
    decode_fn.decode(&prompt, &mut model).expect("nothing contradicts")
}

#[test]
fn answers_are_those_of_transformers() {
    let record = reference();
    let length = record["num_tokens"].as_i64().expect("a number");
    for case in record["cases"].as_array().expect("a list") {
        let Some(expected) = case.get("sequences") else { continue };
        let expected: Vec<Vec<i64>> = serde_json::from_value(expected.clone()).expect("rows");
        let decodes = decode(&record, case, length);
        let best_first = decodes.sequences.flip([1]).flatten(0, 1);
        let found: Vec<Vec<i64>> = (0..best_first.size()[0])
            .map(|row| Vec::try_from(best_first.get(row)).expect("one axis"))
            .collect();
        assert_eq!(found, expected, "{case}");
        let scores =
            Vec::<f64>::try_from(decodes.scores.flip([1]).flatten(0, 1).to_kind(Kind::Double));
        for (score, expected) in
            scores.expect("one axis").iter().zip(case["scores"].as_array().into_iter().flatten())
        {
            assert!(
                (score - expected.as_f64().expect("a number")).abs() < 1e-4,
                "{}: {score}, not {expected}",
                case["settings"]
            );
        }
    }
}

#[test]
fn samples_come_from_the_distribution_of_transformers() {
    let _held = generator();
    tch::manual_seed(5);
    let record = reference();
    for case in record["cases"].as_array().expect("a list") {
        let Some(expected) = case.get("log_probs").and_then(Value::as_object) else { continue };
        // The tokens after the first are certain.
        let length = if case["answers"].is_null() {
            1
        } else {
            record["num_tokens"].as_i64().expect("a number")
        };
        let decodes = decode(&record, case, length);
        let tokens = decodes.sequences.get(0).select(1, 0);
        let tokens = Vec::<i64>::try_from(tokens).expect("one axis");
        let scores =
            Vec::<f64>::try_from(decodes.scores.get(0).to_kind(Kind::Double)).expect("one axis");
        let mut found = std::collections::BTreeMap::new();
        found.extend(tokens.iter().zip(scores).map(|(token, score)| (token.to_string(), score)));
        let names = |all: Vec<&String>| {
            all.into_iter().cloned().collect::<std::collections::BTreeSet<String>>()
        };
        assert_eq!(
            names(found.keys().collect()),
            names(expected.keys().collect()),
            "{}",
            case["settings"]
        );
        for (token, score) in found {
            let expected = expected[&token].as_f64().expect("a number");
            assert!(
                (score - expected).abs() < 1e-4,
                "{} {token}: {score}, not {expected}",
                case["settings"]
            );
        }
    }
}
