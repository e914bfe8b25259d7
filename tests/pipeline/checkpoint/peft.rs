//! Folders of PEFT, which `tests/e2e/hugging_face/make_peft.py` made with PEFT itself: read as their base with the adapter's arrays,
//! written again, merged, and refused.

use std::fs;

use gimlet::checkpoint::{
    Adapter, CheckpointError, Format, PeftConfig, PeftOptions, Shapes, Stored, arranged,
    export_peft, merged,
};
use gimlet::models::{HUGGING_FACE, open};
use gimlet::storage::Path;
use serde_json::{Value, json};

use super::scratch;

const FOLDERS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/e2e/hugging_face");
const QUERY: &str = "target/encoder/layers_1/attention/query";
const PROMPT: &str = "target/encoder/prompt/prompt/prompt";

fn folder(name: &str) -> Path {
    Path::parse(&format!("{FOLDERS}/{name}")).unwrap()
}

fn floats(stored: &dyn Stored, name: &str) -> Vec<f32> {
    stored.read(name).unwrap().to_f32().unwrap()
}

fn adapter(name: &str) -> Adapter {
    PeftConfig::of_folder(&folder(name)).unwrap().adapter
}

/// Copies an adapter with other entries of its configuration.
fn changed(name: &str, entries: Value) -> (tempfile::TempDir, Path) {
    let (dir, to) = scratch();
    let file = "adapter_model.safetensors";
    fs::copy(format!("{FOLDERS}/{name}/{file}"), dir.path().join(file)).unwrap();
    let text = fs::read(format!("{FOLDERS}/{name}/adapter_config.json")).unwrap();
    let mut config: Value = serde_json::from_slice(&text).unwrap();
    let base = json!({"base_model_name_or_path": format!("{FOLDERS}/flan_t5")});
    for entries in [base, entries] {
        config.as_object_mut().unwrap().extend(entries.as_object().unwrap().clone());
    }
    fs::write(dir.path().join("adapter_config.json"), config.to_string()).unwrap();
    (dir, to)
}

fn refusal(name: &str, entries: Value) -> String {
    let (_dir, path) = changed(name, entries);
    open(&path).map(|stored| format!("{stored:?} is no refusal")).unwrap_err().to_string()
}

#[test]
fn an_adapter_is_its_base_with_the_factors_beside_kernels() {
    let (base, stored) = (open(&folder("flan_t5")).unwrap(), open(&folder("peft_lora")).unwrap());
    assert_eq!((stored.format(), stored.step().unwrap()), (Format::Peft, 0));
    let names = |stored: &dyn Stored| -> Vec<String> {
        stored.leaves().iter().map(|leaf| leaf.name.to_string()).collect()
    };
    let own: Vec<String> =
        names(&*stored).into_iter().filter(|name| !name.contains("/lora_")).collect();
    assert_eq!(own, names(&*base));
    assert_eq!(names(&*stored).len() - own.len(), 2 * 13);
    let kernel = format!("{QUERY}/kernel");
    assert_eq!(stored.read(&kernel).unwrap(), base.read(&kernel).unwrap());
    assert_eq!(stored.read(&format!("{QUERY}/lora_a")).unwrap().shape, [16, 3]);
    assert_eq!(stored.read(&format!("{QUERY}/lora_b")).unwrap().shape, [3, 16]);
    assert_eq!(open(&folder("peft_prompt")).unwrap().read(PROMPT).unwrap().shape, [5, 16]);
}

/// The shapes of T5X's `scalable_t5`: layers share arrays, and attentions have heads of width 8.
fn stacked(separate: &Shapes) -> Shapes {
    let num_layers = |stack: &str| {
        let norm = |layer| format!("{stack}/layers_{layer}/pre_mlp_layer_norm/scale");
        (0..).take_while(|layer| separate.contains_key(&norm(*layer))).count()
    };
    let one = |(name, shape): (&String, &Vec<usize>)| {
        let Some((stack, rest)) = name.split_once("/layers_") else {
            return (name.clone(), shape.clone());
        };
        let rest = rest.split_once('/').expect("a layer has parts").1;
        let mut shape = shape.clone();
        let ends = |ends: &[&str]| ends.iter().any(|end| rest.ends_with(end));
        let of_heads =
            ["query", "key", "value"].map(|of| ["kernel", "lora_b"].map(|it| format!("{of}/{it}")));
        let of_heads: Vec<&str> = of_heads.iter().flatten().map(String::as_str).collect();
        let axis = if ends(&["out/kernel", "out/lora_a"]) {
            Some(0)
        } else {
            ends(&of_heads).then_some(1)
        };
        axis.iter().for_each(|axis| drop(shape.splice(axis..=axis, [shape[*axis] / 8, 8])));
        shape.insert(1, num_layers(stack));
        let short = stack.strip_prefix("target/").expect("it is a parameter");
        (format!("{stack}/{short}/{rest}"), shape)
    };
    separate.iter().map(one).collect()
}

#[test]
fn additions_in_arrays_of_all_layers_are_merged_as_those_of_each() {
    let lora = || open(&folder("peft_lora")).unwrap();
    let separate: Shapes =
        lora().shapes().into_iter().filter(|(name, _)| name.starts_with("target/")).collect();
    let own = stacked(&separate);
    let stored = arranged(lora(), &own);
    assert_eq!(
        stored.read("target/encoder/encoder/attention/query/lora_b").unwrap().shape,
        [3, 2, 2, 8]
    );
    let base: Shapes = own.into_iter().filter(|(name, _)| !name.contains("/lora_")).collect();
    let found = arranged(merged(arranged(stored, &separate), (3, 5.0)).unwrap(), &base);
    let expected = arranged(merged(lora(), (3, 5.0)).unwrap(), &base);
    let leaves = |stored: &dyn Stored| -> Vec<String> {
        stored.leaves().iter().map(|leaf| leaf.name.to_string()).collect()
    };
    assert!(base.keys().all(|name| found.shapes().contains_key(name)));
    assert_eq!(leaves(&*found), leaves(&*expected));
    for name in base.keys() {
        assert!(found.read(name).unwrap() == expected.read(name).unwrap(), "{name}");
    }
}

#[test]
fn a_merged_kernel_is_the_sum_in_whole_and_in_parts() {
    let stored = open(&folder("peft_lora")).unwrap();
    let Adapter::Lora { rank: 3, alpha, dropout_rate: 0.1 } = adapter("peft_lora") else {
        panic!("it is LoRA of rank 3");
    };
    let kernel = format!("{QUERY}/kernel");
    let [own, first, second] = [&kernel, &format!("{QUERY}/lora_a"), &format!("{QUERY}/lora_b")]
        .map(|name| floats(&*stored, name));
    // Rank-stabilized: alpha over the root of the rank.
    let scale = 5.0 / 3.0_f32.sqrt();
    let sum = |row: usize, column: usize| {
        let products = (0..3).map(|at| first[row * 3 + at] * second[at * 16 + column]);
        own[row * 16 + column] + scale * products.sum::<f32>()
    };
    let merged = merged(stored, (3, alpha)).unwrap();
    assert!(merged.leaves().iter().all(|leaf| !leaf.name.contains("/lora_")));
    let whole = floats(&*merged, &kernel);
    let part = merged.read_part(&kernel, &[4..6, 9..16]).unwrap().to_f32().unwrap();
    for (row, column) in (0..16).flat_map(|row| (0..16).map(move |column| (row, column))) {
        assert!((whole[row * 16 + column] - sum(row, column)).abs() < 1e-5);
    }
    let cut = (4..6).flat_map(|row| whole[row * 16 + 9..][..7].to_vec());
    assert_eq!(part, cut.collect::<Vec<f32>>());
}

#[test]
fn what_is_written_is_what_was_read() {
    for name in ["peft_lora", "peft_prompt"] {
        let (_dir, to) = scratch();
        let options = PeftOptions {
            adapter: adapter(name),
            base: Some(format!("{FOLDERS}/flan_t5")),
            task_type: Some("SEQ_2_SEQ_LM"),
            model_type: None,
            dtype: None,
        };
        let from = open(&folder(name)).unwrap();
        export_peft(&*from, &to, &options, HUGGING_FACE).unwrap();
        let again = open(&to).unwrap();
        assert_eq!(again.shapes(), from.shapes(), "{name}");
        for leaf in from.leaves() {
            assert_eq!(again.read(leaf.name).unwrap(), from.read(leaf.name).unwrap());
        }
        let error = export_peft(&*from, &to, &options, HUGGING_FACE).unwrap_err().to_string();
        assert!(error.contains("it holds a `adapter_model.safetensors` already"), "{error}");
    }
}

#[test]
fn an_adapter_of_another_model_or_another_kind_is_refused() {
    let lora = |entries| refusal("peft_lora", entries);
    for (error, parts) in [
        (
            lora(json!({"r": 4})),
            [
                "layer.0.SelfAttention.k.lora_A.weight` has shape [3, 16], expected [4, 16]",
                "at a rank of 4",
            ],
        ),
        (
            lora(json!({"base_model_name_or_path": format!("{FOLDERS}/t5")})),
            [
                "has no `decoder/layers_0/mlp/wi_1`",
                "the adapter is of another model than `base_model_name_or_path` names",
            ],
        ),
        (lora(json!({"base_model_name_or_path": null})), ["is null", "write it there"]),
        (
            lora(json!({"base_model_name_or_path": "/nowhere/t5"})),
            ["/nowhere/t5", "change `base_model_name_or_path`, or name its folder by --path_map"],
        ),
        (lora(json!({"use_dora": true})), ["`use_dora` is true, expected null", "DoRA"]),
        (lora(json!({"modules_to_save": ["lm_head"]})), ["`modules_to_save` is", "own parameters"]),
        (
            lora(json!({"init_lora_weights": "pissa"})),
            ["\"pissa\", expected true", "changes the base"],
        ),
        (lora(json!({"peft_type": "IA3"})), ["`peft_type` is \"IA3\"", "LORA or PROMPT_TUNING"]),
        (lora(json!({"r": 0})), ["`r` is 0", "a number from 1 on"]),
        (
            refusal("peft_prompt", json!({"num_virtual_tokens": 11})),
            ["`prompt_embeddings` has shape [10, 16], expected [11, 16]", "another model"],
        ),
    ] {
        for part in parts {
            assert!(error.contains(part), "{part}: {error}");
        }
    }
    let plain = merged(open(&folder("flan_t5")).unwrap(), (3, 1.0)).unwrap_err();
    assert!(matches!(plain, CheckpointError::Export { .. }), "{plain}");
}
