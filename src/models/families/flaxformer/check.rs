//! Values of modules that contradict each other, or that describe a network that does not exist here.

use super::components::{Dropout, Embed, T5LayerNorm};
use super::parts::{NetworkParts, StackParts};
use crate::gin::FromGin;
use crate::nn::Dtype;

/// The axes of `[batch, length, embed]` that are the length.
const LENGTH: [&[i64]; 2] = [&[-2], &[1]];

/// A value with the parameter that sets it.
type Named<T> = (String, T);

impl NetworkParts<'_> {
    pub(super) fn check(&self) -> Result<(), String> {
        let embed = self.check_embedding()?;
        self.stacks().try_for_each(StackParts::check)?;
        let one = |name: &str, dtype| (name.to_string(), dtype);
        let dtypes = self.stacks().flat_map(StackParts::dtypes);
        let dtypes = [one("embedding.Embed.dtype", embed.dtype)].into_iter().chain(dtypes);
        let of_prompts = self.prompted.iter().flat_map(|network| network.dtypes());
        // Rows in float32 are turned into the format of the others.
        let dtypes = dtypes.chain(of_prompts.filter(|(_, dtype)| *dtype != Dtype::Float32));
        agree(dtypes, "activations have one format")?;
        self.check_prompts([embed.features, embed.num_embeddings])?;
        agree(self.stacks().flat_map(StackParts::rates), "a network has one dropout")?;
        let splits = self.stacks().flat_map(|stack| &stack.attentions);
        let splits = splits.map(|(_, it)| {
            (format!("{}.split_head_kernel", it.name), it.parameters.split_head_kernel)
        });
        agree(splits, "kernels of all attentions have the same axes")?;
        self.check_scales()?;
        match self.logits {
            None => check_float32(
                "embedding.Embed.attend_dtype",
                embed.attend_dtype.unwrap_or(embed.dtype),
            ),
            Some(logits) => {
                check_float32("dense.DenseGeneral.dtype", logits.dtype)?;
                let rows = ("embedding.Embed.num_embeddings".to_string(), embed.num_embeddings);
                let logits = ("dense.DenseGeneral.features".to_string(), logits.features);
                agree([rows, logits].into_iter(), "each row of the embedding has a logit")
            }
        }
    }
}

impl NetworkParts<'_> {
    /// Finds learned factors that some parts of layers have and others do not.
    fn check_scales(&self) -> Result<(), String> {
        let mut of_attentions = self.stacks().flat_map(|stack| &stack.attentions);
        let mut of_mlps = self.stacks().flat_map(StackParts::mlps);
        let has = of_mlps.next().is_some_and(|mlp| mlp.intermediate_conv.is_some());
        let is_other = |found: bool| found != has;
        let alone = of_attentions
            .any(|(_, it)| it.scales.iter().any(|scale| is_other(scale.is_some())))
            || of_mlps.any(|mlp| is_other(mlp.intermediate_conv.is_some()));
        let has_experts = self.stacks().any(|stack| stack.sparse.is_some());
        match (alone, has && has_experts) {
            (true, _) => Err("some of dense_attention.MultiHeadDotProductAttention.k_conv, v_conv and \
                              dense.MlpBlock.intermediate_conv are None, expected all or none of them"
                .to_string()),
            (false, true) => Err("dense.MlpBlock.intermediate_conv is set in a network with experts, expected None".to_string()),
            (false, false) => Ok(()),
        }
    }

    /// Finds prompts that contradict themselves, in a network of that width and with so many ids.
    fn check_prompts(&self, extents: [usize; 2]) -> Result<(), String> {
        let Some(network) = self.prompted else {
            return match self.stacks().find(|stack| stack.layer_prompt.is_some()) {
                None => Ok(()),
                Some(stack) => Err(format!(
                    "layer_factory of {} is @per_layer.PromptEncoderLayer, and the encoder has no prompt, which those of layers meet, \
                     expected @layers.PromptEncoderDecoder with @layers.PromptEncoder",
                    stack.name
                )),
            };
        };
        let lengths = network.lengths().into_iter();
        agree(lengths, "masks have the length of the prompt (PROMPT_LENGTH)")?;
        let fact = "the first token of an example names its task: use @extended.masks.prompt_encoder_attention_mask with prompts of \
                    several tasks, and set multitask of all masks";
        agree(network.multitask().into_iter(), fact)?;
        network.check_prompts(extents)
    }

    /// Finds an embedding, or attentions to an encoding, that are there without a reader or the reverse.
    fn check_embedding(&self) -> Result<&Embed, String> {
        let (decoder, has_encoder) = (&self.decoder, self.encoder.is_some());
        let wrong = |name: &str, found: &str, expected: &str| {
            Err(format!("{name} is {found}, expected {expected}"))
        };
        let own = format!("{}.token_embedder_factory", decoder.name);
        let attention = format!("encoder_decoder_attention of {}", decoder.name);
        match (self.embed, has_encoder) {
            (None, true) => {
                let name = "EncoderDecoder.shared_token_embedder_factory";
                wrong(name, "None", "@embedding.Embed: both stacks read one embedding")
            }
            (None, false) => wrong(&own, "None", "@embedding.Embed: the decoder has its own"),
            (Some(_), true) if decoder.own_embed.is_some() => {
                wrong(&own, "set", "None: both stacks read one embedding")
            }
            (Some(_), true) if !decoder.reads_encoding => {
                wrong(&attention, "None", "an attention to the encoder's result")
            }
            (Some(_), false) if decoder.reads_encoding => {
                wrong(&attention, "set", "None: there is no encoder")
            }
            (Some(embed), _) => Ok(embed),
        }
    }
}

impl StackParts<'_> {
    fn check(&self) -> Result<(), String> {
        let name = self.name;
        let Some(bias) = self.bias() else {
            return Err(format!(
                "{name} and its layers have no bias of relative position, expected one of them to have it"
            ));
        };
        let sparse = self.sparse.as_ref().map(|sparse| sparse.layer);
        let sparse_bias = sparse.map(|layer| layer.relative_position_bias_factory.is_some());
        if sparse_bias.is_some_and(|has_bias| has_bias != self.own_bias.is_some()) {
            return Err(format!(
                "some layers of {name} have a bias of relative position of their own, expected all or none"
            ));
        }
        self.check_reach()?;
        if self.shared_bias.is_some() && self.own_bias.is_some() {
            return Err(format!(
                "{name} and its layers have a bias of relative position each, expected one of them: set the other to None"
            ));
        }
        let biases = [bias].into_iter().chain(self.side_bias);
        let of_biases =
            biases.map(|it| (format!("{}.num_heads", it.name), it.parameters.num_heads));
        let heads = self
            .attentions
            .iter()
            .map(|(_, it)| (format!("{}.num_heads", it.name), it.parameters.num_heads));
        agree(of_biases.chain(heads), "each head has a bias")?;
        let (first, of_first) = &self.attentions[0];
        if let Some((other, _)) = self.attentions.iter().find(|(_, parts)| parts != of_first) {
            return Err(format!(
                "{first} and {other} differ: attentions of a layer have the same dimensions and initial values"
            ));
        }
        let epsilon =
            |norm: &&T5LayerNorm| ("layer_norm.T5LayerNorm.epsilon".to_string(), norm.epsilon);
        agree(self.norms.iter().map(epsilon), "all norms add the same")?;
        let wrong = |rate: f64, last: f64| last != 0.0 && last != rate;
        let mut mlps = self.mlps();
        if let Some(mlp) =
            mlps.find(|mlp| wrong(mlp.intermediate_dropout_rate, mlp.final_dropout_rate))
        {
            return Err(format!(
                "dense.MlpBlock.final_dropout_rate is {}, expected 0 or intermediate_dropout_rate, {}",
                mlp.final_dropout_rate, mlp.intermediate_dropout_rate
            ));
        }
        if let Some(sparse) = &self.sparse {
            sparse.check(name, self.stack.num_layers, self.mlp)?;
        }
        self.dropouts.iter().try_for_each(|dropout| self.check_axes(dropout, "(-2,)"))?;
        match self.last_dropout.broadcast_dims[..] {
            [] if self.name.ends_with("Encoder") => Ok(()),
            _ => self.check_axes(self.last_dropout, "(-2,)"),
        }
    }

    /// Finds tokens beside the sequence without a bias, or too many of them.
    fn check_reach(&self) -> Result<(), String> {
        match (self.reach.tokens_per_block(), self.side_bias) {
            (Some(_), None) => Err("LongEncoder.shared_side_relpos_bias_factory is None, expected \
                @relative_position_biases_general.RelativePositionBiasesGeneral for the tokens of blocks"
                .to_string()),
            (Some(tokens @ 0..2), _) => Err(format!(
                "EtcTransientGlobalSelfAttention.tokens_per_block is {tokens}, expected 2 or more"
            )),
            _ => Ok(()),
        }
    }

    /// Finds masks of dropout that positions do not share.
    fn check_axes(&self, dropout: &Dropout, expected: &str) -> Result<(), String> {
        let found = &dropout.broadcast_dims[..];
        match dropout.rate == 0.0 || LENGTH.contains(&found) {
            true => Ok(()),
            false => Err(format!(
                "linen.Dropout.broadcast_dims of {} is {found:?}, expected {expected}: positions share a mask",
                self.name
            )),
        }
    }

    fn dtypes(&self) -> Vec<Named<Dtype>> {
        let own = [(format!("{}.dtype", self.name), self.stack.dtype)];
        let mlps = self.mlps().map(|mlp| ("dense.MlpBlock.dtype".to_string(), mlp.dtype));
        let scales = self.mlps().filter_map(|mlp| mlp.intermediate_conv.as_ref());
        let scales = scales.map(|scale| ("ia3.IA3.dtype".to_string(), scale.dtype));
        let of_heads = self.attentions.iter().flat_map(|(_, it)| it.scales.into_iter().flatten());
        let of_heads = of_heads.map(|dtype| ("ia3.IA3Attention.dtype".to_string(), dtype));
        let norms =
            self.norms.iter().map(|norm| ("layer_norm.T5LayerNorm.dtype".to_string(), norm.dtype));
        let attentions = self
            .attentions
            .iter()
            .map(|(_, it)| (format!("{}.dtype", it.name), it.parameters.dtype));
        let biases = self.bias().into_iter().chain(self.side_bias);
        let biases = biases.map(|bias| (format!("{}.dtype", bias.name), bias.parameters.dtype));
        let scales = scales.chain(of_heads);
        own.into_iter()
            .chain(mlps)
            .chain(norms)
            .chain(attentions)
            .chain(biases)
            .chain(scales)
            .collect()
    }

    fn rates(&self) -> Vec<Named<f64>> {
        let dropouts = self.dropouts.iter().chain([&self.last_dropout]);
        let dropouts =
            dropouts.map(|dropout| (format!("linen.Dropout.rate of {}", self.name), dropout.rate));
        let attentions = self
            .attentions
            .iter()
            .map(|(_, it)| (format!("{}.dropout_rate", it.name), it.parameters.dropout_rate));
        let name = "dense.MlpBlock.intermediate_dropout_rate";
        let mlps = self.mlps().map(|mlp| (name.to_string(), mlp.intermediate_dropout_rate));
        dropouts.chain(attentions).chain(mlps).collect()
    }
}

/// Finds values that differ although `fact`.
fn agree<T: PartialEq + FromGin>(
    mut values: impl Iterator<Item = Named<T>>,
    fact: &str,
) -> Result<(), String> {
    let Some((first, expected)) = values.next() else { return Ok(()) };
    let shown = |value: &T| value.to_gin().map(|kind| kind.to_string()).unwrap_or_default();
    match values.find(|(_, found)| *found != expected) {
        Some((name, found)) => Err(format!(
            "{name} is {}, and {first} is {}, expected the same: {fact}",
            shown(&found),
            shown(&expected)
        )),
        None => Ok(()),
    }
}

fn check_float32(name: &str, found: Dtype) -> Result<(), String> {
    match found {
        Dtype::Float32 => Ok(()),
        other => {
            let found = other.as_str();
            Err(format!("{name} is '{found}', expected 'float32', the format of logits"))
        }
    }
}
