//! Compares BERTs of t5-experiments with its own program: t5_experiments.py writes the numbers.

use std::collections::BTreeMap;

use gimlet::metrics::sum;
use gimlet::models::bert::{
    AbsolutePositions, Bert, BertConfig, PositionEmbedding, RelativeAttentionBias, RotaryPositions,
};
use gimlet::models::heads::{LossNormalizingFactor, LossSpec};
use gimlet::models::{Batch, ModuleSpec, Network, feature};
use gimlet::nn::{Activation, BlockGrid, BlockLayout, Dropout, Dtype, Params, RematPolicy};
use serde_json::Value;
use tch::{Kind, Tensor};

use crate::fixture;
use crate::t5_experiments::check;

pub fn expected(name: &str) -> Value {
    let mut all: Value = serde_json::from_str(include_str!("bert.json")).expect("it is JSON");
    all[name].take()
}

/// The network of a configuration of transformers.
pub fn config(of: &Value) -> BertConfig {
    let number = |name: &str| of[name].as_u64().unwrap_or(0) as usize;
    BertConfig {
        vocab_size: number("vocab_size"),
        dtype: Dtype::Float32,
        hidden_size: number("hidden_size"),
        num_hidden_layers: number("num_hidden_layers"),
        num_attention_heads: number("num_attention_heads"),
        intermediate_size: number("intermediate_size"),
        hidden_act: Activation::GeluExact,
        hidden_dropout_prob: 0.0,
        attention_probs_dropout_prob: 0.0,
        max_position_embeddings: number("max_position_embeddings"),
        type_vocab_size: number("type_vocab_size"),
        initializer_range: 0.02,
        layer_norm_eps: 1e-12,
        position_embedding: match of["position_embedding_type"].as_str() {
            Some("rotary") => PositionEmbedding::Rotary(RotaryPositions {
                base: of["rotary_base"].as_f64().expect("a base"),
                dim: Some(number("rotary_dim")),
            }),
            Some("relative_attention_bias") => PositionEmbedding::Relative(RelativeAttentionBias {
                num_buckets: number("relative_attention_num_buckets"),
                last_bucket_distance: number("relative_last_bucket_distance"),
            }),
            _ => PositionEmbedding::Absolute(AbsolutePositions {}),
        },
        pre_layer_norm: of["pre_layer_norm"] == true,
        last_layer_norm: of["last_layer_norm"].as_bool(),
        sparsity: None,
        sparsity_seed: 42,
        remat_policy: RematPolicy::None,
    }
}

/// The blocks that a file lists, if it does: 0 and 1 for each head, block of queries and block of keys.
pub fn layout(of: &Value) -> Option<BlockLayout> {
    let heads: Vec<Vec<Vec<u8>>> = serde_json::from_value(of["layout"].clone()).ok()?;
    let block = of["config"]["sparse_attention"]["block"].as_u64().expect("a number") as usize;
    let grid =
        |head: Vec<Vec<u8>>| BlockGrid::from_fn(head.len(), |row, column| head[row][column] == 1);
    Some(BlockLayout::new(block, heads.into_iter().map(grid).collect()))
}

pub fn batch(of: &Value) -> Batch {
    let rows = |name: &str| {
        let rows: Vec<Vec<i64>> = serde_json::from_value(of[name].clone()).expect("rows of ids");
        fixture::matrix(&rows)
    };
    let labels = rows("labels");
    let order: Vec<i64> = serde_json::from_value(of["next_sentence_label"].clone()).expect("ids");
    Batch::new([
        (feature::ENCODER_INPUT_TOKENS, rows("input_ids")),
        (feature::ENCODER_TOKEN_TYPES, rows("token_type_ids")),
        (feature::ENCODER_TARGET_TOKENS, labels.clamp_min(0)),
        (feature::ENCODER_LOSS_WEIGHTS, labels.ge(0).to_kind(Kind::Float)),
        (feature::NEXT_SENTENCE_LABEL, Tensor::from_slice(&order).unsqueeze(-1)),
    ])
}

pub fn params(name: &str, config: &BertConfig) -> Params {
    fixture::imported(&format!("t5_experiments/{name}.safetensors"), &config.transformer())
}

/// Compares losses, logits and gradients, float32. On one thread, as the program ran.
fn check_model(name: &str, read: impl Fn(&BertConfig) -> Params) {
    // Layers that are made again set the generator's state.
    let _held = fixture::generator();
    tch::set_num_threads(1);
    let expected = expected(name);
    let batch = batch(&expected["batch"]);
    let mean = Some(LossNormalizingFactor::NumRealTargetTokens);
    let spec = LossSpec { loss_normalizing_factor: mean, ..LossSpec::default() };
    for remat_policy in [RematPolicy::None, RematPolicy::Minimal, RematPolicy::Full] {
        let config = BertConfig { remat_policy, ..config(&expected["config"]) };
        let mut spec_of_bert = config.transformer();
        // Its program computes all layers by the blocks of the first one.
        if let Some(layout) = layout(&expected) {
            spec_of_bert.last.layouts = vec![layout; config.num_hidden_layers].into();
        }
        let (bert, params) = (Bert::new(spec_of_bert), read(&config));
        let hidden = bert.encode(&params, &batch, Dropout::off());
        let tokens = batch.tensor(feature::ENCODER_INPUT_TOKENS).view(-1);
        let every = Tensor::arange(tokens.numel() as i64, (Kind::Int64, hidden.device()));
        let is_compared = tokens.gt(0).logical_and(&every.remainder(4).eq(0));
        let places = is_compared.nonzero().view(-1);
        let logits = bert.masked_tokens(&params, &hidden, &places).logits();
        check("logits", &logits, &expected["logits"]);
        let output = bert.loss(&params, &batch, &spec, Dropout::off());
        let sums = output.sums.read();
        for (found, wanted) in [
            (sum::LOSS, "loss"),
            (sum::MASKED_TOKENS_LOSS, "mlm_loss"),
            (sum::NEXT_SENTENCE_LOSS, "nsp_loss"),
        ] {
            let (found, wanted) = (sums.get(found), expected["losses"][wanted].as_f64());
            let wanted = wanted.expect("a number");
            assert!((found / wanted - 1.0).abs() < 1e-6, "{found}, expected {wanted}, {name}");
        }
        let wanted: BTreeMap<String, Value> =
            serde_json::from_value(expected["gradients"].clone()).expect("gradients by name");
        let gradients = params.gradients(&output.loss);
        for ((param, _), found) in params.iter().zip(&gradients) {
            let norm = wanted.get(param).and_then(|wanted| wanted[0].as_f64());
            // Weights do not change by what all keys have in common, unless positions turn it.
            if norm.is_some_and(|norm| norm < 1e-7) {
                let found = found.norm().double_value(&[]);
                assert!(found < 1e-7 && param.ends_with("key/bias"), "{param} of {name}: {found}");
            } else if let Some(wanted) = wanted.get(param) {
                check(&format!("gradient of {param} of {name}, {remat_policy:?}"), found, wanted);
            }
        }
        let unnamed = wanted.keys().filter(|name| params.iter().all(|(param, _)| param != *name));
        assert_eq!(unnamed.collect::<Vec<_>>(), Vec::<&String>::new());
        // Those of a table that its program does not train are not there.
        assert!(wanted.len() + 1 >= gradients.len(), "{} of {}", wanted.len(), gradients.len());
    }
}

#[test]
fn absolute_and_rotary_positions_equal_those_of_t5_experiments() {
    for name in ["bert_absolute", "bert_rotary"] {
        check_model(name, |config| params(name, config));
    }
}

#[test]
fn norms_before_equal_those_of_t5_experiments() {
    check_model("bert_pre_ln_last_ln", |config| params("bert_pre_ln_last_ln", config));
}

/// Parts of a batch may have no masked token, or padding alone.
#[test]
fn a_part_without_masked_tokens_has_no_loss_of_them_and_finite_gradients() {
    let _held = fixture::generator();
    let expected = expected("bert_absolute");
    let config = config(&expected["config"]);
    let (bert, params) = (Bert::new(config.transformer()), params("bert_absolute", &config));
    let real = batch(&expected["batch"]);
    let weights = real.tensor(feature::ENCODER_LOSS_WEIGHTS).zeros_like();
    let ids = real.tensor(feature::ENCODER_INPUT_TOKENS).zeros_like();
    let unmasked = || batch(&expected["batch"]).with(feature::ENCODER_LOSS_WEIGHTS, weights.copy());
    let padded = unmasked().with(feature::ENCODER_INPUT_TOKENS, ids);
    for (part, has_loss) in [(unmasked(), true), (padded, false)] {
        let mut spec = LossSpec {
            loss_normalizing_factor: Some(LossNormalizingFactor::NumRealTargetTokens),
            ..LossSpec::default()
        };
        for divisors in [Default::default(), bert.divisors(&part, &spec)] {
            spec.divisors = divisors;
            let output = bert.loss(&params, &part, &spec, Dropout::off());
            let sums = output.sums.read();
            assert_eq!(sums.get(sum::MASKED_TOKENS_LOSS), 0.0);
            assert_eq!(sums.get(sum::NEXT_SENTENCE_LOSS) > 0.0, has_loss);
            for gradient in params.gradients(&output.loss) {
                assert!(gradient.isfinite().all().int64_value(&[]) == 1);
            }
        }
    }
}

#[test]
fn blocks_of_layouts_equal_those_of_t5_experiments() {
    for name in ["bert_bigbird", "bert_fixed"] {
        check_model(name, |config| params(name, config));
    }
}

/// In packed rows of two examples each, whose positions count from 0 again.
#[test]
fn all_blocks_of_packed_rows_are_attention_without_blocks() {
    let _held = fixture::generator();
    let name = "bert_bigbird";
    let expected = expected(name);
    let (config, batch) = (config(&expected["config"]), batch(&expected["batch"]));
    let tokens = batch.tensor(feature::ENCODER_INPUT_TOKENS);
    let places = Tensor::arange(tokens.size()[1], (Kind::Int64, tokens.device()));
    let begin = 11; // of the second example, within a block
    let real = tokens.gt(0).to_kind(Kind::Int64);
    let segments = (places.ge(begin).to_kind(Kind::Int64) + 1) * &real;
    let positions = (&places - places.ge(begin).to_kind(Kind::Int64) * begin) * &real;
    let batch = batch.with(feature::ENCODER_SEGMENT_IDS, segments);
    let batch = batch.with(feature::ENCODER_POSITIONS, positions);
    let encoded = |layouts: Vec<BlockLayout>| {
        let mut spec = config.transformer();
        spec.last.layouts = layouts.into();
        Bert::new(spec).encode(&params(name, &config), &batch, Dropout::off()) * real.unsqueeze(-1)
    };
    let layout = layout(&expected).expect("it has a layout");
    let all = BlockGrid::from_fn(layout.num_blocks(), |_, _| true);
    let all = BlockLayout::new(layout.block(), vec![all; layout.heads().len()]);
    let of_blocks = |layout| encoded(vec![layout; config.num_hidden_layers]);
    let without = encoded(Vec::new());
    let error = |found: Tensor| (found - &without).abs().max().double_value(&[]);
    let (of_all, of_some) = (error(of_blocks(all)), error(of_blocks(layout)));
    assert!(of_all < 1e-5 && of_some > 1e-3, "{of_all}, {of_some}");
}

/// Its program adds relative biases only where it attends to blocks of positions, here to all of them, and leaves their
/// table without a gradient; the file has the one that it should have.
#[test]
fn relative_biases_equal_those_that_t5_experiments_adds() {
    check_model("bert_relative_sparse", |config| params("bert_relative_sparse", config));
    let name = "bert_relative_dense_dead_bias";
    check_model(name, |config| {
        let read = params(name, config);
        let dead = |name: &str| name.ends_with("rel_embedding");
        Params::from_tensors(read.iter().map(|(name, tensor)| {
            let tensor = tensor.detach();
            (name.to_string(), if dead(name) { tensor.zeros_like() } else { tensor })
        }))
    });
}
