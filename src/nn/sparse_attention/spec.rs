//! The layouts of DeepSpeed's sparse attention as gin names them.

use super::block_layout::BlockLayout;
use super::drawing::{Drawn, Unfit};
use super::python_random::PythonRandom;
use crate::gin::{Configurable, Parameters, Slot};

/// Any layout of blocks. Source: DeepSpeed 0.9.5 `ops/sparse_attention/sparsity_config.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
pub enum SparsityConfig {
    /// All blocks.
    Dense(DenseSparsityConfig),
    /// Windows of one size, and blocks at the end of each.
    Fixed(FixedSparsityConfig),
    /// Windows of any sizes, random blocks, and blocks that are listed.
    Variable(VariableSparsityConfig),
    /// Neighbours, random blocks, and the first blocks.
    BigBird(BigBirdSparsityConfig),
    /// Neighbours, and blocks that are listed.
    BSLongformer(BSLongformerSparsityConfig),
    /// Neighbours.
    LocalSlidingWindow(LocalSlidingWindowSparsityConfig),
    /// Blocks that are listed for each block of queries.
    Listed(ListedSparsityConfig),
}

impl SparsityConfig {
    /// Draws the layout of rows of `length` positions. Layouts of several layers are drawn one after the other from one
    /// generator.
    ///
    /// # Errors
    /// Parameters contradict each other or the length; the message names the parameter and its configurable.
    pub fn layout(&self, length: usize, random: &mut PythonRandom) -> Result<BlockLayout, String> {
        self.try_layout(length, random).map_err(|Unfit { parameter, found, expected }| {
            format!("{}.{parameter} is {found}, expected {expected}", self.schema_of().name)
        })
    }

    fn try_layout(&self, length: usize, random: &mut PythonRandom) -> Result<BlockLayout, Unfit> {
        let (drawn, heads) = (self.drawn(), self.heads());
        let num_blocks = heads.check(length)?;
        drawn.check(num_blocks)?;
        let num_drawn = if heads.different_layout_per_head { heads.num_heads } else { 1 };
        let mut grids: Vec<_> =
            (0..num_drawn).map(|head| drawn.draw(head, num_blocks, random)).collect();
        grids.resize(heads.num_heads, grids[0].clone());
        Ok(BlockLayout::new(heads.block, grids))
    }

    /// The heads of the attention, and its blocks.
    pub fn heads(&self) -> LayoutHeads {
        match self {
            Self::Dense(config) => config.heads,
            Self::Fixed(config) => config.heads,
            Self::Variable(config) => config.heads,
            Self::BigBird(config) => config.heads,
            Self::BSLongformer(config) => config.heads,
            Self::LocalSlidingWindow(config) => LayoutHeads {
                num_heads: config.num_heads,
                block: config.block,
                different_layout_per_head: false,
            },
            Self::Listed(config) => LayoutHeads {
                num_heads: config.num_heads,
                block: config.block,
                different_layout_per_head: config.rows.len() > config.num_blocks(),
            },
        }
    }

    fn drawn(&self) -> &dyn Drawn {
        match self {
            Self::Dense(config) => config,
            Self::Fixed(config) => config,
            Self::Variable(config) => config,
            Self::BigBird(config) => config,
            Self::BSLongformer(config) => config,
            Self::LocalSlidingWindow(config) => config,
            Self::Listed(config) => config,
        }
    }
}

/// The heads of an attention, and its blocks.
#[derive(Clone, Copy, Debug, PartialEq, Parameters)]
pub struct LayoutHeads {
    /// Attention heads.
    pub num_heads: usize,
    /// Positions of a block; the greatest length of rows is a multiple of it.
    #[gin(default = 16)]
    pub block: usize,
    /// Whether each head has a layout of its own, instead of that of the first one.
    #[gin(default = false)]
    pub different_layout_per_head: bool,
}

/// The blocks of keys that queries read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Configurable)]
pub enum LayoutDirection {
    /// Those of their own block and of blocks before it. Inside of their own block queries also read keys after them.
    Unidirectional,
    /// Those on both sides.
    Bidirectional,
}

/// All blocks, for comparison.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "bert.DenseSparsityConfig")]
pub struct DenseSparsityConfig {
    /// Heads and blocks.
    #[gin(flatten)]
    pub heads: LayoutHeads,
}

/// Windows of blocks that read each other, and in each window some blocks at its end that all rows read (Child et al. 2019,
/// arXiv:1904.10509).
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "bert.FixedSparsityConfig")]
pub struct FixedSparsityConfig {
    /// Heads and blocks.
    #[gin(flatten)]
    pub heads: LayoutHeads,
    /// Blocks of a window.
    #[gin(default = 4)]
    pub num_local_blocks: usize,
    /// Blocks of a window that all rows read; it divides the number of blocks of a window.
    #[gin(default = 1)]
    pub num_global_blocks: usize,
    /// The blocks that queries read.
    #[gin(default = LayoutDirection::Bidirectional)]
    pub attention: LayoutDirection,
    /// Whether blocks that all rows read also read all blocks; not with unidirectional attention.
    #[gin(default = false)]
    pub horizontal_global_attention: bool,
    /// Number of heads after which the blocks of a window that all rows read are the same again; at most as many as there
    /// are places in a window, and 1 unless heads have layouts of their own.
    #[gin(default = 1)]
    pub num_different_global_patterns: usize,
}

/// Windows of blocks that read each other, of the sizes in a list, random blocks, and listed blocks that all rows read.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "bert.VariableSparsityConfig")]
pub struct VariableSparsityConfig {
    /// Heads and blocks.
    #[gin(flatten)]
    pub heads: LayoutHeads,
    /// Random blocks that each block of queries reads.
    #[gin(default = 0)]
    pub num_random_blocks: usize,
    /// Blocks of each window; the last number repeats.
    #[gin(default = vec![4])]
    pub local_window_blocks: Vec<usize>,
    /// Numbers of blocks that all rows read; numbers that a row does not have are left out.
    #[gin(default = vec![0])]
    pub global_block_indices: Vec<usize>,
    /// For each of these numbers the one after the last block of a run that begins there; None means single blocks.
    #[gin(default = None)]
    pub global_block_end_indices: Option<Vec<usize>>,
    /// The blocks that queries read, but random ones, which are drawn from all.
    #[gin(default = LayoutDirection::Bidirectional)]
    pub attention: LayoutDirection,
    /// Whether blocks that all rows read also read all blocks; not with unidirectional attention.
    #[gin(default = false)]
    pub horizontal_global_attention: bool,
}

/// Neighbours, random blocks, and first blocks, which all rows read and which read all (Zaheer et al. 2020,
/// arXiv:2007.14062).
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "bert.BigBirdSparsityConfig")]
pub struct BigBirdSparsityConfig {
    /// Heads and blocks.
    #[gin(flatten)]
    pub heads: LayoutHeads,
    /// Random blocks that each block of queries reads; at most 1 with unidirectional attention, whose first block reads
    /// itself alone.
    #[gin(default = 1)]
    pub num_random_blocks: usize,
    /// Blocks around each block of queries, with itself; an even number counts as the next odd one.
    #[gin(default = 3)]
    pub num_sliding_window_blocks: usize,
    /// First blocks that all rows read and that read all.
    #[gin(default = 1)]
    pub num_global_blocks: usize,
    /// The blocks that queries read.
    #[gin(default = LayoutDirection::Bidirectional)]
    pub attention: LayoutDirection,
}

/// Neighbours, and listed blocks, which all rows read and which read all (Beltagy et al. 2020, arXiv:2004.05150).
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "bert.BSLongformerSparsityConfig")]
pub struct BSLongformerSparsityConfig {
    /// Heads and blocks.
    #[gin(flatten)]
    pub heads: LayoutHeads,
    /// Blocks around each block of queries, with itself; an even number counts as the next odd one.
    #[gin(default = 3)]
    pub num_sliding_window_blocks: usize,
    /// Numbers of blocks that all rows read and that read all; numbers that a row does not have are left out.
    #[gin(default = vec![0])]
    pub global_block_indices: Vec<usize>,
    /// For each of these numbers the one after the last block of a run that begins there; None means single blocks.
    #[gin(default = None)]
    pub global_block_end_indices: Option<Vec<usize>>,
    /// The blocks that queries read.
    #[gin(default = LayoutDirection::Bidirectional)]
    pub attention: LayoutDirection,
}

/// Neighbours alone, the same for all heads.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "bert.LocalSlidingWindowSparsityConfig")]
pub struct LocalSlidingWindowSparsityConfig {
    /// Attention heads.
    pub num_heads: usize,
    /// Positions of a block; the greatest length of rows is a multiple of it.
    #[gin(default = 16)]
    pub block: usize,
    /// Blocks around each block of queries, with itself; an even number counts as the next odd one.
    #[gin(default = 3)]
    pub num_sliding_window_blocks: usize,
    /// The blocks that queries read; unlike in other layouts those before them by default.
    #[gin(default = LayoutDirection::Unidirectional)]
    pub attention: LayoutDirection,
}

/// The blocks that are listed, in every layer: those with which a model of t5-experiments was trained.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "bert.ListedSparsityConfig")]
pub struct ListedSparsityConfig {
    /// Attention heads.
    pub num_heads: usize,
    /// Positions of a block; the greatest length of rows is a multiple of it.
    #[gin(default = 16)]
    pub block: usize,
    /// For each block of queries a text with a character for each block of keys: 1 if it is read, 0 if not. The first rows are
    /// those of the first head; rows of one head are those of all.
    pub rows: Vec<String>,
}

impl ListedSparsityConfig {
    /// Blocks of a row of the greatest length.
    pub(super) fn num_blocks(&self) -> usize {
        self.rows.first().map_or(0, String::len)
    }
}
