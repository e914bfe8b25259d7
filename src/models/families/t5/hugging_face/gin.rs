//! A T5 of transformers as gin: its `config.json` gives the dimensions, the files beside it the vocabulary.

use serde::Deserialize;

use super::FAMILY;
use super::config::facts;
use crate::checkpoint::{ConfigFacts, HuggingFaceConfig, open};
use crate::models::hugging_face::{generation_gin, tokenizer_lines};
use crate::nn::Activation;
use crate::storage::Path;
use crate::vocab::count_pieces;

/// The array of a head of its own, which the others share with the embedding.
const LOGITS: &str = "target/decoder/logits_dense/kernel";

/// Sentinels that transformers' T5 tokenizer adds if its configuration says nothing.
const EXTRA_IDS: usize = 100;

/// The same for ByT5.
const BYTE_EXTRA_IDS: usize = 125;

/// LongT5's neighbours on either side, and tokens of a block, if the configuration says nothing.
const LOCAL_RADIUS: usize = 127;
const TOKENS_PER_BLOCK: usize = 16;

/// The greatest numbers of tokens if the folder does not say: T5's own.
const INPUTS: usize = 512;
const TARGETS: usize = 128;

/// The fields of `config.json` that describe the network.
#[derive(Debug, Deserialize)]
struct Config {
    model_type: Option<String>,
    vocab_size: usize,
    d_model: usize,
    d_kv: usize,
    d_ff: usize,
    num_layers: usize,
    num_decoder_layers: Option<usize>,
    num_heads: usize,
    n_positions: Option<usize>,
    encoder_attention_type: Option<String>,
    local_radius: Option<usize>,
    global_block_size: Option<usize>,
    dropout_rate: Option<f64>,
    dtype: Option<String>,
    /// The older name of `dtype`.
    torch_dtype: Option<String>,
}

/// Returns the statements that bind the model.
pub(super) fn gin(file: &HuggingFaceConfig) -> Result<String, String> {
    let unfit = |error| format!("it is not the config.json of a T5 of transformers: {error}");
    let config: Config = file.fields().map_err(unfit)?;
    let facts = facts(file)?;
    let folder = file.file.folder();
    let is_tied = is_tied(&folder)?;
    let network = match config.model_type.as_deref() {
        Some("longt5") => config.longt5(&facts, is_tied)?,
        _ => config.t5(&facts, is_tied)?,
    };
    // Several ids that end answers are parameters of decoding.
    let eos_id = match file.eos_ids()?[..] {
        [id] => id.to_string(),
        _ => "None".to_string(),
    };
    let generation = generation_gin(&file.file, &file.keys, facts.bos_id)?;
    Ok(format!(
        "import seqio\n\
         from gimlet import decoding\n\
         from t5x import models\n\
         from t5x.examples.t5 import network\n\n\
         include \"t5x/examples/t5/encoder_decoder.gin\"\n\
         {network}\n\
         models.EncoderDecoderModel.bos_id = {bos_id}\n\
         models.EncoderDecoderModel.eos_id = {eos_id}\n\
         {vocabulary}\
         DROPOUT_RATE = {dropout}\n\
         TASK_FEATURE_LENGTHS = {{\"inputs\": {inputs}, \"targets\": {targets}}}\n\n\
         {decoding}",
        bos_id = facts.bos_id,
        vocabulary = vocabulary(&folder, config.vocab_size)?,
        dropout = config.dropout_rate.unwrap_or(0.1),
        inputs = config.n_positions.unwrap_or(INPUTS),
        targets = generation.max_new_tokens.unwrap_or(TARGETS),
        decoding = generation.text,
    ))
}

impl Config {
    /// Returns the lines that bind the network of a T5.
    fn t5(&self, facts: &ConfigFacts, is_tied: bool) -> Result<String, String> {
        Ok(format!(
            "\nnetwork.T5Config:\n  \
             vocab_size = {vocab_size}\n  \
             dtype = '{dtype}'\n  \
             emb_dim = {emb_dim}\n  \
             num_heads = {num_heads}\n  \
             num_encoder_layers = {num_layers}\n  \
             num_decoder_layers = {num_decoder_layers}\n  \
             head_dim = {head_dim}\n  \
             mlp_dim = {mlp_dim}\n  \
             mlp_activations = {activations}\n  \
             layer_norm_epsilon = {epsilon:e}\n  \
             relpos_bias_per_layer = {bias_per_layer}\n  \
             logits_via_embedding = {tied}\n",
            vocab_size = self.vocab_size,
            dtype = self.dtype()?,
            emb_dim = self.d_model,
            num_heads = self.num_heads,
            num_layers = self.num_layers,
            num_decoder_layers = self.num_decoder_layers(),
            head_dim = self.d_kv,
            mlp_dim = self.d_ff,
            activations = Activation::tuple(&facts.mlp_activations),
            epsilon = facts.layer_norm_epsilon,
            bias_per_layer = python_bool(self.model_type.as_deref() == Some("umt5")),
            tied = python_bool(is_tied),
        ))
    }

    /// Returns the lines that bind the network of a LongT5, made of flaxformer's modules.
    fn longt5(&self, facts: &ConfigFacts, is_tied: bool) -> Result<String, String> {
        let (file, tokens) = match self.encoder_attention_type.as_deref() {
            None | Some("local") => ("longt5_1_1_flaxformer", String::new()),
            Some("transient-global") => (
                "longt5_1_1_transient_global_flaxformer",
                format!(
                    "TOKENS_PER_BLOCK = {}\n",
                    self.global_block_size.unwrap_or(TOKENS_PER_BLOCK)
                ),
            ),
            Some(other) => {
                return Err(format!(
                    "its encoder_attention_type is `{other}`, expected local or transient-global"
                ));
            }
        };
        let logits = if is_tied { "None" } else { "@output_logits/dense.DenseGeneral" };
        Ok(format!(
            "from flaxformer.architectures.t5 import t5_architecture\n\
             from flaxformer.components import dense\n\
             from flaxformer.components import layer_norm\n\n\
             include \"flaxformer/t5x/configs/longt5/architectures/{file}.gin\"\n\n\
             models.EncoderDecoderModel.module = %ARCHITECTURE\n\
             NUM_EMBEDDINGS = {vocab_size}\n\
             ACTIVATION_DTYPE = '{dtype}'\n\
             EMBED_DIM = {emb_dim}\n\
             NUM_HEADS = {num_heads}\n\
             NUM_ENCODER_LAYERS = {num_layers}\n\
             NUM_DECODER_LAYERS = {num_decoder_layers}\n\
             HEAD_DIM = {head_dim}\n\
             MLP_DIM = {mlp_dim}\n\
             LOCAL_RADIUS = {radius}\n\
             {tokens}\
             dense.MlpBlock.activations = {activations}\n\
             layer_norm.T5LayerNorm.epsilon = {epsilon:e}\n\
             t5_architecture.Decoder.output_logits_factory = {logits}\n",
            vocab_size = self.vocab_size,
            dtype = self.dtype()?,
            emb_dim = self.d_model,
            num_heads = self.num_heads,
            num_layers = self.num_layers,
            num_decoder_layers = self.num_decoder_layers(),
            head_dim = self.d_kv,
            mlp_dim = self.d_ff,
            radius = self.local_radius.unwrap_or(LOCAL_RADIUS),
            activations = Activation::tuple(&facts.mlp_activations),
            epsilon = facts.layer_norm_epsilon,
        ))
    }

    /// The format of activations: halves become float32, since float16 would overflow in a T5.
    fn dtype(&self) -> Result<&'static str, String> {
        match self.dtype.as_ref().or(self.torch_dtype.as_ref()).map(String::as_str) {
            Some("bfloat16") => Ok("bfloat16"),
            None | Some("float32" | "float16") => Ok("float32"),
            Some(other) => {
                Err(format!("its dtype is `{other}`, expected float32, bfloat16 or float16"))
            }
        }
    }

    fn num_decoder_layers(&self) -> usize {
        self.num_decoder_layers.unwrap_or(self.num_layers)
    }
}

fn python_bool(value: bool) -> &'static str {
    if value { "True" } else { "False" }
}

/// Whether the embedding also maps to logits. The weights say so: transformers 5 calls every T5 tied.
fn is_tied(folder: &Path) -> Result<bool, String> {
    let stored = open(folder, &[&FAMILY]).map_err(|error| error.to_string())?;
    Ok(!stored.leaves().iter().any(|leaf| leaf.name == LOGITS))
}

/// Returns the lines that bind VOCABULARY. A folder without one leaves it to the user.
fn vocabulary(folder: &Path, vocab_size: usize) -> Result<String, String> {
    if let Some(lines) = tokenizer_lines(folder, vocab_size)? {
        return Ok(lines);
    }
    if FAMILY.byte_rows == Some(vocab_size) {
        return Ok(format!(
            "VOCABULARY = @seqio.ByteVocabulary()\nseqio.ByteVocabulary.extra_ids = {BYTE_EXTRA_IDS}\n"
        ));
    }
    let file = folder.join("spiece.model");
    let model = match file.read() {
        Ok(model) => model,
        Err(error) if error.is_not_found() => {
            return Ok(format!(
                "VOCABULARY = %gin.REQUIRED  # there is no tokenizer.json or spiece.model in {folder}: copy the model's \
                 there\n"
            ));
        }
        Err(error) => return Err(error.to_string()),
    };
    let count =
        count_pieces(&model).ok_or_else(|| format!("{file} is not a SentencePiece model"))?;
    // Sentinels that are pieces, or have no row in the embedding, are not added again.
    let has_room = count.num_sentinels == 0 && count.num_pieces + EXTRA_IDS <= vocab_size;
    let extra_ids = if has_room { EXTRA_IDS } else { 0 };
    let file = serde_json::to_string(file.as_str()).expect("a text becomes JSON");
    Ok(format!(
        "VOCABULARY = @seqio.SentencePieceVocabulary()\n\
         seqio.SentencePieceVocabulary:\n  sentencepiece_model_file = {file}\n  extra_ids = {extra_ids}\n"
    ))
}
