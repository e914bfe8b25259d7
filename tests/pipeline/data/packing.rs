//! Rows in the form of SeqIO's; the reference was made with `reference/seqio_reference.py`.

use std::collections::BTreeSet;
use std::io::Write;

use gimlet::data::{
    ApplyFeatureConverter, ConverterClass, DatasetOptions, EncDecFeatureConverter,
    EncoderFeatureConverter, Example, ExampleOptions, FeatureConverter, Packing, Value,
    get_dataset, make_autoregressive_inputs, task_examples,
};
use serde_json::Value as Json;

use super::*;

/// Returns all rows of the examples, as one batch.
fn rows_by(class: ConverterClass, examples: &[Json], lengths: &Json, pack: bool) -> Batch {
    let folder = tempfile::tempdir().unwrap();
    let mut file = std::fs::File::create(folder.path().join("a.jsonl")).unwrap();
    for example in examples {
        writeln!(file, "{example}").unwrap();
    }
    let lengths: BTreeMap<String, usize> = serde_json::from_value(lengths.clone()).unwrap();
    // Packed rows have other features than those with given lengths.
    let names: Vec<&str> = examples[0].as_object().unwrap().keys().map(String::as_str).collect();
    let output_features = features(&ids_vocabulary(), &names);
    let tasks = tasks([Task { output_features, ..task_of_ids(&folder) }]);
    let task_feature_lengths = Some(lengths);
    let config =
        DatasetConfig { task_feature_lengths, pack, batch_size: 1000, ..config("ids", (0, 0)) };
    let options = DatasetOptions {
        converter: class,
        num_epochs: Some(1),
        drop_remainder: false,
        ..DatasetOptions::default()
    };
    let mut batches = get_dataset(&config, &tasks, options).unwrap();
    let batch = batches.next_batch().unwrap().expect("one batch");
    assert_eq!(batches.next_batch().unwrap(), None);
    batch
}

/// The rows of an encoder-decoder model.
fn rows_of(examples: &[Json], (inputs, targets): (usize, usize), pack: bool) -> Batch {
    let lengths = serde_json::json!({"inputs": inputs, "targets": targets});
    rows_by(ConverterClass::default(), examples, &lengths, pack)
}

/// Compares every feature with SeqIO's rows.
fn check(batch: &Batch, expected: &Json) {
    let expected = expected.as_object().unwrap();
    let names: BTreeSet<&str> = batch.features.iter().map(|feature| &*feature.name).collect();
    assert_eq!(names, expected.keys().map(String::as_str).collect());
    for (name, rows) in expected {
        let rows: Vec<Vec<i32>> = rows.as_array().unwrap().iter().map(ints).collect();
        assert_eq!(batch.rows, rows.len(), "rows");
        assert_eq!(batch.rows_of(name).collect::<Vec<_>>(), rows, "{name}");
    }
}

#[test]
fn rows_equal_those_of_seqio() {
    for case in reference_json("packing.json").as_array().unwrap() {
        let length = |key: &str| case["lengths"][key].as_u64().unwrap() as usize;
        let lengths = (length("inputs"), length("targets"));
        let examples = case["examples"].as_array().unwrap();
        check(&rows_of(examples, lengths, true), &case["packed"]);
        check(&rows_of(&examples[..10], lengths, false), &case["unpacked"]);
    }
}

#[test]
fn examples_that_fit_share_a_row() {
    let examples = [
        serde_json::json!({"inputs": [7, 8, 5, 1], "targets": [3, 9, 1]}),
        serde_json::json!({"inputs": [8, 4, 9, 3, 1], "targets": [4, 1]}),
    ];
    let row = rows_of(&examples, (10, 7), true);
    let expected = serde_json::json!({
        "encoder_input_tokens": [[7, 8, 5, 1, 8, 4, 9, 3, 1, 0]],
        "encoder_segment_ids": [[1, 1, 1, 1, 2, 2, 2, 2, 2, 0]],
        "encoder_positions": [[0, 1, 2, 3, 0, 1, 2, 3, 4, 0]],
        "decoder_target_tokens": [[3, 9, 1, 4, 1, 0, 0]],
        "decoder_input_tokens": [[0, 3, 9, 0, 4, 0, 0]],
        "decoder_loss_weights": [[1, 1, 1, 1, 1, 0, 0]],
        "decoder_segment_ids": [[1, 1, 1, 2, 2, 0, 0]],
        "decoder_positions": [[0, 1, 2, 0, 1, 0, 0]],
    });
    check(&row, &expected);
    assert_eq!(rows_of(&examples, (7, 3), true).rows, 2);
}

#[test]
fn decoder_inputs_begin_anew_with_each_example() {
    let targets = [3, 8, 1, 9, 1, 5, 4, 1, 0, 0];
    let ids = [1, 1, 1, 2, 2, 3, 3, 3, 0, 0];
    let inputs = make_autoregressive_inputs(&targets, Some(&ids), 0);
    assert_eq!(inputs, [0, 3, 8, 0, 9, 0, 5, 4, 0, 0]);
    let inputs = make_autoregressive_inputs(&targets, None, 2);
    assert_eq!(inputs, [2, 3, 8, 1, 9, 1, 5, 4, 1, 0]);
}

/// The converter that a case of `converters.json` names.
fn class_of(case: &Json) -> ConverterClass {
    use gimlet::data::*;
    let loss_on_targets_only = case["arguments"]["loss_on_targets_only"].as_bool().unwrap_or(true);
    match case["converter"].as_str().unwrap() {
        "EncDecFeatureConverter" => EncDecFeatureConverter {}.into(),
        "LMFeatureConverter" => LMFeatureConverter {}.into(),
        "PrefixLMFeatureConverter" => {
            PrefixLMFeatureConverter { loss_on_targets_only, pack_before_joining: false }.into()
        }
        "PrefixSuffixLMFeatureConverter" => PrefixSuffixLMFeatureConverter {}.into(),
        "DecoderFeatureConverter" => DecoderFeatureConverter { loss_on_targets_only }.into(),
        "EncoderFeatureConverter" => EncoderFeatureConverter { mask_id: 9 }.into(),
        "PrePackedEncDecFeatureConverter" => PrePackedEncDecFeatureConverter {}.into(),
        "PassThroughFeatureConverter" => PassThroughFeatureConverter {}.into(),
        "PrePackedLMFeatureConverter" => PrePackedLMFeatureConverter {}.into(),
        "PrePackedPrefixLMFeatureConverter" => PrePackedPrefixLMFeatureConverter {}.into(),
        other => panic!("no converter {other}"),
    }
}

#[test]
fn every_converter_makes_seqio_s_rows() {
    for case in reference_json("converters.json").as_array().unwrap() {
        let examples = case["examples"].as_array().unwrap();
        let batch = rows_by(class_of(case), examples, &case["lengths"], case["pack"] == true);
        println!("{} {} {}", case["converter"], case["arguments"], case["pack"]);
        check(&batch, &case["rows"]);
    }
}

/// SeqIO would move the targets of the second example into those of the first.
#[test]
fn targets_of_a_packed_encoder_may_be_0_where_none_is_asked_for() {
    let examples = serde_json::json!([
        {"inputs": [5, 9, 6, 1], "targets": [0, 7, 0, 0]},
        {"inputs": [9, 8, 9], "targets": [3, 0, 4]},
    ]);
    let class = gimlet::data::EncoderFeatureConverter { mask_id: 9 }.into();
    let lengths = serde_json::json!({"inputs": 8, "targets": 8});
    let batch = rows_by(class, examples.as_array().unwrap(), &lengths, true);
    let row = |name: &str| batch.rows_of(name).next().unwrap().to_vec();
    assert_eq!(row("encoder_input_tokens"), [5, 9, 6, 1, 9, 8, 9, 0]);
    assert_eq!(row("encoder_target_tokens"), [0, 7, 0, 0, 3, 0, 4, 0]);
    assert_eq!(row("encoder_loss_weights"), [0, 1, 0, 0, 1, 0, 1, 0]);
    assert_eq!(row("encoder_segment_ids"), [1, 1, 1, 1, 2, 2, 2, 0]);
}

#[test]
fn features_pass_through_with_floats_and_padding() {
    let class = gimlet::data::PassThroughFeatureConverter {}.into();
    let lengths = BTreeMap::from([("audio".to_string(), 3), ("ids".to_string(), 2)]);
    let converter = FeatureConverter::new(&class, &lengths, Packing::None, 0).unwrap();
    let example: Example = [
        ("audio".into(), Value::Floats(vec![0.5, 1.5])),
        ("ids".into(), Value::Ints(vec![4, 5, 6])),
        ("text".into(), Value::Text("left behind".to_string())),
    ]
    .into_iter()
    .collect();
    let batch = converter.batch(&[example], 2).unwrap();
    assert_eq!(batch.ints("ids"), [4, 5, 0, 0]);
    let audio = gimlet::data::BatchValues::Floats(vec![0.5, 1.5, 0.0, 0.0, 0.0, 0.0]);
    assert_eq!(batch.feature("audio").unwrap().values, audio);
    let error = FeatureConverter::new(&class, &lengths, Packing::Greedy, 0).unwrap_err();
    assert!(error.to_string().contains("not allowed with PassThroughFeatureConverter"), "{error}");
}

#[test]
fn loss_weights_of_packed_examples_may_be_real_numbers() {
    let lengths = BTreeMap::from([("inputs".to_string(), 1), ("targets".to_string(), 2)]);
    let ids = ["input_tokens", "target_tokens", "positions", "segment_ids", "causal_attention"];
    let check = |class: ConverterClass, length: usize| {
        let converter = FeatureConverter::new(&class, &lengths, Packing::None, 0).unwrap();
        let ids = ids.map(|name| (format!("decoder_{name}").into(), Value::Ints(vec![1; length])));
        let weights = ("decoder_loss_weights".into(), Value::Floats(vec![0.5; length]));
        let example: Example = ids.into_iter().chain([weights]).collect();
        let batch = converter.batch(std::slice::from_ref(&example), 2).unwrap();
        let expected = [vec![0.5; length], vec![0.0; length]].concat();
        let weights = &batch.feature("decoder_loss_weights").unwrap().values;
        assert_eq!(*weights, gimlet::data::BatchValues::Floats(expected));
        assert_eq!(batch.ints("decoder_positions"), [vec![1; length], vec![0; length]].concat());
        let mut floats = example;
        floats.set("decoder_positions".into(), Value::Floats(vec![1.0; length]));
        let error = converter.batch(&[floats], 1).unwrap_err().to_string();
        assert!(error.contains("token ids in 'decoder_positions'"), "{error}");
    };
    check(gimlet::data::PrePackedLMFeatureConverter {}.into(), 2);
    check(gimlet::data::PrePackedPrefixLMFeatureConverter {}.into(), 3);
}

#[test]
fn lengths_must_fit_the_converter() {
    let lengths = |names: &[&str]| names.iter().map(|name| (name.to_string(), 4)).collect();
    let check = |class: ConverterClass, names: &[&str], expected: &str| {
        let made = FeatureConverter::new(&class, &lengths(names), Packing::None, 0);
        let error = made.unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    };
    check(EncDecFeatureConverter {}.into(), &["inputs"], "a positive length for 'targets'");
    let extra = "has 'suffixes', which an encoder-decoder model does not take";
    check(EncDecFeatureConverter {}.into(), &["inputs", "targets", "suffixes"], extra);
    let class = EncoderFeatureConverter { mask_id: 9 };
    check(class.into(), &["targets"], "a positive length for 'inputs'");
}

/// The share of positions that are padding.
fn padding(batch: &Batch) -> f64 {
    let tokens = ["encoder_input_tokens", "decoder_target_tokens"].map(|name| batch.ints(name));
    let zeros: usize = tokens.iter().map(|ids| ids.iter().filter(|&&id| id == 0).count()).sum();
    zeros as f64 / tokens.iter().map(|ids| ids.len()).sum::<usize>() as f64
}

#[test]
fn dense_packing_pads_less_and_loses_nothing() {
    let folder = folder_of_ids(&[400, 300, 500]);
    let tasks = tasks([task_of_ids(&folder)]);
    let packed = |use_custom_packing_ops| {
        let lengths = (17, 9);
        let config = DatasetConfig {
            pack: true,
            use_custom_packing_ops,
            batch_size: 2000,
            ..config("ids", lengths)
        };
        let options = DatasetOptions {
            num_epochs: Some(1),
            drop_remainder: false,
            ..DatasetOptions::default()
        };
        get_dataset(&config, &tasks, options).unwrap().next_batch().unwrap().unwrap()
    };
    let (greedy, dense) = (packed(false), packed(true));
    let segments = |batch: &Batch| {
        let last = |ids: &[i32]| ids.iter().copied().max().unwrap_or(0);
        batch.rows_of("decoder_segment_ids").map(last).sum::<i32>()
    };
    assert_eq!((segments(&greedy), segments(&dense)), (1200, 1200));
    let mut tokens = [&greedy, &dense].map(|batch| batch.ints("decoder_target_tokens").to_vec());
    for tokens in &mut tokens {
        tokens.retain(|&token| token != 0);
        tokens.sort_unstable();
    }
    assert_eq!(tokens[0], tokens[1]);
    assert!(padding(&dense) < padding(&greedy), "{} {}", padding(&dense), padding(&greedy));
}

#[test]
fn a_converter_can_be_a_step_of_a_task() {
    for case in reference_json("converters.json").as_array().unwrap() {
        let folder = tempfile::tempdir().unwrap();
        let lines = case["examples"].as_array().unwrap().iter().map(|line| format!("{line}\n"));
        std::fs::write(folder.path().join("a.jsonl"), lines.collect::<String>()).unwrap();
        let step = ApplyFeatureConverter {
            feature_converter: class_of(case),
            pack: case["pack"] == true,
            use_custom_packing_ops: false,
            bos_id: 0,
        };
        let source = json_source(&folder.path().join("a.jsonl").display().to_string());
        let task = task("rows", source, vec![step.into()], BTreeMap::new());
        let mut lengths: BTreeMap<String, usize> =
            serde_json::from_value(case["lengths"].clone()).unwrap();
        // As needed by the converter that passes the rows on.
        lengths.insert("decoder_target_tokens".to_string(), 11);
        let options = ExampleOptions {
            split: "train".to_string(),
            lengths: Some(lengths),
            ..ExampleOptions::default()
        };
        let rows = task_examples(&task, &options).unwrap().collect::<Result<Vec<_>, _>>().unwrap();
        for (name, expected) in case["rows"].as_object().unwrap() {
            let found: Vec<_> = rows.iter().map(|row| row.ints(name).unwrap()).collect();
            assert_eq!(serde_json::json!(found), *expected, "{name} of {case}");
        }
    }
}
