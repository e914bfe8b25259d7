//! Flaxformer's mixture of experts: stacks of which some layers have experts, and their routers.
//!
//! ```text
//! moe_architecture.SparseEncoder.sparse_layer_factory = @moe_architecture.SparseEncoderLayer
//! moe_architecture.SparseEncoderLayer.mlp = @sparse_encoder/moe_layers.MoeLayer()
//! sparse_encoder/moe_layers.MoeLayer.router = @sparse_encoder/routing.TokensChooseMaskedRouter()
//! ```
//! Source: flaxformer `architectures/moe/`.

mod describe;
mod experts;
mod stacks;

pub use experts::{MoeLayer, Router};
pub use stacks::{SparseDecoder, SparseEncoder, SparseLayerParameters, SparseStackParameters};
