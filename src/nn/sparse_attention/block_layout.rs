//! The blocks of keys that blocks of queries read.

use std::ops::Range;

/// The blocks of keys that each block of queries of one head reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockGrid {
    num_blocks: usize,
    reads: Vec<bool>, // [num_blocks, num_blocks]: rows are queries, columns are keys
}

impl BlockGrid {
    /// Creates a grid of so many rows and columns; `reads` tells of a row and a column whether the queries read the keys.
    pub fn from_fn(num_blocks: usize, reads: impl Fn(usize, usize) -> bool) -> Self {
        let places = (0..num_blocks * num_blocks).map(|at| (at / num_blocks, at % num_blocks));
        let reads = places.map(|(row, column)| reads(row, column)).collect();
        Self { num_blocks, reads }
    }

    /// Number of rows, and of columns.
    pub fn num_blocks(&self) -> usize {
        self.num_blocks
    }

    /// Whether the queries of a row read the keys of a column.
    pub fn reads(&self, row: usize, column: usize) -> bool {
        self.reads[row * self.num_blocks + column]
    }

    /// Returns the columns that a row reads, in order.
    pub fn columns(&self, row: usize) -> Vec<usize> {
        (0..self.num_blocks).filter(|&column| self.reads(row, column)).collect()
    }

    /// Number of pairs of a row and a column that it reads.
    fn num_pairs(&self) -> usize {
        self.reads.iter().filter(|&&reads| reads).count()
    }

    /// Lets some rows read some columns, as far as they exist.
    pub(super) fn fill(&mut self, rows: Range<usize>, columns: Range<usize>) {
        let end = columns.end.min(self.num_blocks);
        for row in rows.start..rows.end.min(self.num_blocks) {
            let start = row * self.num_blocks;
            self.reads[start + columns.start.min(end)..start + end].fill(true);
        }
    }

    /// The same without columns after the row.
    pub(super) fn lower_triangle(&self) -> Self {
        Self::from_fn(self.num_blocks, |row, column| column <= row && self.reads(row, column))
    }

    /// The first rows and columns.
    fn cropped(&self, num_blocks: usize) -> Self {
        Self::from_fn(num_blocks, |row, column| self.reads(row, column))
    }
}

/// The grids of all heads, and the number of positions of a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockLayout {
    block: usize,
    heads: Vec<BlockGrid>,
}

impl BlockLayout {
    /// Creates the layout of blocks of `block` positions from the grid of each head, all of one size.
    ///
    /// # Panics
    /// There is no head, sizes differ, or `block` is 0.
    pub fn new(block: usize, heads: Vec<BlockGrid>) -> Self {
        assert!(block > 0, "a block has positions");
        let num_blocks = heads.first().expect("a layout has heads").num_blocks;
        assert!(heads.iter().all(|head| head.num_blocks == num_blocks), "grids have one size");
        Self { block, heads }
    }

    /// The heads of one of `count` processes that divide them evenly.
    pub fn of_heads(&self, index: usize, count: usize) -> Self {
        let num_heads = self.heads.len() / count;
        let own = index * num_heads..(index + 1) * num_heads;
        Self { block: self.block, heads: self.heads[own].to_vec() }
    }

    /// Positions of a block.
    pub fn block(&self) -> usize {
        self.block
    }

    /// Blocks of a row of the greatest length.
    pub fn num_blocks(&self) -> usize {
        self.heads[0].num_blocks
    }

    /// The grid of each head.
    pub fn heads(&self) -> &[BlockGrid] {
        &self.heads
    }

    /// Returns the layout of rows of that length, whose last block may be short.
    ///
    /// # Panics
    /// The layout is shorter.
    pub fn cropped(&self, length: usize) -> Self {
        let num_blocks = length.div_ceil(self.block);
        let all = self.num_blocks();
        assert!(num_blocks <= all, "a layout of {all} blocks is for no row of {num_blocks}");
        let heads = self.heads.iter().map(|head| head.cropped(num_blocks)).collect();
        Self { block: self.block, heads }
    }

    /// Mean number of keys of a query and a head in rows of that length, at most that of the layout.
    pub fn mean_keys(&self, length: usize) -> f64 {
        let cropped = self.cropped(length);
        let pairs: usize = cropped.heads.iter().map(BlockGrid::num_pairs).sum();
        let rows = (self.heads.len() * cropped.num_blocks()).max(1);
        (self.block as f64 * pairs as f64 / rows as f64).min(length as f64)
    }
}
