//! The network that these modules describe.

use std::fmt::Debug;
use std::sync::Arc;

use super::long_stacks::LongEncoderDecoder;
use super::parts::{NetworkParts, SparseParts, StackParts};
use super::prompt::PromptEncoderDecoder;
use super::stacks::{DecoderOnly, EncoderDecoder, StackParameters};
use crate::models::ModuleSpec;
use crate::models::parts::{
    AttentionSpec, EMBEDDING_INIT, FeedForwardDropout, LogitsKernel, RelativeBias, TokenEmbedding,
};
use crate::models::t5::spec::{DECODER, ENCODER};
use crate::models::transformer::{
    DimensionNames, LayerArrays, LayerDims, LayerInitializers, LayerStyle, StackEnd, StackSpec,
    TransformerSpec,
};
use crate::nn::{Initializer, RelativePosition, RematPolicy};

/// The parameters that set dimensions of a T5; `$num_encoder_layers` is that of its encoder.
macro_rules! of_t5 {
    ($num_encoder_layers:literal) => {
        &[
            ("vocab_size", "embedding.Embed.num_embeddings"),
            ("emb_dim", "embedding.Embed.features"),
            ("num_heads", "dense_attention.MultiHeadDotProductAttention.num_heads"),
            ("head_dim", "dense_attention.MultiHeadDotProductAttention.head_dim"),
            ("mlp_dim", "dense.MlpBlock.intermediate_dim"),
            ("mlp_activations", "dense.MlpBlock.activations"),
            ("layer_norm_epsilon", "layer_norm.T5LayerNorm.epsilon"),
            ("num_encoder_layers", $num_encoder_layers),
            ("num_decoder_layers", "t5_architecture.Decoder.num_layers"),
            ("dropout_rate", "linen.Dropout.rate"),
        ]
    };
}

/// Parameters that set dimensions of a T5 or of a decoder alone.
const OF_T5: &[(&str, &str)] = of_t5!("t5_architecture.Encoder.num_layers");

/// Those that set dimensions of a T5 with a prompt.
const OF_PROMPTED_T5: &[(&str, &str)] = of_t5!("layers.PromptEncoder.num_layers");

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

/// A network of modules, which its parts describe.
trait HasParts: Debug {
    /// The parameters that set its dimensions, for messages.
    const DIMENSIONS: DimensionNames;

    /// Its parts.
    fn parts(&self) -> NetworkParts<'_>;

    /// Parameters of its stacks.
    fn stacks_mut(&mut self) -> Vec<&mut StackParameters>;
}

impl HasParts for EncoderDecoder {
    const DIMENSIONS: DimensionNames =
        DimensionNames { configurable: "t5_architecture.EncoderDecoder", elsewhere: OF_T5 };

    fn parts(&self) -> NetworkParts<'_> {
        NetworkParts {
            embed: self.shared_token_embedder_factory.as_deref(),
            encoder: Some(self.encoder_factory.parts()),
            decoder: self.decoder_factory.parts(),
            logits: self.decoder_factory.logits(),
            prompted: None,
        }
    }

    fn stacks_mut(&mut self) -> Vec<&mut StackParameters> {
        vec![self.encoder_factory.0.stack_mut(), self.decoder_factory.0.stack_mut()]
    }
}

impl HasParts for DecoderOnly {
    const DIMENSIONS: DimensionNames =
        DimensionNames { configurable: "t5_architecture.DecoderOnly", elsewhere: OF_T5 };

    fn parts(&self) -> NetworkParts<'_> {
        let decoder = self.decoder_factory.parts();
        let logits = self.decoder_factory.logits();
        NetworkParts { embed: decoder.own_embed, encoder: None, decoder, logits, prompted: None }
    }

    fn stacks_mut(&mut self) -> Vec<&mut StackParameters> {
        vec![self.decoder_factory.0.stack_mut()]
    }
}

impl HasParts for LongEncoderDecoder {
    const DIMENSIONS: DimensionNames = DimensionNames {
        configurable: "longt5_architecture.LongEncoderDecoder",
        elsewhere: OF_LONG_T5,
    };

    fn parts(&self) -> NetworkParts<'_> {
        NetworkParts {
            embed: self.shared_token_embedder_factory.as_deref(),
            encoder: Some(self.encoder_factory.parts()),
            decoder: self.decoder_factory.parts(),
            logits: self.decoder_factory.output_logits_factory.as_deref(),
            prompted: None,
        }
    }

    fn stacks_mut(&mut self) -> Vec<&mut StackParameters> {
        vec![&mut self.encoder_factory.0.stack, &mut self.decoder_factory.0.stack]
    }
}

impl HasParts for PromptEncoderDecoder {
    const DIMENSIONS: DimensionNames =
        DimensionNames { configurable: "layers.PromptEncoderDecoder", elsewhere: OF_PROMPTED_T5 };

    fn parts(&self) -> NetworkParts<'_> {
        let encoder = self.encoder_factory.encoder.parts();
        NetworkParts {
            embed: self.shared_token_embedder_factory.as_deref(),
            encoder: Some(StackParts { name: "layers.PromptEncoder", ..encoder }),
            decoder: self.decoder_factory.parts(),
            logits: self.decoder_factory.logits(),
            prompted: Some(self),
        }
    }

    fn stacks_mut(&mut self) -> Vec<&mut StackParameters> {
        vec![&mut self.encoder_factory.0.encoder.stack, self.decoder_factory.0.stack_mut()]
    }
}

impl<M: HasParts> ModuleSpec for M {
    fn transformer(&self) -> TransformerSpec {
        self.parts().transformer()
    }

    fn dimensions(&self) -> DimensionNames {
        M::DIMENSIONS
    }

    fn check(&self) -> Result<(), String> {
        self.parts().check()
    }

    fn remat_parameters(&self) -> Vec<String> {
        self.parts().stacks().map(|stack| format!("{}.layer_remat", stack.name)).collect()
    }

    fn set_remat_policy(&mut self, policy: RematPolicy) -> Option<()> {
        self.stacks_mut().into_iter().for_each(|stack| stack.layer_remat = policy.into());
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
            position: Some(parts.position(direction)),
            rotary: None,
            reach: parts.reach,
            layouts: [].into(),
            end: StackEnd::NormAndDropout {
                is_shared: !parts.last_dropout.broadcast_dims.is_empty(),
            },
            dims: parts.dims(emb_dim),
            sparse: parts.sparse.as_ref().map(SparseParts::layers),
            lora: None,
            layer_rows: parts.layer_prompt.map(|prompt| Arc::new(prompt.layer_rows())),
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
                learns_padding: true,
                logits: self
                    .logits
                    .map(|logits| LogitsKernel::of_decoder(logits.kernel_init.initializer())),
            },
            learned_rows: self.prompted.map(|network| network.rows(last.dims.stream())),
            encoder_ends: None,
            class_head: None,
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
            num_cdq_heads: 0,
            head_dim,
            mlp_dim: self.mlp.intermediate_dim,
            mlp_activations: self.mlp.activations.clone(),
            adapter_dim: None,
            layer_norm_epsilon: self.norms[0].epsilon,
            float32_attention_logits: attention.parameters.float32_logits,
            scale_attn_logits: attention.parameters.rescale_logits,
            style: LayerStyle {
                feed_forward_dropout: match self.mlp.final_dropout_rate {
                    0.0 => FeedForwardDropout::Between,
                    _ => FeedForwardDropout::BetweenAndAfter,
                },
                has_scales: self.mlp.intermediate_conv.is_some(),
                ..LayerStyle::T5
            },
            remat_policy: self.stack.layer_remat.policy(),
            initializers: LayerInitializers {
                query: attention.q_kernel_init.over_sqrt(number),
                attention: kernels,
                feed_forward: self.mlp.kernel_init.initializer(),
                norm: Initializer::ONES,
            },
        }
    }

    fn position(&self, direction: RelativePosition) -> RelativeBias {
        let t5 = RelativeBias::t5(direction);
        RelativeBias {
            per_layer: self.shared_bias.is_none(),
            initializer: self
                .bias()
                .map_or(t5.initializer, |it| it.parameters.embedding_init.initializer()),
            ..t5
        }
    }
}
