//! The rows of a batch for attention by blocks: which positions are of one example, and to which token beside the sequence
//! each belongs.
//!
//! Source: flaxformer `architectures/longt5/long_attention.py`, `make_etc_fixed_block_ids`.

use tch::{Kind, Tensor};

/// The rows of a batch.
#[derive(Debug)]
pub struct BlockRows {
    segments: Tensor, // int64 [batch, length]: the number of the example, 0 for padding
    block: i64,
    distances: Tensor, // int64 [block, 3 * block]: of keys around a block from its queries
    side: Option<SideRows>,
}

/// The tokens beside each row, one for so many tokens of an example; the last one of an example also stands for the
/// tokens after it, which are too few for one of their own.
#[derive(Debug)]
struct SideRows {
    block_ids: Tensor, // int64 [batch, length]: the token of each position, -1 if it has none
    segments: Tensor, // int64 [batch, num_side]: the example of each, 0 for those that stand for nothing
}

impl BlockRows {
    /// Creates the rows of `segments`, int64 `[batch, length]`, in which each example is one run of its number and 0 is
    /// padding, for queries that see `radius` positions before and after them, and tokens that stand for
    /// `tokens_per_block` positions each.
    pub fn new(segments: &Tensor, radius: usize, tokens_per_block: Option<usize>) -> Self {
        let block = radius as i64 + 1;
        let places = |count| Tensor::arange(count, (Kind::Int64, segments.device()));
        let distances = places(3 * block).unsqueeze(0) - block - places(block).unsqueeze(1);
        let side = tokens_per_block.map(|tokens| SideRows::new(segments, tokens as i64));
        Self { segments: segments.shallow_clone(), block, distances, side }
    }

    /// Returns second handles of the same tensors.
    pub fn shallow_clone(&self) -> Self {
        let side = self.side.as_ref().map(|side| SideRows {
            block_ids: side.block_ids.shallow_clone(),
            segments: side.segments.shallow_clone(),
        });
        Self {
            segments: self.segments.shallow_clone(),
            block: self.block,
            distances: self.distances.shallow_clone(),
            side,
        }
    }

    /// Number of rows.
    pub fn batch(&self) -> i64 {
        self.segments.size()[0]
    }

    /// Number of positions, without those beside them.
    pub fn length(&self) -> i64 {
        self.segments.size()[1]
    }

    /// Queries of a block.
    pub fn block(&self) -> i64 {
        self.block
    }

    /// Number of blocks; the last one may be shorter.
    pub fn num_blocks(&self) -> i64 {
        (self.length() + self.block - 1) / self.block
    }

    /// Number of tokens beside each row.
    pub fn num_side(&self) -> i64 {
        self.side.as_ref().map_or(0, |side| side.segments.size()[1])
    }

    /// The example of each position, int64 `[batch, length]`, 0 for padding.
    pub fn segments(&self) -> &Tensor {
        &self.segments
    }

    /// Distances of the keys around a block from its queries, int64 `[block, 3 * block]`.
    pub fn distances(&self) -> &Tensor {
        &self.distances
    }

    /// The example of each token beside the rows, int64 `[batch, num_side]`.
    pub fn side_segments(&self) -> &Tensor {
        &self.beside().segments
    }

    /// The token beside the row to which each position belongs, int64 `[batch, length]`, -1 if there is none.
    pub fn block_ids(&self) -> &Tensor {
        &self.beside().block_ids
    }

    fn beside(&self) -> &SideRows {
        self.side.as_ref().expect("the rows have tokens beside them")
    }

    /// Sums `hidden` `[batch, length, embed]` over the positions of each token beside the rows: `[batch, num_side, embed]`.
    pub fn side_sums(&self, hidden: &Tensor) -> Tensor {
        let (batch, _, embed) = hidden.size3().expect("hidden states have three axes");
        let num_side = self.num_side();
        // The first of each row's sums is that of positions without a token.
        let rows = Tensor::arange(batch, (Kind::Int64, hidden.device())) * (num_side + 1);
        let index = (self.block_ids() + 1 + rows.unsqueeze(1)).flatten(0, 1);
        let sums = Tensor::zeros([batch * (num_side + 1), embed], (Kind::Float, hidden.device()));
        let sums = sums.index_add(0, &index, &hidden.to_kind(Kind::Float).flatten(0, 1));
        sums.view([batch, num_side + 1, embed]).narrow(1, 1, num_side).to_kind(hidden.kind())
    }
}

impl SideRows {
    fn new(segments: &Tensor, tokens_per_block: i64) -> Self {
        let (batch, length) = segments.size2().expect("segments are [batch, length]");
        let options = (Kind::Int64, segments.device());
        let places = Tensor::arange(length, options).expand([batch, length], true);
        let before = segments.slice(1, 0, length - 1, 1);
        let changes = segments.slice(1, 1, length, 1).ne_tensor(&before);
        let first = Tensor::ones([batch, 1], (Kind::Bool, segments.device()));
        let starts = Tensor::cat(&[first, changes], 1); // where an example begins
        let run = starts.cumsum(1, Kind::Int64) - 1; // the number of each position's example in its row
        let (start, _) = (&places * starts.to_kind(Kind::Int64)).cummax(1);
        let zeros = || Tensor::zeros([batch, length], options);
        let real = segments.gt(0).to_kind(Kind::Int64);
        let lengths = zeros().scatter_add(1, &run, &real);
        let blocks = lengths.floor_divide_scalar(tokens_per_block); // of each example
        let before = blocks.cumsum(1, Kind::Int64) - &blocks;
        let (own, before) = (blocks.gather(1, &run, false), before.gather(1, &run, false));
        let place = (places - start).floor_divide_scalar(tokens_per_block);
        let ids = before + place.minimum(&(&own - 1));
        let has_token = own.gt(0).logical_and(&segments.gt(0));
        let block_ids = ids.where_self(&has_token, &ids.full_like(-1));
        let num_side = length / tokens_per_block;
        // Positions without a token write to one more, which is dropped.
        let index = block_ids.where_self(&has_token, &block_ids.full_like(num_side));
        let side = Tensor::zeros([batch, num_side + 1], options).scatter(1, &index, segments);
        Self { block_ids, segments: side.narrow(1, 0, num_side) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(segments: &[i64], ids: &[i64], side: &[i64]) {
        let rows = BlockRows::new(&Tensor::from_slice(segments).unsqueeze(0), 3, Some(2));
        let values = |tensor: &Tensor| Vec::<i64>::try_from(tensor.get(0)).expect("one axis");
        assert_eq!(values(rows.block_ids()), ids);
        assert_eq!(values(rows.side_segments()), side);
    }

    /// Values as flaxformer's `make_etc_fixed_block_ids` gives them.
    #[test]
    fn the_last_token_of_an_example_stands_for_those_after_it() {
        check(&[1, 1, 1, 1, 1, 0, 0], &[0, 0, 1, 1, 1, -1, -1], &[1, 1, 0]);
        check(&[1, 1, 1, 2, 2, 2, 2, 0], &[0, 0, 0, 1, 1, 2, 2, -1], &[1, 2, 2, 0]);
        check(&[1, 2, 2, 3, 3, 3], &[-1, 0, 0, 1, 1, 1], &[2, 3, 0]);
        check(&[0, 0, 0], &[-1, -1, -1], &[0]);
    }

    #[test]
    fn sums_are_those_of_a_tokens_positions() {
        let segments = Tensor::from_slice2(&[[1i64, 1, 1, 0], [1, 1, 2, 2]]);
        let rows = BlockRows::new(&segments, 3, Some(2));
        let hidden = Tensor::from_slice2(&[[1f32, 2.0, 4.0, 8.0], [1.0, 2.0, 4.0, 8.0]]);
        let sums = rows.side_sums(&hidden.unsqueeze(2)).squeeze_dim(2);
        assert_eq!(sums, Tensor::from_slice2(&[[7f32, 0.0], [3.0, 12.0]]));
    }
}
