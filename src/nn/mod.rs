//! L3: tensor building blocks shared by models.
//!
//! `spec` describes parameters without torch. The rest are functions over tensors and small structs
//! that hold a layer's weights in the compute dtype: a forward pass builds them from [`Params`], so
//! that each weight is cast once a step, or read from its copy.

mod error;
mod experts;
mod shard;
mod sparse_attention;
mod spec;

#[cfg(all(feature = "torch", target_os = "linux", target_env = "gnu"))]
mod allocator;
#[cfg(feature = "torch")]
mod attention;
#[cfg(feature = "torch")]
pub mod autograd;
#[cfg(feature = "torch")]
mod axis;
#[cfg(feature = "torch")]
mod block_attention;
#[cfg(feature = "torch")]
mod block_rows;
#[cfg(feature = "torch")]
pub mod bridge;
#[cfg(feature = "torch")]
pub mod c10d;
#[cfg(feature = "torch")]
mod copies;
#[cfg(feature = "torch")]
pub mod cpu;
#[cfg(feature = "torch")]
mod cpu_decoding;
#[cfg(feature = "torch")]
pub mod cuda_graph;
#[cfg(feature = "torch")]
mod division;
#[cfg(feature = "torch")]
mod dropout;
#[cfg(feature = "torch")]
mod fp8;
#[cfg(feature = "torch")]
pub mod fused;
#[cfg(feature = "torch")]
mod init;
#[cfg(feature = "torch")]
mod joined;
#[cfg(feature = "torch")]
mod layer_parts;
#[cfg(feature = "torch")]
mod layers;
#[cfg(feature = "torch")]
mod lookahead;
#[cfg(feature = "torch")]
mod low_rank;
#[cfg(feature = "torch")]
mod masks;
#[cfg(feature = "torch")]
mod narrow_product;
#[cfg(feature = "torch")]
mod norm;
#[cfg(feature = "torch")]
mod params;
#[cfg(feature = "torch")]
mod portion;
#[cfg(feature = "torch")]
mod products;
#[cfg(feature = "torch")]
pub mod profiler;
#[cfg(feature = "torch")]
mod projection;
#[cfg(feature = "torch")]
mod relative_position;
#[cfg(feature = "torch")]
mod remat;
#[cfg(feature = "torch")]
mod runs;
#[cfg(feature = "torch")]
mod untracked;

pub use error::C10dError;
pub use experts::{ExpertsSpec, IgnoredPadding, RouterSpec, Routing, RoutingMode, TokenGroups};
pub use shard::{MeshDim, Shard, part_of};
pub use sparse_attention::{
    BSLongformerSparsityConfig, BigBirdSparsityConfig, BlockGrid, BlockLayout, DenseSparsityConfig,
    FixedSparsityConfig, LayoutDirection, LayoutHeads, ListedSparsityConfig,
    LocalSlidingWindowSparsityConfig, PythonRandom, SparsityConfig, VariableSparsityConfig,
};
pub use spec::{
    Activation, Distribution, Dtype, FanMode, Fp8Format, Initializer, LayerParts, LowRankScale,
    NormKind, ParamSpec, RelativePosition, RematPolicy, SCORES_AT_ONCE, StateDtype,
    TransformerEngineConfig,
};

#[cfg(feature = "torch")]
pub use attention::{AttentionDims, Heads, attention};
#[cfg(feature = "torch")]
pub use axis::{Axes, Axis, Lost};
#[cfg(feature = "torch")]
pub use block_attention::{BlockBias, block_attention};
#[cfg(feature = "torch")]
pub use block_rows::BlockRows;
#[cfg(feature = "torch")]
pub use copies::{CopiedColumns, CopiedKernel, KernelCopy, enable_copies, with_gradients};
#[cfg(feature = "torch")]
pub use cpu_decoding::{
    BestColumns, KeyValue, PackedKernel, Past, has_step_kernels, largest_columns, past_attention,
    reorder_hypotheses, step_attention, team,
};
#[cfg(feature = "torch")]
pub use division::Division;
#[cfg(feature = "torch")]
pub use dropout::Dropout;
#[cfg(feature = "torch")]
pub use experts::{ExpertKernels, Experts, RoutingReport};
#[cfg(feature = "torch")]
pub use fused::{RmsNorm, add_and_norm, rms_norm};
#[cfg(feature = "torch")]
pub use init::draw;
#[cfg(feature = "torch")]
pub use joined::Joined;
#[cfg(feature = "torch")]
pub use layers::{activated, embed, kind};
#[cfg(feature = "torch")]
pub use lookahead::Lookahead;
#[cfg(feature = "torch")]
pub use low_rank::{LowRank, LowRanks};
#[cfg(feature = "torch")]
pub use masks::{
    AttentionBias, bias_from_mask, causal_mask, decoder_positions, pairs, same_segment,
};
#[cfg(feature = "torch")]
pub use narrow_product::NarrowProduct;
#[cfg(feature = "torch")]
pub use norm::{LayerNorm, Norm};
#[cfg(feature = "torch")]
pub use params::{Params, kernel_names};
#[cfg(feature = "torch")]
pub use portion::{Gathering, Portion, Scattering};
#[cfg(feature = "torch")]
pub use projection::{Projection, Projections};
#[cfg(feature = "torch")]
pub use relative_position::{buckets, relative_position_bias, relative_position_distances};
#[cfg(feature = "torch")]
pub use remat::{Block, project};
#[cfg(feature = "torch")]
pub use runs::{Runs, RunsShape, SegmentLengths};
#[cfg(feature = "torch")]
pub use sparse_attention::{LayoutBias, LayoutTiles, layout_attention};
#[cfg(feature = "torch")]
pub use untracked::untracked;

/// Held by tests that draw from torch's generator: all threads share it, and some tests compare its draws.
#[cfg(all(test, feature = "torch"))]
pub(crate) static GENERATOR: std::sync::Mutex<()> = std::sync::Mutex::new(());
