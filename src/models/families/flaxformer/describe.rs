//! The network that these modules describe.

use super::long_stacks::LongEncoderDecoder;
use super::parts::{NetworkParts, SparseParts, StackParts};
use super::stacks::{DecoderOnly, EncoderDecoder};
use crate::models::ModuleSpec;
use crate::models::parts::{
    AttentionSpec, EMBEDDING_INIT, LogitsKernel, RelativeBias, TokenEmbedding,
};
use crate::models::t5::spec::{DECODER, ENCODER};
use crate::models::transformer::{
    DimensionNames, LayerArrays, LayerDims, LayerInitializers, StackSpec, TransformerSpec,
};
use crate::nn::{RelativePosition, RematPolicy};

/// Parameters that set dimensions of a T5 or of a decoder alone.
const OF_T5: &[(&str, &str)] = &[
    ("vocab_size", "embedding.Embed.num_embeddings"),
    ("emb_dim", "embedding.Embed.features"),
    ("num_heads", "dense_attention.MultiHeadDotProductAttention.num_heads"),
    ("head_dim", "dense_attention.MultiHeadDotProductAttention.head_dim"),
    ("mlp_dim", "dense.MlpBlock.intermediate_dim"),
    ("mlp_activations", "dense.MlpBlock.activations"),
    ("layer_norm_epsilon", "layer_norm.T5LayerNorm.epsilon"),
    ("num_encoder_layers", "t5_architecture.Encoder.num_layers"),
    ("num_decoder_layers", "t5_architecture.Decoder.num_layers"),
    ("dropout_rate", "linen.Dropout.rate"),
];

/// Those that set dimensions of a LongT5.
const OF_LONG_T5: &[(&str, &str)] = &[
    ("vocab_size", "embedding.Embed.num_embeddings"),
    ("emb_dim", "embedding.Embed.features"),
    ("num_heads", "long_attention's num_heads, or dense_attention's"),
    ("head_dim", "long_attention's head_dim, or dense_attention's"),
    ("mlp_dim", "dense.MlpBlock.intermediate_dim"),
    ("mlp_activations", "dense.MlpBlock.activations"),
    ("layer_norm_epsilon", "layer_norm.T5LayerNorm.epsilon"),
    ("num_encoder_layers", "longt5_architecture.LongEncoder.num_layers"),
    ("num_decoder_layers", "t5_architecture.Decoder.num_layers"),
    ("dropout_rate", "linen.Dropout.rate"),
];

impl ModuleSpec for EncoderDecoder {
    fn transformer(&self) -> TransformerSpec {
        self.parts().transformer()
    }

    fn dimensions(&self) -> DimensionNames {
        DimensionNames { configurable: "t5_architecture.EncoderDecoder", elsewhere: OF_T5 }
    }

    fn check(&self) -> Result<(), String> {
        self.parts().check()
    }

    fn remat_parameters(&self) -> Vec<String> {
        [self.encoder_factory.0.layer_remat(), self.decoder_factory.0.layer_remat()]
            .map(str::to_string)
            .into()
    }

    fn set_remat_policy(&mut self, policy: RematPolicy) -> Option<()> {
        self.encoder_factory.0.set_layer_remat(policy);
        self.decoder_factory.0.set_layer_remat(policy);
        Some(())
    }
}

impl ModuleSpec for DecoderOnly {
    fn transformer(&self) -> TransformerSpec {
        self.parts().transformer()
    }

    fn dimensions(&self) -> DimensionNames {
        DimensionNames { configurable: "t5_architecture.DecoderOnly", elsewhere: OF_T5 }
    }

    fn check(&self) -> Result<(), String> {
        self.parts().check()
    }

    fn remat_parameters(&self) -> Vec<String> {
        vec![self.decoder_factory.0.layer_remat().to_string()]
    }

    fn set_remat_policy(&mut self, policy: RematPolicy) -> Option<()> {
        self.decoder_factory.0.set_layer_remat(policy);
        Some(())
    }
}

impl ModuleSpec for LongEncoderDecoder {
    fn transformer(&self) -> TransformerSpec {
        self.parts().transformer()
    }

    fn dimensions(&self) -> DimensionNames {
        DimensionNames {
            configurable: "longt5_architecture.LongEncoderDecoder",
            elsewhere: OF_LONG_T5,
        }
    }

    fn check(&self) -> Result<(), String> {
        self.parts().check()
    }

    fn remat_parameters(&self) -> Vec<String> {
        let names =
            ["longt5_architecture.LongEncoder.layer_remat", "t5_architecture.Decoder.layer_remat"];
        names.map(str::to_string).into()
    }

    fn set_remat_policy(&mut self, policy: RematPolicy) -> Option<()> {
        self.encoder_factory.0.stack.layer_remat = policy.into();
        self.decoder_factory.0.stack.layer_remat = policy.into();
        Some(())
    }
}

impl NetworkParts<'_> {
    fn transformer(&self) -> TransformerSpec {
        let emb_dim = self.embed.map_or(0, |embed| embed.features);
        let stack = |parts: &StackParts<'_>, name, attentions, direction| StackSpec {
            name,
            num_layers: parts.stack.num_layers,
            attentions,
            position: parts.position(direction),
            reach: parts.reach,
            shares_last_dropout: !parts.last_dropout.broadcast_dims.is_empty(),
            dims: parts.dims(emb_dim),
            sparse: parts.sparse.as_ref().map(SparseParts::layers),
        };
        let encoder: &'static [AttentionSpec] = &ENCODER;
        let (path, attentions): (_, &'static [AttentionSpec]) = match self.encoder {
            Some(_) => ("token_embedder", &DECODER),
            None => ("decoder/token_embedder", &DECODER[..1]),
        };
        let last = stack(&self.decoder, "decoder", attentions, RelativePosition::Causal);
        TransformerSpec {
            tokens: TokenEmbedding {
                path,
                vocab_size: self.embed.map_or(0, |embed| embed.num_embeddings),
                stream: last.dims.stream(),
                initializer: self
                    .embed
                    .map_or(EMBEDDING_INIT, |embed| embed.embedding_init.initializer()),
                logits: self
                    .logits
                    .map(|logits| LogitsKernel::of_decoder(logits.kernel_init.initializer())),
            },
            encoder: self
                .encoder
                .as_ref()
                .map(|parts| stack(parts, "encoder", encoder, RelativePosition::Bidirectional)),
            last,
            dropout_rate: self.decoder.last_dropout.rate,
            fp8: None,
            layer_arrays: match self.decoder.attention().parameters.split_head_kernel {
                true => LayerArrays::ByHead,
                false => LayerArrays::Joined,
            },
        }
    }
}

impl StackParts<'_> {
    fn dims(&self, emb_dim: usize) -> LayerDims {
        let attention = self.attention();
        let head_dim = attention.head_dim(emb_dim);
        let number = if attention.parameters.rescale_logits { 1.0 } else { head_dim as f64 };
        let kernels = attention.parameters.kernel_init.initializer();
        LayerDims {
            dtype: self.stack.dtype,
            emb_dim,
            num_heads: attention.parameters.num_heads,
            head_dim,
            mlp_dim: self.mlp.intermediate_dim,
            mlp_activations: self.mlp.activations.clone(),
            adapter_dim: None,
            layer_norm_epsilon: self.norms[0].epsilon,
            float32_attention_logits: attention.parameters.float32_logits,
            scale_attn_logits: attention.parameters.rescale_logits,
            drops_mlp_twice: self.mlp.final_dropout_rate != 0.0,
            remat_policy: self.stack.layer_remat.policy(),
            initializers: LayerInitializers {
                query: attention.q_kernel_init.over_sqrt(number),
                attention: kernels,
                feed_forward: self.mlp.kernel_init.initializer(),
            },
        }
    }

    fn position(&self, direction: RelativePosition) -> RelativeBias {
        let t5 = RelativeBias::t5(direction);
        RelativeBias {
            per_layer: self.shared_bias.is_none(),
            initializer: self.bias().map_or(t5.initializer, |it| it.embedding_init.initializer()),
            ..t5
        }
    }
}
