//! Compares attention by layouts of blocks with attention to all positions whose mask is the layout, values and gradients.

use gimlet::nn::{
    AttentionBias, AttentionDims, BigBirdSparsityConfig, BlockGrid, BlockLayout, Dropout,
    FixedSparsityConfig, Heads, Joined, LayoutBias, LayoutDirection, LayoutHeads, LayoutTiles,
    PythonRandom, SparsityConfig, attention, bias_from_mask, layout_attention, same_segment,
};
use tch::{Device, Kind, Tensor};

use crate::fixture;

const BATCH: i64 = 2;
const NUM_HEADS: i64 = 3;
const HEAD_DIM: i64 = 5;

struct Case {
    layout: BlockLayout,
    length: i64,
    kind: Kind,
    dropout: Dropout,
    has_table: bool,
    segments: Option<Tensor>, // of packed rows, int64 [batch, length]
}

/// Random inputs: queries, keys and values `[batch, length, num_heads * head_dim]`, and a table by distance.
fn leaves(case: &Case) -> Vec<Tensor> {
    tch::manual_seed(1);
    let leaf = |size: &[i64]| {
        let values = Tensor::randn(size, (Kind::Float, Device::Cpu)).to_kind(case.kind);
        values.set_requires_grad(true)
    };
    let joined = [BATCH, case.length, NUM_HEADS * HEAD_DIM];
    let mut leaves: Vec<Tensor> = (0..3).map(|_| leaf(&joined)).collect();
    leaves.extend(case.has_table.then(|| leaf(&[NUM_HEADS, 2 * case.length - 1])));
    leaves
}

/// Keys that are no padding: all of the first row, and all but a few of the second: bool `[batch, length]`.
fn keys(length: i64) -> Tensor {
    let places = Tensor::arange(length, (Kind::Int64, Device::Cpu));
    Tensor::stack(&[places.lt(length), places.lt(length - 3)], 0)
}

/// The layout as a mask of pairs of positions: bool `[1, num_heads, length, length]`.
fn mask(layout: &BlockLayout, length: i64) -> Tensor {
    let block = layout.block();
    let of_head = |head: &BlockGrid| {
        let pairs = (0..length * length).map(|pair| {
            let [query, key] = [pair / length, pair % length].map(|place| place as usize / block);
            head.reads(query, key)
        });
        Tensor::from_slice(&pairs.collect::<Vec<bool>>()).view([length, length])
    };
    Tensor::stack(&layout.heads().iter().map(of_head).collect::<Vec<_>>(), 0).unsqueeze(0)
}

/// The addend of each pair of positions: `[1, num_heads, length, length]`.
fn of_pairs(table: &Tensor, length: i64) -> Tensor {
    let places = Tensor::arange(length, (Kind::Int64, Device::Cpu));
    let index = places.unsqueeze(0) - places.unsqueeze(1) + (length - 1);
    table.index_select(1, &index.flatten(0, 1)).view([1, NUM_HEADS, length, length])
}

/// The output, and the gradients of all inputs, of what `attend` computes.
fn results(case: &Case, attend: impl Fn(&Heads, Option<&Tensor>) -> Tensor) -> Vec<Tensor> {
    let leaves = leaves(case);
    let parts = leaves[..3].iter().map(Tensor::shallow_clone).collect();
    let heads = Heads { joined: Joined::new(parts, 3), count: NUM_HEADS };
    tch::manual_seed(2);
    let output = attend(&heads, leaves.get(3));
    tch::manual_seed(3);
    // The results of queries that are padding are not read.
    let weights = Tensor::randn(output.size(), (Kind::Float, Device::Cpu));
    let weights = weights * keys(case.length).unsqueeze(-1);
    let read = output.to_kind(Kind::Float) * &weights;
    read.sum(Kind::Float).backward();
    let mut all = vec![(output * weights.ne(0)).detach()];
    all.extend(leaves.iter().map(Tensor::grad));
    all
}

/// The attention of a case by blocks.
fn by_blocks(case: &Case, heads: &Heads, table: Option<&Tensor>) -> Tensor {
    let dims = AttentionDims { num_heads: NUM_HEADS, head_dim: HEAD_DIM, float32_logits: true };
    let bias = LayoutBias {
        keys: keys(case.length),
        segments: case.segments.as_ref().map(Tensor::shallow_clone),
        by_distance: table.map(Tensor::shallow_clone),
    };
    layout_attention(heads, &LayoutTiles::new(case.layout.clone()), &bias, &dims, case.dropout)
}

/// Compares both ways; the greatest error relative to the greatest number of each result.
fn check(case: &Case, tolerance: f64) {
    let dims = AttentionDims { num_heads: NUM_HEADS, head_dim: HEAD_DIM, float32_logits: true };
    let dense = |heads: &Heads, table: Option<&Tensor>| {
        let real = keys(case.length).unsqueeze(1).unsqueeze(1); // [batch, 1, 1, length]
        let visible = match &case.segments {
            Some(ids) => real.logical_and(&same_segment(ids, ids)),
            None => real.expand([-1, 1, case.length, -1], false),
        };
        let layout = bias_from_mask(&mask(&case.layout, case.length), case.kind);
        let position = match table {
            Some(table) => of_pairs(table, case.length) + layout,
            None => layout,
        };
        attention(heads, &AttentionBias::new(Some(position), &visible), &dims, case.dropout)
    };
    let found = results(case, |heads, table| by_blocks(case, heads, table));
    let expected = results(case, dense);
    let names = ["output", "query", "key", "value", "table"];
    for ((found, expected), name) in found.iter().zip(&expected).zip(names) {
        assert_eq!((found.size(), found.kind()), (expected.size(), expected.kind()));
        let [found, expected] = [found, expected].map(|it| it.to_kind(Kind::Float));
        let largest = expected.abs().max().double_value(&[]);
        let error = (found - expected).abs().max().double_value(&[]) / largest;
        assert!(error < tolerance, "{name}: {error}");
    }
}

fn heads(block: usize) -> LayoutHeads {
    LayoutHeads { num_heads: NUM_HEADS as usize, block, different_layout_per_head: true }
}

/// The layout of BigBird for 12 blocks of 4.
fn big_bird() -> BlockLayout {
    let config = BigBirdSparsityConfig {
        heads: heads(4),
        num_random_blocks: 2,
        num_sliding_window_blocks: 3,
        num_global_blocks: 1,
        attention: LayoutDirection::Bidirectional,
    };
    SparsityConfig::BigBird(config).layout(48, &mut PythonRandom::new(3)).expect("it is correct")
}

/// A layout of windows for 12 blocks of 4, in which many blocks of queries read the same keys.
fn fixed(attention: LayoutDirection) -> BlockLayout {
    let config = FixedSparsityConfig {
        heads: heads(4),
        num_local_blocks: 4,
        num_global_blocks: 1,
        attention,
        horizontal_global_attention: false,
        num_different_global_patterns: 3,
    };
    SparsityConfig::Fixed(config).layout(48, &mut PythonRandom::new(0)).expect("it is correct")
}

fn case(layout: BlockLayout, length: i64) -> Case {
    let (kind, dropout) = (Kind::Float, Dropout::off());
    Case { layout, length, kind, dropout, has_table: true, segments: None }
}

/// The same of packed rows, whose examples end within blocks: three in the first row, and two in the second one.
fn packed(case: Case) -> Case {
    let places = Tensor::arange(case.length, (Kind::Int64, Device::Cpu));
    let of_row = |length: i64| places.floor_divide_scalar(length) + 1;
    let rows = [of_row(case.length / 3 + 1), of_row(case.length / 2 + 3)];
    Case { segments: Some(Tensor::stack(&rows, 0)), ..case }
}

#[test]
fn values_and_gradients_are_those_of_attention_to_all_with_the_layout_as_a_mask() {
    let _held = fixture::generator();
    check(&case(big_bird(), 48), 1e-5);
    check(&case(fixed(LayoutDirection::Bidirectional), 48), 1e-5);
    check(&case(fixed(LayoutDirection::Unidirectional), 48), 1e-5);
    check(&Case { has_table: false, ..case(big_bird(), 48) }, 1e-5);
}

#[test]
fn shorter_rows_crop_the_layout_also_inside_of_a_block() {
    let _held = fixture::generator();
    for length in [47, 28, 21, 4] {
        check(&case(big_bird(), length), 1e-5);
    }
}

#[test]
fn positions_of_packed_rows_see_those_of_their_own_example_in_the_layout() {
    let _held = fixture::generator();
    for length in [48, 45, 28] {
        check(&packed(case(big_bird(), length)), 1e-5);
    }
    check(&packed(case(fixed(LayoutDirection::Bidirectional), 48)), 1e-5);
    check(&packed(Case { has_table: false, ..case(big_bird(), 48) }), 1e-5);
    check(&packed(Case { dropout: Dropout::train(0.3), ..case(big_bird(), 48) }), 1e-5);
    check(&packed(Case { kind: Kind::BFloat16, ..case(big_bird(), 44) }), 0.03);
}

#[test]
fn a_packed_row_of_one_example_is_the_row_that_is_not_packed() {
    let _held = fixture::generator();
    let plain = case(big_bird(), 45);
    let segments = Some(keys(45).to_kind(Kind::Int64));
    let packed = Case { segments, ..case(big_bird(), 45) };
    let [plain, packed] =
        [plain, packed].map(|case| results(&case, |heads, table| by_blocks(&case, heads, table)));
    assert_eq!(plain, packed);
}

#[test]
fn queries_of_packed_rows_whose_blocks_hold_no_key_of_their_example_get_zeros() {
    let _held = fixture::generator();
    let first = BlockGrid::from_fn(2, |_, column| column == 0);
    let layout = BlockLayout::new(4, vec![first; NUM_HEADS as usize]);
    // The first block holds positions of the second example, and none of the third one.
    let ids = Tensor::from_slice(&[1i64, 2, 2, 2, 2, 3, 3, 3]);
    let segments = Some(Tensor::stack(&[&ids, &ids], 0));
    let case = Case { segments, ..case(layout, 8) };
    let found = results(&case, |heads, table| by_blocks(&case, heads, table));
    for of_queries in &found[..2] {
        let are_zeros =
            |first, count| of_queries.narrow(1, first, count).abs().max().double_value(&[]) == 0.0;
        assert!(are_zeros(5, 3) && !are_zeros(4, 1));
    }
    for result in &found {
        assert_eq!(result.isfinite().all().int64_value(&[]), 1);
    }
}

#[test]
fn all_blocks_are_attention_to_all() {
    let _held = fixture::generator();
    let all = BlockGrid::from_fn(10, |_, _| true);
    check(&case(BlockLayout::new(2, vec![all; NUM_HEADS as usize]), 20), 1e-5);
}

#[test]
fn dropout_is_that_of_attention_to_all() {
    let _held = fixture::generator();
    check(&Case { dropout: Dropout::train(0.3), ..case(big_bird(), 48) }, 1e-5);
}

#[test]
fn bfloat16_agrees_up_to_its_rounding() {
    let _held = fixture::generator();
    check(&Case { kind: Kind::BFloat16, ..case(big_bird(), 44) }, 0.03);
}

#[test]
fn float16_agrees_up_to_its_rounding() {
    let _held = fixture::generator();
    check(&Case { kind: Kind::Half, ..case(big_bird(), 44) }, 0.004);
}

#[test]
fn queries_of_a_block_that_reads_nothing_get_zeros() {
    let _held = fixture::generator();
    let grid = BlockGrid::from_fn(4, |row, column| row != 2 && column <= row);
    let case = case(BlockLayout::new(2, vec![grid; NUM_HEADS as usize]), 8);
    let found = results(&case, |heads, table| by_blocks(&case, heads, table));
    for of_queries in &found[..2] {
        let are_zeros =
            |first, count| of_queries.narrow(1, first, count).abs().max().double_value(&[]) == 0.0;
        assert!(are_zeros(4, 2) && !are_zeros(0, 4));
    }
}
