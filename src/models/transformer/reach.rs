//! The positions of its own stack that each position attends to, in training: all pairs of a mask, or neighbours by blocks.

use std::sync::Arc;

use tch::{Kind, Tensor};

use super::spec::StackSpec;
use crate::models::parts::RelativeBias;
use crate::nn::{
    AttentionBias, AttentionDims, BlockBias, BlockRows, Dropout, Heads, LayoutBias, LayoutTiles,
    Runs, attention, bias_from_mask, block_attention, layout_attention,
};

/// The positions that may attend to each other.
#[derive(Debug)]
pub enum Visible {
    /// Pairs.
    Pairs {
        /// bool `[batch, 1, length, length]`, with extents of 1 on CUDA where all are alike, and for queries that all see the
        /// same keys.
        mask: Tensor,
        /// The same as runs, if the host knows them.
        runs: Option<Runs>,
    },
    /// Positions of the same example: int64 `[batch, length]`, its number, or 0 for padding. Each example is one run.
    Examples(Tensor),
    /// Keys of the blocks that the layout of each layer shows.
    Blocks {
        /// Keys that are no padding: bool `[batch, length]`.
        keys: Tensor,
        /// The number of the example of each position, from 1, if rows are packed: int64 `[batch, length]`.
        segments: Option<Tensor>,
        /// The layouts of all layers.
        tiles: Arc<[LayoutTiles]>,
    },
}

impl Visible {
    /// The pairs of a mask alone.
    pub fn masked(mask: Tensor) -> Self {
        Self::Pairs { mask, runs: None }
    }

    /// The addend for scores of keys that all queries of a row share: `[batch or 1, 1, length or 1]`.
    pub(super) fn of_keys(&self, kind: Kind) -> Tensor {
        match self {
            Self::Pairs { mask, .. } => bias_from_mask(&mask.any_dim(2, false), kind),
            Self::Examples(_) | Self::Blocks { .. } => {
                panic!("queries that depend on the row attend to all of it")
            }
        }
    }
}

/// The embeddings of relative positions that all layers of a stack share: those of its positions, and those of tokens beside
/// the sequence.
#[derive(Debug)]
pub(super) struct Embeddings {
    own: Option<Tensor>,
    side: Option<Tensor>,
}

impl Embeddings {
    pub(super) fn new(spec: &StackSpec, read: impl Fn(&str) -> Tensor) -> Self {
        let read = |path: String| read(&path);
        Self {
            own: spec.shared_rel_embedding().map(read),
            side: spec.side_rel_embedding().map(read),
        }
    }

    /// The biases that all layers share, for rows of that length.
    pub(super) fn biases(&self, spec: &StackSpec, length: i64) -> Vec<Tensor> {
        let Some(position) = &spec.position else { return Vec::new() };
        let own = self.own.as_ref().map(|embedding| match spec.reach.radius() {
            None if !spec.layouts.is_empty() => position.of_distances(embedding, length),
            None => position.of_pairs(embedding, length),
            Some(radius) => position.of_neighbours(embedding, radius as i64 + 1),
        });
        let side = self.side.as_ref().map(|embedding| {
            let num_side = spec.reach.num_beside(length as f64) as i64;
            position.of_distances(embedding, num_side + 1).tr()
        });
        own.into_iter().chain(side).collect()
    }
}

/// The addend for the scores of a stack's own positions.
pub(super) enum OwnBias {
    /// Of all pairs.
    Pairs { bias: AttentionBias, length: i64, position: Option<RelativeBias> },
    /// Of neighbours.
    Blocks { rows: BlockRows, biases: Vec<Tensor> },
    /// Of the blocks of a layout.
    Layout { tiles: Arc<[LayoutTiles]>, bias: LayoutBias },
}

impl OwnBias {
    /// Creates it from the biases that all layers share.
    pub(super) fn new(spec: &StackSpec, visible: &Visible, length: i64, shared: &[Tensor]) -> Self {
        let handles = || shared.iter().map(Tensor::shallow_clone);
        match (visible, spec.reach.radius()) {
            (Visible::Pairs { mask, runs }, None) => {
                let bias = AttentionBias::new(handles().next(), mask).over(runs.clone());
                Self::Pairs { bias, length, position: spec.position }
            }
            (Visible::Examples(segments), Some(radius)) => Self::Blocks {
                rows: BlockRows::new(segments, radius, spec.reach.tokens_per_block()),
                biases: handles().collect(),
            },
            (Visible::Blocks { keys, segments, tiles }, None) => {
                let bias = LayoutBias {
                    keys: keys.shallow_clone(),
                    segments: segments.as_ref().map(Tensor::shallow_clone),
                    by_distance: handles().next(),
                };
                Self::Layout { tiles: Arc::clone(tiles), bias }
            }
            (visible, radius) => panic!("{visible:?} is not for a radius of {radius:?}"),
        }
    }

    /// The same with other handles of the biases that all layers share.
    pub(super) fn with_shared(&self, shared: &[&Tensor]) -> Self {
        match self {
            Self::Pairs { bias, length, position } => Self::Pairs {
                bias: bias.with_position(shared.first().copied()),
                length: *length,
                position: *position,
            },
            Self::Blocks { rows, .. } => Self::Blocks {
                rows: rows.shallow_clone(),
                biases: shared.iter().map(|bias| bias.shallow_clone()).collect(),
            },
            Self::Layout { tiles, bias } => {
                let bias = bias.with_distances(shared.first().copied());
                Self::Layout { tiles: Arc::clone(tiles), bias }
            }
        }
    }

    /// The same for a layer with its own embedding of relative positions.
    pub(super) fn of_layer(&self, embedding: &Tensor) -> Self {
        let Self::Pairs { bias, length, position } = self else {
            panic!("layers that attend to neighbours share an embedding")
        };
        let own = position.map(|position| position.of_pairs(embedding, *length));
        let bias = AttentionBias::new(own, &bias.allowed).over(bias.runs.clone());
        Self::Pairs { bias, length: *length, position: *position }
    }

    /// The rows, if positions attend to neighbours.
    pub(super) fn rows(&self) -> Option<&BlockRows> {
        match self {
            Self::Pairs { .. } | Self::Layout { .. } => None,
            Self::Blocks { rows, .. } => Some(rows),
        }
    }

    /// Computes the attention of the layer with that number: `[batch, length, num_heads * head_dim]`, heads joined.
    pub(super) fn attend(
        &self,
        layer: usize,
        heads: &Heads,
        dims: &AttentionDims,
        dropout: Dropout,
    ) -> Tensor {
        match self {
            Self::Layout { tiles, bias } => {
                layout_attention(heads, &tiles[layer], bias, dims, dropout)
            }
            Self::Pairs { bias, .. } => attention(heads, bias, dims, dropout),
            Self::Blocks { rows, biases } => {
                let [local, side @ ..] = &biases[..] else { panic!("layers share a bias") };
                let side = side.first().map(Tensor::shallow_clone);
                let bias = BlockBias { local: local.shallow_clone(), side };
                block_attention(heads, rows, &bias, dims, dropout)
            }
        }
    }
}
