//! The networks of models with an encoder and a decoder.

use super::encoder_decoder::{EncoderDecoderModel, MoeEncoderDecoderModel};
use super::model::T5;
use super::wayward::WaywardPromptEncoderDecoderModel;
use crate::models::{BaseModel, HasNetwork, Network};
use crate::nn::TransformerEngineConfig;

impl HasNetwork for EncoderDecoderModel {
    fn network(&self, fp8: Option<&TransformerEngineConfig>) -> Box<dyn Network> {
        Box::new(T5::new(self.transformer().with_fp8(fp8)))
    }
}

impl HasNetwork for WaywardPromptEncoderDecoderModel {
    fn network(&self, fp8: Option<&TransformerEngineConfig>) -> Box<dyn Network> {
        Box::new(T5::new(self.transformer().with_fp8(fp8)))
    }
}

impl HasNetwork for MoeEncoderDecoderModel {
    fn network(&self, fp8: Option<&TransformerEngineConfig>) -> Box<dyn Network> {
        Box::new(T5::new(self.transformer().with_fp8(fp8)))
    }
}
