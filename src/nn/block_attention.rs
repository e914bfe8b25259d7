//! Attention to neighbours, and to a few tokens beside the sequence, as LongT5's encoder computes it. Queries attend some
//! blocks at a time, and again in the backward pass, so that memory grows linearly with the length.
//!
//! Source: flaxformer `architectures/longt5/long_attention.py` (Guo et al. 2022, arXiv:2112.07916).

use std::ops::Range;

use tch::{Kind, Tensor};

use super::attention::{AttentionDims, Heads};
use super::autograd::{custom_function, gradients_of};
use super::block_rows::BlockRows;
use super::dropout::Dropout;
use super::masks::forbidden;
use super::profiler::{Activity, part};
use super::spec::SCORES_AT_ONCE;

/// The addends for scores.
#[derive(Debug)]
pub struct BlockBias {
    /// Those of a block's queries and the keys of the blocks around it: `[num_heads, block, 3 * block]`.
    pub local: Tensor,
    /// Those of tokens beside the sequence, by their distance in blocks: `[2 * num_side + 1, num_heads]`, of which the first
    /// is that of a token `num_side` blocks before the query's.
    pub side: Option<Tensor>,
}

/// Computes the attention: `[batch, length, num_heads * head_dim]`, heads joined. Queries, keys and values have the tokens
/// beside the sequence after it.
pub fn block_attention(
    heads: &Heads,
    rows: &BlockRows,
    bias: &BlockBias,
    dims: &AttentionDims,
    dropout: Dropout,
) -> Tensor {
    let _part = part(Activity::Attention);
    let [query, key, value] = joined(heads, dropout);
    let mut inputs = vec![&query, &key, &value, &bias.local];
    inputs.extend(&bias.side);
    let leaves: Vec<Tensor> = inputs.iter().map(|input| input.detach()).collect();
    let chunks = Chunks { rows: rows.shallow_clone(), dims: *dims, at_once: SCORES_AT_ONCE };
    let output = tch::no_grad(|| chunks.attend(&leaves));
    let backward = move |gradients: Vec<Tensor>| chunks.gradients(&leaves, &gradients[0]);
    custom_function(&inputs, vec![output], backward).remove(0)
}

/// Queries, keys and values, `[batch, length, num_heads * head_dim]` each. Values carry the dropout of attention weights: one
/// factor for each key, which all queries share.
fn joined(heads: &Heads, dropout: Dropout) -> [Tensor; 3] {
    let [query, key, value]: [Tensor; 3] =
        heads.joined.parts().try_into().expect("query, key and value");
    let [_, _, split] = heads.detach().split();
    let value = match dropout.mask_of_keys(&split) {
        // [batch, num_heads, length, 1] for [batch, length, num_heads, head_dim]
        Some(factors) => {
            let (batch, length, width) = value.size3().expect("values have three axes");
            let by_head = value.view([batch, length, heads.count, width / heads.count]);
            (by_head * factors.transpose(1, 2)).flatten(2, 3)
        }
        None => value,
    };
    [query, key, value]
}

/// The attention of a batch, some blocks of queries at a time.
struct Chunks {
    rows: BlockRows,
    dims: AttentionDims,
    at_once: i64, // scores
}

impl Chunks {
    /// The blocks of each chunk.
    fn ranges(&self) -> impl Iterator<Item = Range<i64>> {
        let (batch, block) = (self.rows.batch(), self.rows.block());
        let keys = 3 * block + self.rows.num_side();
        let of_block = batch * self.dims.num_heads * block * keys;
        let (count, all) = ((self.at_once / of_block).max(1), self.rows.num_blocks());
        (0..all).step_by(count as usize).map(move |first| first..(first + count).min(all))
    }

    /// Computes all averages from queries, keys, values and biases.
    fn attend(&self, inputs: &[Tensor]) -> Tensor {
        let mut size = inputs[0].size();
        size[1] = self.rows.length();
        let output = Tensor::empty(&size[..], (inputs[0].kind(), inputs[0].device()));
        for blocks in self.ranges() {
            let chunk = Chunk::new(&self.rows, blocks);
            let averages = chunk.attend(&chunk.slices(inputs), &self.dims);
            chunk.queries.narrow(&output).copy_(&averages);
        }
        output
    }

    /// Computes the gradients of the inputs from that of the output, each chunk again.
    fn gradients(&self, inputs: &[Tensor], output: &Tensor) -> Vec<Tensor> {
        // Sums over chunks in float32: each number of a bias is a sum over all queries.
        let sums: Vec<Tensor> =
            inputs.iter().map(|it| Tensor::zeros(it.size(), (Kind::Float, it.device()))).collect();
        for blocks in self.ranges() {
            let chunk = Chunk::new(&self.rows, blocks);
            let leaf = |slice: Tensor| slice.detach().set_requires_grad(true);
            let leaves: Vec<Tensor> = chunk.slices(inputs).into_iter().map(leaf).collect();
            let averages = tch::with_grad(|| chunk.attend(&leaves, &self.dims));
            let leaves: Vec<&Tensor> = leaves.iter().collect();
            let found = gradients_of(&[averages], &[chunk.queries.narrow(output)], &leaves);
            for (mut sum, found) in chunk.slices(&sums).into_iter().zip(found) {
                let _ = sum.g_add_(&found);
            }
        }
        sums.into_iter().zip(inputs).map(|(sum, input)| sum.to_kind(input.kind())).collect()
    }
}

/// Positions along axis 1.
#[derive(Clone, Copy)]
struct Stretch {
    start: i64,
    length: i64,
}

impl Stretch {
    fn narrow(self, tensor: &Tensor) -> Tensor {
        tensor.narrow(1, self.start, self.length)
    }
}

/// Some blocks of queries, with the keys around them.
struct Chunk<'a> {
    rows: &'a BlockRows,
    blocks: i64,
    queries: Stretch,
    /// Keys of these blocks, of the one before and of the one after them, as far as they exist.
    keys: Stretch,
    /// Positions before the first key that do not exist.
    missing: i64,
}

impl<'a> Chunk<'a> {
    fn new(rows: &'a BlockRows, blocks: Range<i64>) -> Self {
        let (block, length) = (rows.block(), rows.length());
        let start = blocks.start * block;
        let queries = Stretch { start, length: (blocks.end * block).min(length) - start };
        let first = (start - block).max(0);
        let keys = Stretch { start: first, length: ((blocks.end + 1) * block).min(length) - first };
        let missing = first - (start - block);
        Self { rows, blocks: blocks.end - blocks.start, queries, keys, missing }
    }

    /// The parts of queries, keys, values and biases that the chunk reads, and tokens beside the sequence: query, key, value,
    /// local bias; key and value beside the sequence, side bias.
    fn slices(&self, inputs: &[Tensor]) -> Vec<Tensor> {
        let [query, key, value, local, side @ ..] = inputs else { panic!("there are four inputs") };
        let mut slices = vec![
            self.queries.narrow(query),
            self.keys.narrow(key),
            self.keys.narrow(value),
            local.shallow_clone(),
        ];
        if let [side] = side {
            let beside = Stretch { start: self.rows.length(), length: self.rows.num_side() };
            slices.extend([beside.narrow(key), beside.narrow(value), side.shallow_clone()]);
        }
        slices
    }

    /// Computes the averages of the chunk's queries, `[batch, queries, num_heads * head_dim]`.
    fn attend(&self, slices: &[Tensor], dims: &AttentionDims) -> Tensor {
        let [query, key, value, local, side @ ..] = slices else { panic!("there are four slices") };
        let (block, kind) = (self.rows.block(), query.kind());
        let score_kind = if dims.float32_logits { Kind::Float } else { kind };
        let length = self.blocks * block;
        let query = by_head(&padded(query, 0, length), dims).to_kind(score_kind);
        // [batch, num_heads, blocks, head_dim, 3 * block]
        let around = |keys: &Tensor| {
            by_head(&padded(keys, self.missing, length + 2 * block), dims).unfold(
                2,
                3 * block,
                block,
            )
        };
        let near =
            query.unflatten(2, [self.blocks, block]).matmul(&around(key).to_kind(score_kind));
        let near = near + local.unsqueeze(1).to_kind(score_kind);
        let near =
            near.masked_fill(&self.local_mask().logical_not(), forbidden(score_kind)).flatten(2, 3);
        let [side_key, side_value, side_bias] = side else {
            let weights = near.softmax(-1, None::<Kind>).to_kind(kind);
            return self.averages(&weights, &around(value), None);
        };
        let far = query.matmul(&by_head(side_key, dims).to_kind(score_kind).transpose(-2, -1));
        let far = far + self.side_bias(side_bias, length).to_kind(score_kind);
        let far = far.masked_fill(&self.side_mask(length).logical_not(), forbidden(score_kind));
        let weights = Tensor::cat(&[near, far], -1).softmax(-1, None::<Kind>).to_kind(kind);
        self.averages(&weights, &around(value), Some(&by_head(side_value, dims)))
    }

    /// Averages by `weights` `[batch, num_heads, queries, keys]`, of which those of neighbours come first.
    fn averages(&self, weights: &Tensor, around: &Tensor, side: Option<&Tensor>) -> Tensor {
        let block = self.rows.block();
        let near = weights.narrow(-1, 0, 3 * block).unflatten(2, [self.blocks, block]);
        let near = near.matmul(&around.transpose(-2, -1)).flatten(2, 3);
        let averages = match side {
            Some(values) => near + weights.narrow(-1, 3 * block, values.size()[2]).matmul(values),
            None => near,
        };
        averages.transpose(1, 2).flatten(2, 3).narrow(1, 0, self.queries.length)
    }

    /// Pairs of neighbours of one example: bool `[batch, 1, blocks, block, 3 * block]`.
    fn local_mask(&self) -> Tensor {
        let (block, segments) = (self.rows.block(), self.rows.segments());
        let length = self.blocks * block;
        let query = padded(&self.queries.narrow(segments), 0, length);
        let query = query.view([-1, 1, self.blocks, block, 1]);
        let key = padded(&self.keys.narrow(segments), self.missing, length + 2 * block);
        let key = key.unfold(1, 3 * block, block).unsqueeze(1).unsqueeze(3);
        let distances = self.rows.distances();
        key.eq_tensor(&query).logical_and(&key.gt(0)).logical_and(&distances.abs().lt(block))
    }

    /// Pairs of a query and a token beside the sequence of one example: bool `[batch, 1, queries, num_side]`.
    fn side_mask(&self, length: i64) -> Tensor {
        let query = padded(&self.queries.narrow(self.rows.segments()), 0, length);
        query.unsqueeze(2).eq_tensor(&self.rows.side_segments().unsqueeze(1)).unsqueeze(1)
    }

    /// `[2 * num_side + 1, num_heads]` to `[batch, num_heads, queries, num_side]`
    fn side_bias(&self, by_distance: &Tensor, length: i64) -> Tensor {
        let ids = padded(&self.queries.narrow(self.rows.block_ids()), 0, length);
        let num_side = self.rows.num_side();
        let places = Tensor::arange(num_side, (Kind::Int64, ids.device())) + num_side;
        let index = places - ids.unsqueeze(-1);
        Tensor::embedding(by_distance, &index, -1, false, false).permute([0, 3, 1, 2])
    }
}

/// Adds zeros along axis 1: so many before, and as many after as the length needs.
fn padded(tensor: &Tensor, before: i64, length: i64) -> Tensor {
    let after = length - before - tensor.size()[1];
    if before == 0 && after == 0 {
        return tensor.shallow_clone();
    }
    let pad = match tensor.dim() {
        2 => vec![before, after],
        _ => vec![0, 0, before, after],
    };
    tensor.constant_pad_nd(pad)
}

/// `[batch, length, num_heads * head_dim]` to `[batch, num_heads, length, head_dim]`
fn by_head(joined: &Tensor, dims: &AttentionDims) -> Tensor {
    joined.unflatten(2, [dims.num_heads, dims.head_dim]).transpose(1, 2)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tch::Device;

    /// Averages and the gradients of all inputs, of rows whose last block is short.
    fn results(at_once: i64, num_side: i64, tokens_per_block: Option<usize>) -> Vec<Tensor> {
        tch::manual_seed(4);
        let random = |size: &[i64]| Tensor::randn(size, (Kind::Float, Device::Cpu));
        let dims = AttentionDims { num_heads: 2, head_dim: 3, float32_logits: false };
        let segments = [[1i64, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2], [1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0]];
        let rows = BlockRows::new(&Tensor::from_slice2(&segments), 2, tokens_per_block);
        let mut inputs: Vec<Tensor> = (0..3).map(|_| random(&[2, 11 + num_side, 6])).collect();
        inputs.push(random(&[2, 3, 9]));
        inputs.extend(tokens_per_block.map(|_| random(&[2 * num_side + 1, 2])));
        let chunks = Chunks { rows, dims, at_once };
        let output = tch::no_grad(|| chunks.attend(&inputs));
        let mut all = chunks.gradients(&inputs, &random(&[2, 11, 6]));
        all.push(output);
        all
    }

    #[test]
    fn blocks_one_by_one_give_what_all_give_at_once() {
        let _held = crate::nn::GENERATOR.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        for (num_side, tokens) in [(0, None), (5, Some(2))] {
            let (apart, together) =
                (results(1, num_side, tokens), results(1 << 20, num_side, tokens));
            for (apart, together) in apart.iter().zip(&together) {
                let error = (apart - together).abs().max().double_value(&[]);
                assert!(error < 1e-5, "{error}");
            }
        }
    }
}
