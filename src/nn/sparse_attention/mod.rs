//! Attention in which blocks of queries read some blocks of keys, as DeepSpeed's sparse attention does: configurables that
//! draw a layout of blocks, and the attention by such a layout.
//!
//! Source: DeepSpeed 0.9.5 `deepspeed/ops/sparse_attention/`.

mod block_layout;
mod drawing;
mod python_random;
mod spec;

#[cfg(feature = "torch")]
mod attention;
#[cfg(feature = "torch")]
mod tiles;

pub use block_layout::{BlockGrid, BlockLayout};
pub use python_random::PythonRandom;
pub use spec::{
    BSLongformerSparsityConfig, BigBirdSparsityConfig, DenseSparsityConfig, FixedSparsityConfig,
    LayoutDirection, LayoutHeads, ListedSparsityConfig, LocalSlidingWindowSparsityConfig,
    SparsityConfig, VariableSparsityConfig,
};

#[cfg(feature = "torch")]
pub use attention::{LayoutBias, LayoutTiles, layout_attention};
