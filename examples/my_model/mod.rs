//! An encoder alone, which predicts the tokens that its inputs mask: a family of models of one's own. Its parameters, memory and
//! operations follow from the description of its network.

use gimlet::data::{ConverterClass, DataError, EncoderFeatureConverter, Lengths, feature_length};
use gimlet::gin::{Configurable, Fills};
use gimlet::models::heads::{Divisors, LossOutput, LossSpec, TokenLogits};
use gimlet::models::memory::StepShape;
use gimlet::models::parts::{AttentionSpec, EMBEDDING_INIT, Reach, RelativeBias, TokenEmbedding};
use gimlet::models::transformer::{
    DimensionNames, LAYER_NORM_EPSILON, LayerArrays, LayerDims, LayerInitializers, LayerStyle,
    Stack, StackEnd, StackInput, StackSpec, TransformerSpec, Visible, kernel_init,
};
use gimlet::models::{BaseModel, Batch, HasNetwork, Model, ModuleSpec, Network, feature};
use gimlet::nn::{
    Activation, Dropout, Dtype, Params, RelativePosition, RematPolicy, TransformerEngineConfig,
    pairs, same_segment,
};
use gimlet::optim::OptimizerDef;
use gimlet::vocab::VocabularySpec;

/// A masked language model.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "my_models.MaskedEncoder")]
pub struct MaskedEncoder {
    /// The network.
    pub module: Encoder,
    /// Vocabulary of all ids.
    pub vocabulary: VocabularySpec,
    /// Optimizer, which turns gradients into updates.
    pub optimizer_def: OptimizerDef,
    /// The id of masked tokens.
    pub mask_id: i64,
}

/// The dimensions of its network.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "my_models.Encoder")]
pub struct Encoder {
    /// Rows of the token embedding, which also maps to logits.
    pub vocab_size: usize,
    /// Width of the residual stream.
    #[gin(default = 64)]
    pub emb_dim: usize,
    /// Attention heads.
    #[gin(default = 2)]
    pub num_heads: usize,
    /// Width of one head.
    #[gin(default = 32)]
    pub head_dim: usize,
    /// Width between the two projections of the feed-forward block.
    #[gin(default = 128)]
    pub mlp_dim: usize,
    /// Layers.
    #[gin(default = 1)]
    pub num_layers: usize,
    /// Probability that an activation is dropped in training.
    #[gin(default = 0.1, limit = BelowOne)]
    pub dropout_rate: f64,
}

/// Its name in messages.
const NAMES: DimensionNames = DimensionNames::of("my_models.Encoder");

/// The attention of each layer.
const ATTENTION: [AttentionSpec; 1] =
    [AttentionSpec { norm: "pre_attention_layer_norm", name: "attention", reads_encoding: false }];

impl ModuleSpec for Encoder {
    fn transformer(&self) -> TransformerSpec {
        let kernels = kernel_init(true);
        let dims = LayerDims {
            dtype: Dtype::Float32,
            emb_dim: self.emb_dim,
            num_heads: self.num_heads,
            num_cdq_heads: 0,
            head_dim: self.head_dim,
            mlp_dim: self.mlp_dim,
            mlp_activations: vec![Activation::Gelu, Activation::Linear],
            adapter_dim: None,
            layer_norm_epsilon: LAYER_NORM_EPSILON,
            float32_attention_logits: false,
            scale_attn_logits: false,
            style: LayerStyle::T5,
            remat_policy: RematPolicy::None,
            initializers: LayerInitializers::t5(self.head_dim, kernels),
        };
        TransformerSpec {
            tokens: TokenEmbedding {
                path: "token_embedder",
                vocab_size: self.vocab_size,
                stream: dims.stream(),
                initializer: EMBEDDING_INIT,
                learns_padding: true,
                logits: None,
            },
            learned_rows: None,
            encoder_ends: None,
            class_head: None,
            encoder: None,
            last: StackSpec {
                name: "encoder",
                num_layers: self.num_layers,
                attentions: &ATTENTION,
                position: Some(RelativeBias::t5(RelativePosition::Bidirectional)),
                rotary: None,
                end: StackEnd::NormAndDropout { is_shared: true },
                reach: Reach::All,
                layouts: [].into(),
                dims,
                sparse: None,
                lora: None,
                layer_rows: None,
            },
            dropout_rate: self.dropout_rate,
            fp8: None,
            layer_arrays: LayerArrays::Joined,
        }
    }

    fn dimensions(&self) -> DimensionNames {
        NAMES
    }
}

impl Fills for MaskedEncoder {
    type Slot = Model;
}

impl BaseModel for MaskedEncoder {
    fn module(&self) -> &dyn ModuleSpec {
        &self.module
    }

    fn vocabularies(&self) -> Vec<(&'static str, &VocabularySpec)> {
        ["inputs", "targets"].map(|feature| (feature, &self.vocabulary)).into()
    }

    fn feature_converter(&self) -> ConverterClass {
        EncoderFeatureConverter { mask_id: self.mask_id }.into()
    }

    fn step_shape(&self, rows: usize, lengths: &Lengths) -> Result<StepShape, DataError> {
        Ok(StepShape::whole(rows, [feature_length("inputs", lengths)?]))
    }

    fn optimizer_def(&self) -> &OptimizerDef {
        &self.optimizer_def
    }

    fn loss_spec(&self) -> LossSpec {
        LossSpec::default()
    }

    fn check_own(&self) -> Result<(), String> {
        let (id, rows) = (self.mask_id, self.module.vocab_size);
        match usize::try_from(id).is_ok_and(|id| id < rows) {
            true => Ok(()),
            false => Err(format!(
                "my_models.MaskedEncoder.mask_id is {id}, expected an id of the embedding, which has {rows} rows"
            )),
        }
    }
}

impl HasNetwork for MaskedEncoder {
    fn network(&self, fp8: Option<&TransformerEngineConfig>) -> Box<dyn Network> {
        Box::new(EncoderNetwork(self.transformer().with_fp8(fp8)))
    }
}

/// The network. It holds no weights: every method gets them.
#[derive(Debug)]
struct EncoderNetwork(TransformerSpec);

impl Network for EncoderNetwork {
    fn dropout(&self) -> Dropout {
        Dropout::train(self.0.dropout_rate)
    }

    fn features(&self) -> &'static [&'static str] {
        &[
            feature::ENCODER_INPUT_TOKENS,
            feature::ENCODER_TARGET_TOKENS,
            feature::ENCODER_LOSS_WEIGHTS,
            feature::ENCODER_SEGMENT_IDS,
        ]
    }

    fn loss(
        &self,
        params: &Params,
        batch: &Batch,
        spec: &LossSpec,
        dropout: Dropout,
    ) -> LossOutput {
        let params = &self.0.begin(params);
        let tokens = batch.tensor(feature::ENCODER_INPUT_TOKENS);
        let real = tokens.gt(0);
        let mask = pairs(&real, &real);
        let mask = match batch.get(feature::ENCODER_SEGMENT_IDS) {
            Some(ids) => mask.logical_and(&same_segment(ids, ids)),
            None => mask,
        };
        let embedded = self.0.tokens.embed(params, tokens);
        let input = StackInput { embedded, visible: &Visible::masked(mask), real: None };
        let passed = Stack::new(&self.0.last, params).forward(input, None, dropout);
        let head = self.0.tokens.head(params, &passed.hidden);
        LossOutput::new(batch, [TokenLogits::MASKED.loss(&head, batch, spec)])
    }

    fn divisors(&self, batch: &Batch, spec: &LossSpec) -> Divisors {
        TokenLogits::MASKED.divisors(batch, spec)
    }
}
