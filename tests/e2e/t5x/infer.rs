//! The files of real T5X's `infer`, written again: the same keys in the same order, and the same texts and ids to the
//! character. Scores are compared as numbers.

use std::fs;

use serde_json::Value;

use super::{STEPS, unpack_checkpoint};
use crate::command::{Train, sources};

const TOLERANCE: f64 = 1e-4;

fn check(name: &str, mode: &str, bindings: &[(&str, &str)]) {
    let scratch = tempfile::tempdir().expect("a temporary folder");
    unpack_checkpoint("unpacked", STEPS, scratch.path());
    let infer = Train::new(&sources("t5x"))
        .tool(&["infer"])
        .gin_file("infer.gin")
        .bind_text("CHECKPOINT_PATH", scratch.path().join(format!("checkpoint_{STEPS}")))
        .bind_text("INFER_OUTPUT_DIR", scratch.path().join("inferred"))
        .bind_text("infer.mode", mode)
        .bind("infer.write_fn", "@write_inferences_to_file");
    bindings.iter().fold(infer, |infer, (name, value)| infer.bind(name, value)).succeeds();
    let found = scratch.path().join(format!("inferred/tagged-{mode}.jsonl-00000-of-00001"));
    let expected = sources("t5x").join(format!("inferences/{name}.jsonl"));
    let [found, expected] =
        [found, expected].map(|file| fs::read_to_string(file).expect("it was written"));
    assert_eq!(found.lines().count(), expected.lines().count());
    for (found, expected) in found.lines().zip(expected.lines()) {
        assert_eq!(without_scores(found), without_scores(expected));
        let [found, expected] = [found, expected].map(scores);
        assert_eq!(found.len(), expected.len());
        for (found, expected) in found.iter().zip(&expected) {
            let close = (found - expected).abs() <= TOLERANCE * expected.abs().max(1.0);
            assert!(close, "{found}, T5X has {expected}");
        }
    }
}

/// A line with a star for each number that has a fraction, if it is an output.
fn without_scores(line: &str) -> String {
    let outputs = line.find("\"score\": ").or(line.find("\"aux\": ")).unwrap_or(line.len());
    let (kept, outputs) = line.split_at(outputs);
    let words = outputs.split_inclusive([' ', ',', '[', ']', '}']);
    let starred = words.map(|word| match word.contains('.') {
        true => format!("*{}", &word[word.len() - 1..]),
        false => word.to_string(),
    });
    kept.to_string() + &starred.collect::<String>()
}

/// The numbers with a fraction among the outputs of a line.
fn scores(line: &str) -> Vec<f64> {
    fn collect(value: &Value, out: &mut Vec<f64>) {
        match value {
            Value::Array(items) => items.iter().for_each(|item| collect(item, out)),
            Value::Object(entries) => entries.values().for_each(|item| collect(item, out)),
            Value::Number(number) if number.is_f64() => {
                out.push(number.as_f64().expect("a float"));
            }
            _ => {}
        }
    }
    let line: Value = serde_json::from_str(line).expect("a line of JSON");
    let mut out = Vec::new();
    collect(&line["score"], &mut out);
    collect(&line["aux"], &mut out);
    out
}

#[test]
fn predictions_are_written_as_t5x_writes_them() {
    let ids = ("write_inferences_to_file.output_ids", "True");
    check("predict", "predict", &[ids, ("infer.output_vocab_feature_name", "'text'")]);
    let all = [
        ids,
        ("write_inferences_to_file.include_all_inputs", "True"),
        ("EncoderDecoderModel.predict_batch_with_aux.num_decodes", "4"),
        ("EncoderDecoderModel.predict_batch_with_aux.return_all_decodes", "True"),
    ];
    check("predict_with_aux", "predict_with_aux", &all);
}

#[test]
fn scores_are_written_as_t5x_writes_them() {
    let fields = ("write_inferences_to_file.input_fields_to_include", "['inputs', 'number']");
    check("score", "score", &[fields]);
    let each = ("EncoderDecoderModel.score_batch.return_intermediates", "True");
    check("score_of_each_target", "score", &[each]);
}
