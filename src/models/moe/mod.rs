//! T5X's models whose networks have experts: their losses include those of the routers.
//!
//! Source: T5X `contrib/moe/models.py`.

mod decoder_only;
mod encoder_decoder;
mod experts;

pub use decoder_only::MoeDecoderOnlyModel;
pub use encoder_decoder::MoeEncoderDecoderModel;
