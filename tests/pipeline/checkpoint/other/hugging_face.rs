//! Models saved by transformers are read under T5X's names, with T5X's shapes.

use std::collections::BTreeSet;

use gimlet::checkpoint::{DType, Format, latest};
use gimlet::models::open;
use gimlet::models::t5::T5Config;
use gimlet::storage::Path;

use super::{check_params, copied, opened, value};
use crate::checkpoint::scratch;

#[test]
fn every_family_is_read_as_transformers_own_converters_understand_it() {
    let check = |name: &str, dtype, arrays: usize| {
        let model = opened(&format!("hugging_face/{name}"));
        assert_eq!((model.format(), model.step().unwrap()), (Format::HuggingFace, 0));
        assert_eq!(check_params(model.as_ref(), dtype), arrays, "{name}");
        model.verify().unwrap();
    };
    // Two layers of 8 and 13 arrays; embedding, two biases and two norms.
    check("t5", DType::F32, 2 * 8 + 2 * 13 + 5);
    check("t5_1_1", DType::F32, 2 * 9 + 14 + 6);
    check("mt5", DType::F32, 9 + 14 + 6);
    // A bias in every layer instead of two.
    check("umt5", DType::Bf16, 2 * 10 + 2 * 15 + 4);
    check("longt5", DType::F16, 2 * 10 + 14 + 7);
    check("longt5_local", DType::F16, 2 * 9 + 14 + 6);
    check("byt5", DType::Bf16, 3 * 9 + 14 + 6);
}

#[test]
fn names_are_those_of_the_models_parameter_tree() {
    let names: BTreeSet<String> = opened("hugging_face/t5_1_1")
        .leaves()
        .iter()
        .map(|leaf| leaf.name.strip_prefix("target/").unwrap().to_string())
        .collect();
    let config = T5Config {
        vocab_size: 12,
        emb_dim: 8,
        num_heads: 2,
        num_encoder_layers: 2,
        num_decoder_layers: 1,
        head_dim: 3,
        mlp_dim: 5,
        ..T5Config::t5_1_1_small()
    };
    let expected: BTreeSet<String> =
        config.param_tree().into_iter().map(|param| param.name).collect();
    assert_eq!(names, expected);
}

#[test]
fn parts_of_transposed_and_other_arrays_are_those_of_the_whole() {
    let model = opened("hugging_face/umt5");
    for leaf in model.leaves() {
        let part: Vec<_> =
            leaf.shape.iter().map(|extent| extent / 3..extent - extent / 4).collect();
        let expected = model.read(leaf.name).unwrap().part(&part);
        assert_eq!(model.read_part(leaf.name, &part).unwrap(), expected, "{}", leaf.name);
    }
}

#[test]
fn one_file_is_read_with_the_configuration_beside_it() {
    let (_dir, dir) = scratch();
    let folder = copied("hugging_face/t5", &dir);
    let file = folder.join("model.safetensors");
    assert_eq!(check_params(open(&file).unwrap().as_ref(), DType::F32), 47);
    // Without it, a model whose head is its embedding still has no separate head.
    folder.join("config.json").remove_file().unwrap();
    assert_eq!(check_params(open(&file).unwrap().as_ref(), DType::F32), 47);
}

/// Replaces a word of the configuration.
fn reconfigure(folder: &Path, from: &str, to: &str) {
    let file = folder.join("config.json");
    let text = file.read_to_string().unwrap();
    assert!(text.contains(from), "{text}");
    file.write_atomic(text.replace(from, to).as_bytes()).unwrap();
}

#[test]
fn a_head_of_its_own_is_read_though_transformers_5_calls_every_model_tied() {
    for name in ["t5_1_1", "mt5", "umt5", "longt5", "longt5_local", "byt5"] {
        let (_dir, dir) = scratch();
        let folder = copied(&format!("hugging_face/{name}"), &dir);
        let expected = open(&folder).unwrap().shapes();
        assert!(expected.contains_key("target/decoder/logits_dense/kernel"), "{name}");
        let untied = r#""tie_word_embeddings": false"#;
        reconfigure(&folder, untied, r#""tie_word_embeddings": true"#);
        assert_eq!(open(&folder).unwrap().shapes(), expected, "{name}");
    }
}

#[test]
fn an_embedding_that_makes_logits_unscaled_is_read_as_their_matrix() {
    let (_dir, dir) = scratch();
    let folder = copied("hugging_face/t5", &dir);
    reconfigure(&folder, "{", r#"{"scale_decoder_outputs": false,"#);
    let model = open(&folder).unwrap();
    let embedding = model.read("target/token_embedder/embedding").unwrap();
    let logits = model.read("target/decoder/logits_dense/kernel").unwrap();
    let [rows, columns] = embedding.shape[..] else { panic!("{:?}", embedding.shape) };
    assert_eq!(logits.shape, [columns, rows]);
    let (embedding, logits) = (embedding.to_f32().unwrap(), logits.to_f32().unwrap());
    for (at, value) in embedding.iter().enumerate() {
        assert_eq!(logits[at % columns * rows + at / columns], *value);
    }
}

#[test]
fn models_of_other_families_are_refused_by_name() {
    let (_dir, dir) = scratch();
    let folder = copied("hugging_face/t5", &dir);
    folder.join("config.json").write_atomic(br#"{"model_type": "roberta"}"#).unwrap();
    let message = open(&folder).unwrap_err().to_string();
    assert!(
        message.contains("model_type `roberta`, expected t5, mt5, umt5, longt5 or bert"),
        "{message}"
    );
}

#[test]
fn a_missing_shard_is_named() {
    let (_dir, dir) = scratch();
    let folder = copied("hugging_face/mt5", &dir);
    folder.join("model-00002-of-00003.safetensors").remove_file().unwrap();
    let error = open(&folder).unwrap_err();
    assert!(error.is_damage());
    assert!(error.to_string().contains("model-00002-of-00003.safetensors"), "{error}");
}

#[test]
fn a_model_is_no_folder_of_checkpoints() {
    let folder = crate::checkpoint::fixture("other/hugging_face/t5");
    let message = latest(&folder).unwrap_err().to_string();
    assert!(message.contains("use mode = 'specific'"), "{message}");
}

#[test]
fn a_transposed_kernel_is_what_t5x_multiplies_with() {
    let name = "encoder/layers_0/mlp/wi/kernel";
    let model = opened("hugging_face/t5");
    let kernel = model.read(&format!("target/{name}")).unwrap();
    assert_eq!(kernel.shape, [8, 5]);
    assert_eq!(kernel, value(name, &[8, 5], DType::F32));
}
