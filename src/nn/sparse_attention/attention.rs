//! Attention by a layout of blocks. Queries attend some tiles of blocks at a time, and again in the backward pass, so that
//! time and memory follow the number of blocks that are read.

use std::sync::{Mutex, PoisonError};

use tch::{Device, Kind, Tensor};

use super::block_layout::BlockLayout;
use super::tiles::TileGroup;
use crate::nn::attention::{AttentionDims, Heads};
use crate::nn::autograd::{custom_function, gradients_of};
use crate::nn::dropout::Dropout;
use crate::nn::masks::{bias_from_mask, forbidden};
use crate::nn::profiler::{Activity, part};
use crate::nn::spec::SCORES_AT_ONCE;

/// A layout of blocks with its places in tensors, which are made once for each number of blocks and device.
#[derive(Debug)]
pub struct LayoutTiles {
    layout: BlockLayout,
    made: Mutex<Vec<(i64, Vec<TileGroup>)>>, // by the number of blocks of a row
}

impl LayoutTiles {
    /// Creates them for a layout, which rows of any smaller length crop.
    pub fn new(layout: BlockLayout) -> Self {
        Self { layout, made: Mutex::default() }
    }

    /// The layout of the greatest length.
    pub fn layout(&self) -> &BlockLayout {
        &self.layout
    }

    /// Returns the groups for rows of so many blocks.
    fn groups(&self, num_blocks: i64, device: Device) -> Vec<TileGroup> {
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        let is_it = |(number, groups): &&(i64, Vec<TileGroup>)| {
            *number == num_blocks && groups.iter().all(|group| group.device() == device)
        };
        let handles = |groups: &[TileGroup]| groups.iter().map(TileGroup::shallow_clone).collect();
        if let Some((_, groups)) = made.iter().find(is_it) {
            return handles(groups);
        }
        let layout = self.layout.cropped(num_blocks as usize * self.layout.block());
        let groups = TileGroup::of_layout(&layout, device);
        let result = handles(&groups);
        made.push((num_blocks, groups));
        result
    }
}

/// The addends for scores.
#[derive(Debug)]
pub struct LayoutBias {
    /// Keys that are no padding: bool `[batch, length]`. Of a query without any such key the result has no meaning.
    pub keys: Tensor,
    /// The number of the example of each position of packed rows, from 1: int64 `[batch, length]`. A query attends to the keys
    /// of its own example among those of the blocks that it reads; without any of them its result is 0.
    pub segments: Option<Tensor>,
    /// A learned addend for each distance of a key from its query, `[num_heads, 2 * length - 1]`, of which the first is that
    /// of a key `length - 1` positions before the query.
    pub by_distance: Option<Tensor>,
}

impl LayoutBias {
    /// The same with another handle of the table by distance, or a leaf with its values.
    pub fn with_distances(&self, by_distance: Option<&Tensor>) -> Self {
        Self {
            keys: self.keys.shallow_clone(),
            segments: self.segments.as_ref().map(Tensor::shallow_clone),
            by_distance: by_distance.map(Tensor::shallow_clone),
        }
    }
}

/// Computes the attention: `[batch, length, num_heads * head_dim]`, heads joined; 0 for queries whose block reads no block.
/// As in [`attention`](crate::nn::attention()), queries come divided by `sqrt(head_dim)` if scores are.
///
/// # Panics
/// The layout has another number of heads, or is shorter than the rows.
pub fn layout_attention(
    heads: &Heads,
    tiles: &LayoutTiles,
    bias: &LayoutBias,
    dims: &AttentionDims,
    dropout: Dropout,
) -> Tensor {
    let _part = part(Activity::Attention);
    let layout = tiles.layout();
    assert_eq!(layout.heads().len() as i64, heads.count, "each head has a layout");
    let [query, key, value] = heads.split();
    // As in every attention, the dropout of weights is one factor for each key, which all queries share.
    let value = match dropout.mask_of_keys(&value.detach()) {
        Some(factors) => value * factors,
        None => value,
    };
    let rows = BlockedRows::new(&query, layout.block() as i64);
    let mut inputs: Vec<Tensor> = [query, key, value].iter().map(|it| rows.by_block(it)).collect();
    inputs.extend(bias.by_distance.as_ref().map(|table| rows.windows(table)));
    let tiled = Tiled {
        num_blocks: rows.num_blocks,
        groups: tiles.groups(rows.num_blocks, inputs[0].device()),
        of_keys: rows.addends(&bias.keys),
        segments: bias.segments.as_ref().map(|ids| rows.numbers(&(ids * &bias.keys))),
        score_kind: if dims.float32_logits { Kind::Float } else { inputs[0].kind() },
        at_once: SCORES_AT_ONCE,
    };
    rows.joined(&tiled.apply(&inputs))
}

/// The extents of rows that are divided into blocks.
struct BlockedRows {
    batch: i64,
    num_heads: i64,
    length: i64,
    head_dim: i64,
    block: i64,
    num_blocks: i64,
    /// Positions of the last block after the row.
    beyond: i64,
}

impl BlockedRows {
    /// Those of one of the heads' tensors, `[batch, num_heads, length, head_dim]`.
    fn new(heads: &Tensor, block: i64) -> Self {
        let (batch, num_heads, length, head_dim) = heads.size4().expect("heads have four axes");
        let num_blocks = (length + block - 1) / block;
        let beyond = num_blocks * block - length;
        Self { batch, num_heads, length, head_dim, block, num_blocks, beyond }
    }

    /// `[batch, num_heads, length, head_dim]` to `[batch, num_heads * num_blocks, block, head_dim]`
    fn by_block(&self, heads: &Tensor) -> Tensor {
        let whole = self.extended(heads, vec![0, 0, 0, self.beyond]);
        whole.reshape([self.batch, self.num_heads * self.num_blocks, self.block, self.head_dim])
    }

    /// `[batch, num_heads * num_blocks, block, head_dim]` to `[batch, length, num_heads * head_dim]`
    fn joined(&self, blocks: &Tensor) -> Tensor {
        let heads = blocks.view([self.batch, self.num_heads, -1, self.head_dim]);
        heads.narrow(2, 0, self.length).transpose(1, 2).flatten(2, 3)
    }

    /// The part of a table by distance, `[num_heads, 2 * length - 1]`, that each pair of a block of queries and a block of
    /// keys reads, by the distance of the blocks: `[1, num_heads * (2 * num_blocks - 1), 2 * block - 1]`.
    fn windows(&self, table: &Tensor) -> Tensor {
        let width = 2 * self.block - 1;
        let whole = self.extended(table, vec![self.beyond, self.beyond]);
        whole.unfold(1, width, self.block).reshape([1, -1, width])
    }

    /// The addends for scores of keys, float32 `[batch, num_blocks, block]`, from those that are no padding.
    fn addends(&self, keys: &Tensor) -> Tensor {
        bias_from_mask(&self.numbers(keys), Kind::Float)
    }

    /// Numbers or truths of positions, `[batch, length]`, by blocks: `[batch, num_blocks, block]`, 0 after the row.
    fn numbers(&self, of_positions: &Tensor) -> Tensor {
        let whole = self.extended(of_positions, vec![0, self.beyond]);
        whole.view([-1, self.num_blocks, self.block])
    }

    fn extended(&self, tensor: &Tensor, zeros: Vec<i64>) -> Tensor {
        match self.beyond {
            0 => tensor.shallow_clone(),
            _ => tensor.constant_pad_nd(zeros),
        }
    }
}

/// The attention of a batch, some tiles at a time. Its inputs are queries, keys and values by blocks, and windows of a table by
/// distance if there is one, as [`BlockedRows`] makes them.
struct Tiled {
    num_blocks: i64,
    groups: Vec<TileGroup>,
    of_keys: Tensor,          // addends, float32 [batch, num_blocks, block]
    segments: Option<Tensor>, // of packed rows, int64 [batch, num_blocks, block], 0 for padding
    score_kind: Kind,
    at_once: i64, // scores
}

impl Tiled {
    /// Computes the averages by blocks, with a gradient.
    fn apply(self, inputs: &[Tensor]) -> Tensor {
        let leaves: Vec<Tensor> = inputs.iter().map(Tensor::detach).collect();
        let output = tch::no_grad(|| self.attend(&leaves));
        let inputs: Vec<&Tensor> = inputs.iter().collect();
        let backward = move |gradients: Vec<Tensor>| self.gradients(&leaves, &gradients[0]);
        custom_function(&inputs, vec![output], backward).remove(0)
    }

    /// The tiles of all groups, as many at a time as have few enough scores.
    fn chunks(&self) -> impl Iterator<Item = TileGroup> {
        let (batch, _, block) = self.of_keys.size3().expect("addends have three axes");
        self.groups.iter().flat_map(move |group| {
            let of_tile = batch * group.pairs_of_tile() * block * block;
            let (count, all) = ((self.at_once / of_tile).max(1), group.num_tiles());
            let chunk = move |first| group.narrow(first, count.min(all - first));
            (0..all).step_by(count as usize).map(chunk)
        })
    }

    fn attend(&self, inputs: &[Tensor]) -> Tensor {
        let mut output = inputs[0].zeros_like();
        for chunk in self.chunks() {
            let places = self.places(&chunk, inputs.len());
            let averages = self.averages(&chunk, &gathered(inputs, &places));
            let _ = output.index_copy_(1, &places[0], &averages);
        }
        output
    }

    /// Computes the gradients of the inputs from that of the output, each chunk again.
    fn gradients(&self, inputs: &[Tensor], output: &Tensor) -> Vec<Tensor> {
        // Sums over chunks in float32: several tiles read a block of keys.
        let zeros = |input: &Tensor| Tensor::zeros(input.size(), (Kind::Float, input.device()));
        let mut sums: Vec<Tensor> = inputs.iter().map(zeros).collect();
        for chunk in self.chunks() {
            let places = self.places(&chunk, inputs.len());
            let slices = gathered(inputs, &places).into_iter();
            let leaves: Vec<Tensor> = slices.map(|it| it.set_requires_grad(true)).collect();
            let averages = tch::with_grad(|| self.averages(&chunk, &leaves));
            let leaves: Vec<&Tensor> = leaves.iter().collect();
            let found = gradients_of(&[averages], &[output.index_select(1, &places[0])], &leaves);
            for ((sum, place), found) in sums.iter_mut().zip(&places).zip(found) {
                let _ = sum.index_add_(1, place, &found.to_kind(Kind::Float));
            }
        }
        sums.into_iter().zip(inputs).map(|(sum, input)| sum.to_kind(input.kind())).collect()
    }

    /// The places along axis 1 that a chunk reads of each of the inputs.
    fn places(&self, chunk: &TileGroup, num_inputs: usize) -> Vec<Tensor> {
        let keys = chunk.keys();
        let mut places = vec![chunk.queries(), keys.shallow_clone(), keys];
        if num_inputs > places.len() {
            places.push(chunk.distances(self.num_blocks));
        }
        places
    }

    /// Computes the averages of a chunk's queries, `[batch, tiles * rows, block, head_dim]`.
    fn averages(&self, chunk: &TileGroup, slices: &[Tensor]) -> Tensor {
        let [query, key, value, windows @ ..] = slices else { panic!("there are three slices") };
        let (batch, _, _, head_dim) = query.size4().expect("queries have four axes");
        let by_tile = |blocks: &Tensor| blocks.view([batch, chunk.num_tiles(), -1, head_dim]);
        let mut scores = self.scores(chunk, [by_tile(query), by_tile(key)], windows.first());
        let averages = |scores: &Tensor| {
            scores.softmax(-1, Kind::Float).to_kind(query.kind()).matmul(&by_tile(value))
        };
        let Some(segments) = &self.segments else { return averages(&scores).view_as(query) };
        let others = chunk.of_other_examples(segments);
        let lowest = forbidden(scores.kind());
        let averages = averages(&scores.masked_fill_(&others, lowest));
        averages.masked_fill(&others.all_dim(-1, true), 0.0).view_as(query)
    }

    /// Computes the scores of a chunk, float32 `[batch, tiles, rows * block, columns * block]`.
    fn scores(
        &self,
        chunk: &TileGroup,
        query_and_key: [Tensor; 2],
        windows: Option<&Tensor>,
    ) -> Tensor {
        let [query, key] = query_and_key.map(|it| it.to_kind(self.score_kind));
        let mut scores = query.matmul(&key.transpose(-2, -1)).to_kind(Kind::Float);
        let _ = scores.g_add_(&chunk.addends(&self.of_keys));
        if let Some(windows) = windows {
            let _ = scores.g_add_(&chunk.of_pairs(windows));
        }
        scores
    }
}

/// Returns the parts of each input at its places along axis 1.
fn gathered(inputs: &[Tensor], places: &[Tensor]) -> Vec<Tensor> {
    inputs.iter().zip(places).map(|(input, places)| input.index_select(1, places)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nn::BlockGrid;

    /// Averages and the gradients of all inputs, of two heads whose rows have six blocks of two.
    fn results(at_once: i64) -> Vec<Tensor> {
        tch::manual_seed(4);
        let random = |size: &[i64]| Tensor::randn(size, (Kind::Float, Device::Cpu));
        let head = BlockGrid::from_fn(6, |row, column| row == 0 || column == 1 || row == column);
        let layout = BlockLayout::new(2, vec![head.clone(), head]);
        let by_block = || random(&[3, 2 * 6, 2, 5]);
        let mut inputs: Vec<Tensor> = (0..3).map(|_| by_block()).collect();
        inputs.push(random(&[1, 2 * 11, 3]));
        let places = Tensor::arange(3 * 6 * 2, (Kind::Int64, Device::Cpu));
        let tiled = Tiled {
            num_blocks: 6,
            groups: TileGroup::of_layout(&layout, Device::Cpu),
            of_keys: Tensor::zeros([3, 6, 2], (Kind::Float, Device::Cpu)),
            segments: Some(places.floor_divide_scalar(5).view([3, 6, 2])),
            score_kind: Kind::Float,
            at_once,
        };
        let mut all = vec![tch::no_grad(|| tiled.attend(&inputs))];
        all.extend(tiled.gradients(&inputs, &by_block()));
        all
    }

    #[test]
    fn tiles_one_by_one_give_what_all_give_at_once() {
        let _held = crate::nn::GENERATOR.lock().unwrap_or_else(PoisonError::into_inner);
        for (apart, together) in results(1).iter().zip(results(1 << 20)) {
            let error = (apart - together).abs().max().double_value(&[]);
            assert!(error < 1e-5, "{error}");
        }
    }

    #[test]
    fn the_places_of_a_layout_are_made_once_for_each_length() {
        let grid = BlockGrid::from_fn(4, |row, column| row == column);
        let tiles = LayoutTiles::new(BlockLayout::new(2, vec![grid]));
        for num_blocks in [4, 3, 4, 3] {
            let queries = |group: &TileGroup| group.queries().numel() as i64;
            let groups = tiles.groups(num_blocks, Device::Cpu);
            assert_eq!(groups.iter().map(queries).sum::<i64>(), num_blocks);
        }
        assert_eq!(tiles.made.lock().map_or(0, |made| made.len()), 2);
    }
}
