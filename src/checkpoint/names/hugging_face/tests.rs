//! Tables of a small family, in two spellings.

use super::*;
use crate::array::DType;
use crate::names::{Axes, Origin};
use crate::raw::{RawInfo, RawInfos};

const KERNEL: ParameterKind = ParameterKind::KERNEL;
const BIAS: ParameterKind =
    ParameterKind { torch: "bias", flax: "bias", t5x: "bias", axes: Axes::Same };

const EMBEDDING: &[&str] = &["shared.weight", "decoder.embed_tokens.weight"];

const EVERY: &[ModuleNames] = &[
    (
        "",
        "",
        &[
            ("shared", "token_embedder", ParameterKind::EMBEDDING),
            ("head", "decoder/logits_dense", KERNEL),
        ],
    ),
    ("decoder.block.#", "decoder/layers_#", &[("q", "query", KERNEL), ("q", "query", BIAS)]),
];
const OF_STACK: &[ModuleNames] = &[("decoder.block.0", "decoder", &[("far", "far", KERNEL)])];
const OF_LAYER: &[ModuleNames] =
    &[("decoder.block.#", "decoder/layers_#", &[("far", "far", KERNEL)])];

const fn table(modules: &'static [&'static [ModuleNames]]) -> NameTable {
    NameTable {
        model_type: "small",
        class: "Small",
        modules,
        copies: &[EMBEDDING],
        head: Some(("head.weight", EMBEDDING)),
        stated_by: None,
        dropped: &["position_ids"],
    }
}

const TABLES: &[NameTable] = &[table(&[EVERY, OF_STACK]), table(&[EVERY, OF_LAYER])];

fn map_from(layout: WeightsLayout, names: &[&str], facts: HeadFacts) -> Vec<String> {
    let info = RawInfo { dtype: DType::F32, shape: vec![2, 3] };
    let tensors: RawInfos = names.iter().map(|name| (name.to_string(), info.clone())).collect();
    let is_same = |head: &str, _: &str| !head.starts_with("module.");
    let tables: Vec<_> = TABLES.iter().collect();
    let entries = entries(&tensors, layout, (&tables, facts), &is_same);
    let shown = entries.iter().map(|(name, entry)| match &entry.origin {
        Origin::Tensor(raw, Axes::Swapped) => format!("{name}<{raw} T"),
        Origin::Tensor(raw, Axes::Same) => format!("{name}<{raw}"),
        other => format!("{name}<{other:?}"),
    });
    shown.map(|text| text.strip_prefix("target/").expect("all lie there").to_string()).collect()
}

fn map(names: &[&str], facts: HeadFacts) -> Vec<String> {
    map_from(WeightsLayout::PyTorch, names, facts)
}

#[test]
fn wrappers_prefixes_are_no_part_of_a_name() {
    let found = map(&["module.shared.weight", "module.head.weight"], HeadFacts::default());
    assert_eq!(
        found,
        [
            "decoder/logits_dense/kernel<module.head.weight T",
            "token_embedder/embedding<module.shared.weight",
        ]
    );
}

#[test]
fn a_tied_head_copies_and_tensors_without_effect_are_dropped() {
    let names = ["shared.weight", "decoder.embed_tokens.weight", "head.weight", "position_ids"];
    let found = map(&names, HeadFacts::default());
    assert_eq!(found, ["token_embedder/embedding<shared.weight"]);
    let untied = map(&names, HeadFacts { is_untied: true, ..HeadFacts::default() });
    assert_eq!(untied[0], "decoder/logits_dense/kernel<head.weight T");
    let found = map(&["decoder.embed_tokens.weight"], HeadFacts::default());
    assert_eq!(found, ["token_embedder/embedding<decoder.embed_tokens.weight"]);
}

#[test]
fn an_embedding_that_maps_to_logits_as_it_is_becomes_a_matrix_of_its_own() {
    let facts = HeadFacts { divides: Some(false), ..HeadFacts::default() };
    let found = map(&["shared.weight", "decoder.block.0.q.weight"], facts);
    assert_eq!(found[1], "decoder/logits_dense/kernel<shared.weight T");
    assert_eq!(map(&["shared.weight"], facts).len(), 1, "an encoder has no logits");
}

#[test]
fn a_separate_matrix_after_a_division_is_divided() {
    let facts = HeadFacts { is_untied: true, divides: Some(true) };
    let found = map(&["shared.weight", "head.weight"], facts);
    assert_eq!(
        found[0],
        "decoder/logits_dense/kernel<Divided(\"head.weight\", Swapped, 1.7320508075688772)"
    );
}

#[test]
fn no_tensor_hides_another() {
    let found = map(&["a.b", "a/b", "a.b.c", "a/b.c"], HeadFacts::default());
    assert_eq!(found, ["a.b<a.b", "a/b<a/b", "a/b.c<a/b.c", "a/b/c<a.b.c"]);
}

#[test]
fn the_table_is_the_one_that_knows_the_most_names() {
    let [first, later] = ["decoder.block.0.far.weight", "decoder.block.11.far.weight"];
    let shared = map(&[first], HeadFacts::default());
    assert_eq!(shared, [format!("decoder/far/kernel<{first} T")]);
    let own = map(&[first, later], HeadFacts::default());
    assert_eq!(own[0], format!("decoder/layers_0/far/kernel<{first} T"));
    assert_eq!(own[1], format!("decoder/layers_11/far/kernel<{later} T"));
}

#[test]
fn tensors_of_other_models_keep_their_names() {
    let found =
        map(&["classifier.dense.weight", "decoder.block.07.q.weight"], HeadFacts::default());
    assert_eq!(
        found,
        [
            "classifier/dense/weight<classifier.dense.weight",
            "decoder/block/07/q/weight<decoder.block.07.q.weight"
        ]
    );
}

#[test]
fn kernels_of_flax_have_the_axes_of_t5x() {
    let names = ["shared/embedding", "decoder/block/3/q/kernel", "decoder/block/3/q/bias"];
    assert_eq!(
        map_from(WeightsLayout::Flax, &names, HeadFacts::default()),
        [
            "decoder/layers_3/query/bias<decoder/block/3/q/bias",
            "decoder/layers_3/query/kernel<decoder/block/3/q/kernel",
            "token_embedder/embedding<shared/embedding",
        ]
    );
}

#[test]
fn every_name_goes_there_and_back() {
    for rows in TABLES.iter().map(NameTable::rows) {
        for name in ["shared.weight", "decoder.block.7.q.weight", "decoder.block.0.far.weight"] {
            let (t5x, kind) = rows.to_t5x(name).expect("it is in the table");
            assert_eq!(rows.to_torch(&t5x), Some((name.to_string(), kind)), "{t5x}");
        }
        assert_eq!(rows.to_torch("decoder/adapter/kernel"), None);
        assert_eq!(rows.to_torch("decoder/layers_07/query/kernel"), None);
    }
}
