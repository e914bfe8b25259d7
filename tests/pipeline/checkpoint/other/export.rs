//! A model that is read and exported again is the same model.

use std::collections::BTreeMap;

use gimlet::checkpoint::{
    Array, DType, HuggingFaceOptions, Stored, Weights, Writer, export_hugging_face, export_torch,
};
use gimlet::models::{HUGGING_FACE, open};
use gimlet::storage::Path;
use serde_json::Value;

use super::opened;
use crate::checkpoint::{fixture, names, scratch};

const FAMILIES: [&str; 7] = ["t5", "t5_1_1", "mt5", "umt5", "longt5", "longt5_local", "byt5"];

fn exported(name: &str, to: &Path) -> Path {
    // Through T5X's own format, as saved by a run.
    let model = opened(&format!("hugging_face/{name}"));
    let writer = Writer::create(&to.join(name), 0, None).unwrap();
    for leaf in model.leaves() {
        writer.array(leaf.name, model.read(leaf.name).unwrap().view()).unwrap();
    }
    let saved = open(&writer.commit().unwrap()).unwrap();
    let model_type = match name {
        // Recognized by its embedding, only at its full size.
        "mt5" => Some("mt5".to_string()),
        // Its arrays are those of a T5.
        "longt5_local" => Some("longt5".to_string()),
        _ => None,
    };
    let is_long = name.starts_with("longt5");
    let options = HuggingFaceOptions {
        model_type,
        local_radius: is_long.then_some(3),
        global_block_size: is_long.then_some(4),
        ..HuggingFaceOptions::default()
    };
    let dir = to.join(&format!("{name}_exported"));
    export_hugging_face(saved.as_ref(), &dir, &options, HUGGING_FACE).unwrap();
    dir
}

/// Type, shape and bytes of every tensor of a file of safetensors.
fn tensors(file: &Path) -> BTreeMap<String, (Value, Value, Vec<u8>)> {
    let bytes = file.read().unwrap();
    let length = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    let (header, data) = bytes[8..].split_at(length);
    assert_eq!(length % 8, 0, "tensors are aligned");
    let header: BTreeMap<String, Value> = serde_json::from_slice(header).unwrap();
    let tensors = header.into_iter().filter(|(name, _)| name != "__metadata__");
    let tensor = |(name, info): (String, Value)| {
        let at = |i: usize| info["data_offsets"][i].as_u64().unwrap() as usize;
        (name, (info["dtype"].clone(), info["shape"].clone(), data[at(0)..at(1)].to_vec()))
    };
    tensors.map(tensor).collect()
}

#[test]
fn exported_tensors_are_those_that_transformers_wrote() {
    let (_dir, dir) = scratch();
    for name in ["t5", "longt5", "longt5_local", "byt5"] {
        let ours = tensors(&exported(name, &dir).join("model.safetensors"));
        let theirs = fixture(&format!("other/hugging_face/{name}/model.safetensors"));
        assert_eq!(ours, tensors(&theirs), "{name}");
    }
}

#[test]
fn every_family_comes_back_as_it_was() {
    let (_dir, dir) = scratch();
    for name in FAMILIES {
        let (again, model) =
            (open(&exported(name, &dir)).unwrap(), opened(&format!("hugging_face/{name}")));
        assert_eq!(again.shapes(), model.shapes(), "{name}");
        for leaf in model.leaves() {
            assert_eq!(again.read(leaf.name).unwrap(), model.read(leaf.name).unwrap(), "{name}");
        }
    }
}

/// Converts the model to one array for all layers of a stack, as `scanned` of `hugging_face.py`,
/// from which transformers' converter made the fixture.
fn stacked(model: &dyn Stored, model_dir: &Path, heads: usize) -> Box<dyn Stored> {
    let writer = Writer::create(model_dir, 0, None).unwrap();
    for leaf in model.leaves() {
        let Some((stack, rest)) = leaf.name.split_once("/layers_0/") else {
            if !leaf.name.contains("/layers_") {
                writer.array(leaf.name, model.read(leaf.name).unwrap().view()).unwrap();
            }
            continue;
        };
        let layer = |i| model.read(&format!("{stack}/layers_{i}/{rest}")).unwrap();
        let (first, second) = (layer(0), layer(1));
        let mut shape = leaf.shape.to_vec();
        match rest.contains("attention/") && rest.ends_with("kernel") {
            true if rest.ends_with("out/kernel") => {
                shape.splice(0..1, [heads, leaf.shape[0] / heads]);
            }
            true => drop(shape.splice(1.., [heads, leaf.shape[1] / heads])),
            false => {}
        }
        let row = first.data.len() / shape[0];
        let rows = first.data.chunks(row).zip(second.data.chunks(row));
        let data = rows.flat_map(|(first, second)| [first, second].concat()).collect();
        shape.insert(1, 2);
        let end = stack.rsplit('/').next().unwrap();
        let array = Array { dtype: leaf.dtype, shape, data };
        writer.array(&format!("{stack}/{end}/{rest}"), array.view()).unwrap();
    }
    open(&writer.commit().unwrap()).unwrap()
}

#[test]
fn layers_in_one_array_are_exported_one_by_one() {
    let (_dir, dir) = scratch();
    let model = opened("hugging_face/umt5");
    let stacked = stacked(model.as_ref(), &dir.join("stacked"), 2);
    let kernel = "target/encoder/encoder/attention/query/kernel";
    assert_eq!(stacked.shapes()[kernel], [8, 2, 2, 3]);
    assert_eq!(stacked.leaves().len(), 4 + 10 + 15);
    let to = dir.join("exported");
    export_hugging_face(stacked.as_ref(), &to, &HuggingFaceOptions::default(), HUGGING_FACE)
        .unwrap();
    let exported = open(&to).unwrap();
    assert_eq!(exported.shapes(), model.shapes());
    for leaf in model.leaves() {
        let (found, expected) = (exported.read(leaf.name), model.read(leaf.name));
        assert_eq!(found.unwrap(), expected.unwrap(), "{}", leaf.name);
    }
    let config = to.join("config.json").read_to_string().unwrap();
    assert!(config.contains("UMT5") && config.contains(r#""num_layers": 2"#), "{config}");
}

#[test]
fn the_configuration_is_that_of_transformers() {
    let (_dir, dir) = scratch();
    let read = |file: &Path| -> BTreeMap<String, Value> {
        serde_json::from_slice(&file.read().unwrap()).unwrap()
    };
    for name in FAMILIES {
        let ours = read(&exported(name, &dir).join("config.json"));
        let mut theirs = read(&fixture(&format!("other/hugging_face/{name}/config.json")));
        // The older name, which every version reads; and the default value.
        theirs.insert("torch_dtype".to_string(), theirs["dtype"].clone());
        theirs.entry("tie_word_embeddings".to_string()).or_insert(true.into());
        theirs.entry("decoder_start_token_id".to_string()).or_insert(0.into());
        for (key, value) in &ours {
            assert_eq!(theirs.get(key), Some(value), "{name}: {key}");
        }
    }
}

#[test]
fn a_byt5s_tokenizer_has_the_tokens_of_transformers_own() {
    let (_dir, dir) = scratch();
    let to = dir.join("out");
    // As many sentinels as the fixture's.
    let options = HuggingFaceOptions { extra_ids: Some(3), ..HuggingFaceOptions::default() };
    export_hugging_face(opened("hugging_face/byt5").as_ref(), &to, &options, HUGGING_FACE).unwrap();
    let read = |folder: &Path| -> Value {
        serde_json::from_slice(&folder.join("tokenizer_config.json").read().unwrap()).unwrap()
    };
    let (ours, theirs) = (read(&to), read(&fixture("other/hugging_face/byt5")));
    let keys =
        ["tokenizer_class", "additional_special_tokens", "eos_token", "pad_token", "unk_token"];
    for key in keys {
        assert_eq!(ours[key], theirs[key], "{key}");
    }
    for (id, token) in ours["added_tokens_decoder"].as_object().unwrap() {
        assert_eq!(token["content"], theirs["added_tokens_decoder"][id]["content"], "{id}");
    }
}

/// A SentencePiece model of these pieces and nothing else.
fn sentencepiece(pieces: &[&str]) -> Vec<u8> {
    let field = |bytes: &[u8]| [&[0x0a, bytes.len() as u8], bytes].concat();
    let kind = |piece: &str| match piece {
        "<unk>" => 2,
        "<pad>" | "</s>" => 3,
        _ => 1,
    };
    let piece =
        |piece: &&str| field(&[&field(piece.as_bytes())[..], &[0x18, kind(piece)]].concat());
    pieces.iter().flat_map(piece).collect()
}

#[test]
fn sentinels_have_rows_of_the_embedding() {
    let (_dir, dir) = scratch();
    let (vocabulary, to) = (dir.join("any.model"), dir.join("out"));
    // An embedding of twelve rows.
    let model = opened("hugging_face/t5");
    let export = |extra_ids| {
        let vocabulary = Some(vocabulary.clone());
        let options = HuggingFaceOptions { vocabulary, extra_ids, ..HuggingFaceOptions::default() };
        export_hugging_face(model.as_ref(), &to, &options, HUGGING_FACE)
            .map_err(|error| error.to_string())
    };
    vocabulary.write_atomic(b"a vocabulary").unwrap();
    assert!(export(None).unwrap_err().contains("it is not a SentencePiece model"));
    let pieces = ["<pad>", "</s>", "<unk>", "▁<extra_id_1>", "▁<extra_id_0>"];
    vocabulary.write_atomic(&sentencepiece(&pieces)).unwrap();
    let expected = "5 pieces and 8 extra ids are more than the 12 rows of the model's embedding; \
                    expected --extra_ids of 7 at most, or 0, since its pieces hold the sentinels";
    let message = export(Some(8)).unwrap_err();
    assert!(message.contains(expected), "{message}");
    assert!(!to.exists().unwrap());
    export(None).unwrap();
    let config = to.join("tokenizer_config.json").read_to_string().unwrap();
    assert!(config.contains("\"extra_ids\": 0") && !config.contains("<extra_id_"), "{config}");
}

#[test]
fn an_export_that_fails_leaves_nothing() {
    let (_dir, dir) = scratch();
    let model = opened("hugging_face/t5");
    for weights in [Weights::Safetensors, Weights::Torch, Weights::Flax] {
        let to = dir.join(weights.file_name());
        to.create_dir_all().unwrap();
        // A disk that is full.
        let unfinished = to.join(&format!("{}.unfinished", weights.file_name()));
        std::os::unix::fs::symlink("/dev/full", unfinished.local().unwrap()).unwrap();
        let options = HuggingFaceOptions { weights, ..HuggingFaceOptions::default() };
        let error = export_hugging_face(model.as_ref(), &to, &options, HUGGING_FACE).unwrap_err();
        assert!(error.to_string().contains("the disk is full"), "{error}");
        assert_eq!(names(&to), [""; 0]);
    }
    let file = dir.join("x.pth");
    let unfinished = dir.join("x.pth.unfinished").local().unwrap();
    std::os::unix::fs::symlink("/dev/full", &unfinished).unwrap();
    export_torch(model.as_ref(), &file, &HuggingFaceOptions::default(), HUGGING_FACE).unwrap_err();
    assert!(!file.exists().unwrap() && unfinished.symlink_metadata().is_err());
}

#[test]
fn another_type_and_a_vocabulary_are_as_asked() {
    let (_dir, dir) = scratch();
    let vocabulary = dir.join("any.model");
    vocabulary.write_atomic(&sentencepiece(&["<pad>", "</s>", "<unk>", "a"])).unwrap();
    let options = HuggingFaceOptions {
        dtype: Some(DType::Bf16),
        vocabulary: Some(vocabulary.clone()),
        extra_ids: Some(2),
        ..HuggingFaceOptions::default()
    };
    let model = opened("hugging_face/t5");
    let to = dir.join("out");
    export_hugging_face(model.as_ref(), &to, &options, HUGGING_FACE).unwrap();
    assert!(open(&to).unwrap().leaves().iter().all(|leaf| leaf.dtype == DType::Bf16));
    assert_eq!(to.join("spiece.model").read().unwrap(), vocabulary.read().unwrap());
    let json = to.join("tokenizer.json").read().unwrap();
    let json: serde_json::Value = serde_json::from_slice(&json).unwrap();
    assert_eq!(json["model"]["type"], "Unigram");
    let config = to.join("tokenizer_config.json").read_to_string().unwrap();
    assert!(config.contains("\"T5Tokenizer\"") && config.contains("<extra_id_1>"), "{config}");
    assert!(!config.contains("<extra_id_2>"), "{config}");
    let message =
        export_hugging_face(model.as_ref(), &to, &options, HUGGING_FACE).unwrap_err().to_string();
    assert!(message.contains("name another folder or remove it"), "{message}");
}

#[test]
fn files_that_lie_beside_a_model_are_not_overwritten() {
    let (_dir, dir) = scratch();
    let model = opened("hugging_face/t5");
    let export =
        || export_hugging_face(model.as_ref(), &dir, &HuggingFaceOptions::default(), HUGGING_FACE);
    dir.join("config.json").write_atomic(b"mine").unwrap();
    let message = export().unwrap_err().to_string();
    assert!(message.contains("another `config.json`"), "{message}");
    assert_eq!(dir.list().unwrap().len(), 1);
    dir.join("config.json").remove_file().unwrap();
    export().unwrap();
    // The same files may exist, as after a conversion that was killed.
    dir.join("model.safetensors").remove_file().unwrap();
    export().unwrap();
}

/// Returns a T5 without its decoder.
fn encoder_only() -> (tempfile::TempDir, Box<dyn Stored>) {
    let (dir, path) = scratch();
    let writer = Writer::create(&path, 0, None).unwrap();
    let model = opened("hugging_face/t5");
    for leaf in model.leaves().iter().filter(|leaf| !leaf.name.starts_with("target/decoder/")) {
        writer.array(leaf.name, model.read(leaf.name).unwrap().view()).unwrap();
    }
    writer.array("state/step", Array::scalar_i32(0).view()).unwrap();
    let stored = open(&writer.commit().unwrap()).unwrap();
    (dir, stored)
}

#[test]
fn what_is_no_t5_is_refused_and_leaves_nothing() {
    let (_dir, dir) = scratch();
    let check = |stored: &dyn Stored, options: &HuggingFaceOptions, expected: &str| {
        let to = dir.join("refused");
        let message =
            export_hugging_face(stored, &to, options, HUGGING_FACE).unwrap_err().to_string();
        assert!(message.contains(expected), "{message}");
        assert!(!to.exists().unwrap());
    };
    let plain = HuggingFaceOptions::default();
    check(opened("torch/odd.pt").as_ref(), &plain, "it has no `token_embedder/embedding`");
    let (_dir, encoder) = encoder_only();
    check(encoder.as_ref(), &plain, "it has no decoder");
    let model = opened("hugging_face/t5");
    let seven = HuggingFaceOptions { num_heads: Some(7), ..plain.clone() };
    check(model.as_ref(), &seven, "7 heads do not share 6 columns evenly");
    let memory = "../../../numerics/data/t5_experiments/t5_memory_5.safetensors";
    let reason = "transformers has no T5 with `encoder/memory_tokens/embedding`";
    check(opened(memory).as_ref(), &plain, reason);
    let llama = HuggingFaceOptions { model_type: Some("llama".to_string()), ..plain };
    check(
        model.as_ref(),
        &llama,
        "`llama` is unknown, expected one of t5, mt5, umt5, longt5, bert",
    );
}
