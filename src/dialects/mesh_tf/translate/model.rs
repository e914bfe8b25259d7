//! The network, its loss and the vocabularies.

use gimlet_gin::Ref;

use super::given::{Given, Vocabulary};
use super::statements::{Statements, text, valued};
use crate::mesh_tf::read::{Meaning, ModelSpecs};
use crate::mesh_tf::spec::{
    DenseReluDense, GetVariableDtype, LanguageModel, Layer, LayerStack, MakeBitransformer,
    MakeLayerStack, RelativeAttentionType, Run, SelfAttention, Sublayer, SublayerDropout,
    Unitransformer, VariableDtype,
};
use crate::mesh_tf::values::NamedLayer;

/// The library's file for an encoder and a decoder.
const ENCODER_DECODER: &str = "gimlet/mesh_tf/encoder_decoder.gin";
/// The library's file for a decoder alone.
const DECODER_ONLY: &str = "gimlet/mesh_tf/decoder_only.gin";

/// T5X's configurables of the two networks.
const T5: &str = "t5x.examples.t5.network.T5Config";
const DECODER: &str = "t5x.examples.decoder_only.network.TransformerConfig";

/// A stack: its scope, layers and everything around them.
struct Stack<'a> {
    scope: &'a str,
    layers: &'a MakeLayerStack,
    around: &'a Unitransformer,
}

/// Translates the model. Returns the library's file that the statements complete.
pub fn translate(meaning: &Meaning, given: &Given, out: &mut Statements<'_>) -> &'static str {
    match &meaning.model {
        ModelSpecs::Bitransformer(model) => {
            encoder_decoder(model, meaning, given, out);
            ENCODER_DECODER
        }
        ModelSpecs::LanguageModel(model) => {
            decoder_only(model, meaning, given, out);
            DECODER_ONLY
        }
    }
}

fn encoder_decoder(
    model: &MakeBitransformer,
    meaning: &Meaning,
    given: &Given,
    out: &mut Statements<'_>,
) {
    let encoder = Stack { scope: "encoder", layers: &model.encoder_layers, around: &model.encoder };
    let decoder = Stack { scope: "decoder", layers: &model.decoder_layers, around: &model.decoder };
    for (key, stack) in [("num_encoder_layers", &encoder), ("num_decoder_layers", &decoder)] {
        let place = (stack.scope, "num_layers");
        out.bind::<MakeLayerStack>(&format!("{T5}.{key}"), stack.layers.num_layers, place);
    }
    network(T5, &[&encoder, &decoder], meaning, given, out);
    sharing(model, out);
    loss("t5x.models.EncoderDecoderModel", &decoder, out);
    vocabulary("inputs", &given.vocabularies.inputs, "INPUT_VOCABULARY", out);
    vocabulary("targets", &given.vocabularies.targets, "OUTPUT_VOCABULARY", out);
    for stack in [&encoder, &decoder] {
        if stack.around.input_full_attention || stack.around.loss_on_targets_only {
            let parameter = match stack.around.input_full_attention {
                true => "input_full_attention",
                false => "loss_on_targets_only",
            };
            let message =
                format!("`{parameter}` is for a decoder alone, and this model has an encoder");
            out.refuse::<Unitransformer>(
                (stack.scope, parameter),
                message,
                "bind it to False, or `run.model_type = 'lm'`",
            );
        }
    }
}

fn decoder_only(model: &LanguageModel, meaning: &Meaning, given: &Given, out: &mut Statements<'_>) {
    let stack = Stack { scope: "", layers: &model.layers, around: &model.decoder };
    out.bind::<MakeLayerStack>(
        &format!("{DECODER}.num_layers"),
        model.layers.num_layers,
        ("", "num_layers"),
    );
    network(DECODER, &[&stack], meaning, given, out);
    if model.decoder.name != "transformer" {
        let message = format!("the model's variables are named '{}'", model.decoder.name);
        out.refuse::<Unitransformer>(("", "name"), message, "expected 'transformer'");
    }
    let full = model.decoder.input_full_attention;
    for key in [
        "t5x.models.DecoderOnlyModel.inputs_bidirectional_attention".to_string(),
        format!("{DECODER}.bidirectional_position_buckets"),
    ] {
        out.bind::<Unitransformer>(&key, full, ("", "input_full_attention"));
    }
    out.bind::<Unitransformer>(
        "seqio.PrefixLMFeatureConverter.loss_on_targets_only",
        model.decoder.loss_on_targets_only,
        ("", "loss_on_targets_only"),
    );
    loss("t5x.models.DecoderOnlyModel", &stack, out);
    vocabulary("targets", &given.vocabularies.targets, "OUTPUT_VOCABULARY", out);
}

/// Translates the parts that networks have in common.
fn network(
    config: &str,
    stacks: &[&Stack<'_>],
    meaning: &Meaning,
    given: &Given,
    out: &mut Statements<'_>,
) {
    let last = stacks[stacks.len() - 1];
    let scope = last.scope;
    let widths: Vec<_> = stacks
        .iter()
        .map(|it| valued::<Unitransformer, _>(it.scope, "d_model", it.around.d_model))
        .collect();
    let width = out.equal("width", &widths);
    out.bind::<Unitransformer>(&format!("{config}.emb_dim"), width, (scope, "d_model"));
    let dims: Vec<Dims<'_>> = stacks.iter().filter_map(|stack| layers(stack, out)).collect();
    if dims.len() == stacks.len() {
        attention(config, scope, &dims, out);
        feed_forward(config, scope, &dims, out);
        dropout(&dims, stacks, out);
    }
    let tied = last.around.shared_embedding_and_softmax_weights;
    let place = (scope, "shared_embedding_and_softmax_weights");
    out.bind::<Unitransformer>(&format!("{config}.logits_via_embedding"), tied, place);
    let divisor = last.around.vocab_divisor.max(1);
    let sizes = [given.vocabularies.inputs.size, given.vocabularies.targets.size];
    let size = sizes.into_iter().max().unwrap_or_default().next_multiple_of(divisor);
    out.bind::<Unitransformer>(&format!("{config}.vocab_size"), size, (scope, "vocab_divisor"));
    let dtype = match meaning.dtype.activation_dtype {
        Some(VariableDtype::Bfloat16) if given.tpu => "'bfloat16'",
        _ => "'float32'",
    };
    match given.tpu {
        true => out.write::<GetVariableDtype>(
            &format!("{config}.dtype"),
            dtype,
            ("", "activation_dtype"),
        ),
        false => out.write_from("no --tpu", &format!("{config}.dtype"), dtype),
    }
    for stack in stacks {
        positions(stack, out);
        let around = &stack.layers.layer_stack;
        if around.recompute_grads {
            let place = (stack.scope, "recompute_grads");
            out.write::<LayerStack>(&format!("{config}.remat_policy"), "'full'", place);
        }
    }
}

fn positions(stack: &Stack<'_>, out: &mut Statements<'_>) {
    if stack.around.positional_embedding {
        let message = "an embedding of positions is not supported: T5's positions are relative";
        let help = "bind `Unitransformer.positional_embedding = False`; t5's models/bi_v1.gin does";
        out.refuse::<Unitransformer>((stack.scope, "positional_embedding"), message, help);
    }
}

/// The layers of a stack.
struct Dims<'a> {
    scope: &'a str,
    attention: &'a SelfAttention,
    cross: Option<&'a SelfAttention>,
    mlp: &'a DenseReluDense,
    adapter: Option<&'a DenseReluDense>,
}

/// The names of layers that variables may have beside `layer_NNN`. Others are not known to readers of checkpoints.
const NAMES: [(&str, &str); 4] = [
    ("SelfAttention", "self_attention"),
    ("EncDecAttention", "enc_dec_attention"),
    ("DenseReluDense", "dense_relu_dense"),
    ("adapter", "task_adapter"),
];

/// Returns the layers of a stack; other layers than T5's are a mistake.
fn layers<'a>(stack: &Stack<'a>, out: &mut Statements<'_>) -> Option<Dims<'a>> {
    use Layer::{DenseReluDense, EncDecAttention, SelfAttention};
    names(stack, out);
    let found: Vec<&Layer> = stack.layers.layers.iter().map(|layer| &layer.class.0).collect();
    let is_decoder = stack.scope == "decoder";
    let (attention, cross, mlp, rest) = match &found[..] {
        [SelfAttention(own), DenseReluDense(mlp), rest @ ..] if !is_decoder => {
            (own, None, mlp, rest)
        }
        [SelfAttention(own), EncDecAttention(cross), DenseReluDense(mlp), rest @ ..]
            if is_decoder =>
        {
            (own, Some(&cross.base), mlp, rest)
        }
        _ => return other_layers(stack, is_decoder, out),
    };
    let adapter = match rest {
        [] => None,
        [DenseReluDense(adapter)] => Some(adapter),
        _ => return other_layers(stack, is_decoder, out),
    };
    Some(Dims { scope: stack.scope, attention, cross, mlp, adapter })
}

/// Refuses layers.
fn other_layers<T>(stack: &Stack<'_>, is_decoder: bool, out: &mut Statements<'_>) -> Option<T> {
    let expected = match is_decoder {
        true => "SelfAttention, EncDecAttention, DenseReluDense",
        false => "SelfAttention, DenseReluDense",
    };
    let found: Vec<&str> =
        stack.layers.layers.iter().map(|layer| class_name(&layer.class)).collect();
    let message = format!("expected the layers {expected} in a block, found {}", found.join(", "));
    let help = "a second DenseReluDense may follow as a task adapter";
    out.refuse::<MakeLayerStack>((stack.scope, "layers"), message, help);
    None
}

fn class_name(class: &Ref<Layer>) -> &'static str {
    match &class.0 {
        Layer::SelfAttention(_) => "SelfAttention",
        Layer::EncDecAttention(_) => "EncDecAttention",
        Layer::DenseReluDense(_) => "DenseReluDense",
    }
}

/// Refuses names of layers that no checkpoint of T5 has.
fn names(stack: &Stack<'_>, out: &mut Statements<'_>) {
    let layers = &stack.layers.layers;
    for (index, NamedLayer { name, class }) in layers.iter().enumerate() {
        let Some(name) = name else { continue };
        let is_adapter = index + 1 == layers.len()
            && index > 0
            && matches!(layers[index - 1].class.0, Layer::DenseReluDense(_));
        let class = if is_adapter { "adapter" } else { class_name(class) };
        let expected = NAMES.iter().find(|known| known.0 == class).map_or("", |known| known.1);
        if name != expected {
            let message = format!("expected the name '{expected}' for this layer, found '{name}'");
            let help = format!("write ('{expected}', @...), or the class alone");
            out.refuse::<MakeLayerStack>((stack.scope, "layers"), message, help);
        }
    }
}

fn attention(config: &str, scope: &str, dims: &[Dims<'_>], out: &mut Statements<'_>) {
    let both = |value: fn(&SelfAttention) -> u64, parameter: &'static str| {
        let values = dims.iter().flat_map(move |dims| {
            let all = [Some(dims.attention), dims.cross].into_iter().flatten();
            all.map(move |it| valued::<SelfAttention, _>(dims.scope, parameter, value(it)))
        });
        values.collect::<Vec<_>>()
    };
    let heads = out.equal("number of heads", &both(|it| it.num_heads, "num_heads"));
    out.bind::<SelfAttention>(&format!("{config}.num_heads"), heads, (scope, "num_heads"));
    let width = out.equal("width of heads", &both(|it| it.key_value_size, "key_value_size"));
    out.bind::<SelfAttention>(&format!("{config}.head_dim"), width, (scope, "key_value_size"));
    for dims in dims {
        if dims.attention.relative_attention_type != Some(RelativeAttentionType::BiasShared) {
            let place = (dims.scope, "relative_attention_type");
            let message = "attention without relative positions is not supported";
            let help = "bind `SelfAttention.relative_attention_type = 'bias_shared'`; t5's models/bi_v1.gin does";
            out.refuse::<SelfAttention>(place, message, help);
        }
    }
}

fn feed_forward(config: &str, scope: &str, dims: &[Dims<'_>], out: &mut Statements<'_>) {
    let sizes: Vec<_> = dims
        .iter()
        .map(|it| valued::<DenseReluDense, _>(it.scope, "hidden_size", it.mlp.hidden_size))
        .collect();
    let size = out.equal("width of feed-forward layers", &sizes);
    out.bind::<DenseReluDense>(&format!("{config}.mlp_dim"), size, (scope, "hidden_size"));
    let activations: Vec<_> = dims
        .iter()
        .map(|it| valued::<DenseReluDense, _>(it.scope, "activation", text(&it.mlp.activation.0)))
        .collect();
    let activations = out.equal("activation", &activations);
    out.write::<DenseReluDense>(
        &format!("{config}.mlp_activations"),
        &activations,
        (scope, "activation"),
    );
    let adapters: Vec<_> = dims
        .iter()
        .map(|it| {
            let size = it.adapter.map(|adapter| adapter.hidden_size);
            valued::<DenseReluDense, _>("task_adapter", "hidden_size", text(&size))
        })
        .collect();
    let adapter = out.equal("width of task adapters", &adapters);
    if adapter != "None" {
        let place = ("task_adapter", "hidden_size");
        out.write::<DenseReluDense>(&format!("{config}.adapter_dim"), &adapter, place);
    }
}

/// Translates the rates of dropout, which a network has one of.
fn dropout(dims: &[Dims<'_>], stacks: &[&Stack<'_>], out: &mut Statements<'_>) {
    let mut rates = Vec::new();
    for dims in dims {
        rates.push(valued::<SelfAttention, _>(
            dims.scope,
            "dropout_rate",
            dims.attention.dropout_rate,
        ));
        rates.push(valued::<DenseReluDense, _>(dims.scope, "dropout_rate", dims.mlp.dropout_rate));
        rates.extend(dims.adapter.map(|adapter| {
            valued::<DenseReluDense, _>("task_adapter", "dropout_rate", adapter.dropout_rate)
        }));
    }
    for stack in stacks {
        match around(stack) {
            Ok((schema, rate)) => rates.extend(rate.into_iter().map(|rate| match schema {
                Around::Stack => valued::<LayerStack, _>(stack.scope, "dropout_rate", rate),
                Around::Sublayers => valued::<SublayerDropout, _>("", "dropout_rate", rate),
            })),
            Err((parameter, message)) => {
                let help = "t5's own lists are in mesh_tensorflow/transformer/gin/defaults.gin";
                out.refuse::<LayerStack>((stack.scope, parameter), message, help);
            }
        }
    }
    let rate = out.equal("rate of dropout", &rates);
    out.bind::<SelfAttention>("DROPOUT_RATE", rate, (dims[0].scope, "dropout_rate"));
}

/// The source of a stack's dropout.
enum Around {
    /// Parameters of the stack, in older files.
    Stack,
    /// A sublayer.
    Sublayers,
}

/// Returns the rates of dropout around layers; for other sublayers than T5's, the parameter and a message.
fn around(stack: &Stack<'_>) -> Result<(Around, Vec<f64>), (&'static str, String)> {
    let spec = &stack.layers.layer_stack;
    if let (Some(rate), Some(_)) = (spec.dropout_rate, spec.norm_epsilon) {
        return Ok((Around::Stack, vec![rate]));
    }
    let lists = [
        ("sublayers_initial", &spec.sublayers_initial, "dropout"),
        (
            "sublayers_per_layer",
            &spec.sublayers_per_layer,
            "rms_norm, call_layer, dropout, residual",
        ),
        ("sublayers_final", &spec.sublayers_final, "rms_norm, dropout"),
    ];
    let mut rates = Vec::new();
    for (parameter, list, expected) in lists {
        let list = list.as_deref().unwrap_or_default();
        let names: Vec<&str> = list.iter().map(|sublayer| sublayer_name(sublayer)).collect();
        if names.join(", ") != expected {
            let found = if names.is_empty() { "none".to_string() } else { names.join(", ") };
            return Err((
                parameter,
                format!("expected T5's sublayers ({expected}), found {found}"),
            ));
        }
        rates.extend(list.iter().filter_map(|sublayer| match &sublayer.0 {
            Sublayer::Dropout(dropout) => Some(dropout.dropout_rate),
            _ => None,
        }));
    }
    Ok((Around::Sublayers, rates))
}

fn sublayer_name(sublayer: &Sublayer) -> &'static str {
    match sublayer {
        Sublayer::CallLayer(_) => "call_layer",
        Sublayer::RmsNorm(_) => "rms_norm",
        Sublayer::Dropout(_) => "dropout",
        Sublayer::Residual(_) => "residual",
        Sublayer::LegacyDropout(_) => "legacy_dropout",
        Sublayer::LegacyRmsNorm(_) => "legacy_rms_norm",
        Sublayer::LegacyFinalRmsNorm(_) => "legacy_final_rms_norm",
    }
}

/// Translates the sharing of parameters by encoder and decoder.
fn sharing(model: &MakeBitransformer, out: &mut Statements<'_>) {
    let place = ("", "encoder_name");
    match (model.encoder_name.as_str(), model.decoder_name.as_str()) {
        ("encoder", "decoder") => {}
        ("decoder", "decoder") => {
            let unnamed =
                |layers: &MakeLayerStack| layers.layers.iter().any(|it| it.name.is_none());
            if unnamed(&model.encoder_layers) || unnamed(&model.decoder_layers) {
                let message =
                    "an encoder that shares the decoder's variables needs names for its layers";
                let help = "write ('self_attention', @...SelfAttention), as in t5's models/bi_v1_shared.gin";
                out.refuse::<MakeBitransformer>(place, message, help);
            }
            out.bind::<MakeBitransformer>(&format!("{T5}.tie_encoder_decoder"), true, place);
        }
        (encoder, decoder) => {
            let message = format!("the stacks are named '{encoder}' and '{decoder}'");
            let help = "expected 'encoder' and 'decoder', or 'decoder' for both, which then share their parameters";
            let parameter = if decoder == "decoder" { "encoder_name" } else { "decoder_name" };
            out.refuse::<MakeBitransformer>(("", parameter), message, help);
        }
    }
}

fn loss(model: &str, decoder: &Stack<'_>, out: &mut Statements<'_>) {
    out.bind::<Unitransformer>("Z_LOSS", decoder.around.z_loss, (decoder.scope, "z_loss"));
    let factor = match decoder.around.loss_denominator {
        None => "'NUM_TOTAL_TARGET_TOKENS'".to_string(),
        Some(denominator) => text(&denominator),
    };
    let place = (decoder.scope, "loss_denominator");
    out.write::<Unitransformer>(&format!("{model}.loss_normalizing_factor"), &factor, place);
}

/// Binds the vocabulary of a feature, in a scope of that name.
fn vocabulary(feature: &str, vocabulary: &Vocabulary, macro_name: &str, out: &mut Statements<'_>) {
    let Vocabulary { configurable, parameters, .. } = vocabulary;
    let place = out.places.of::<Run>("", "train_dataset_fn");
    let place = place.unwrap_or_else(|| "the task".to_string());
    for (parameter, value) in parameters {
        out.write_from(&place, &format!("{feature}/{configurable}.{parameter}"), value);
    }
    out.write_from(&place, macro_name, &format!("@{feature}/{configurable}()"));
}
