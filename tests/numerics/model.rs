//! Compares the T5 network with Hugging Face's, and with itself: packed, in bfloat16, with dropout.

use gimlet::metrics::sum;
use gimlet::models::heads::{LossNormalizingFactor, LossSpec};
use gimlet::models::t5::{T5, T5Config};
use gimlet::models::{Batch, Network};
use gimlet::nn::{Dropout, Dtype};
use tch::{Kind, Tensor};

use crate::fixture;

/// Compares the loss with Hugging Face's, float32, within 1e-5, and gradients within 2e-5 of the tensor's norm, of which
/// products of AVX-512 need half. On one thread: the order of sums over several threads is random, which changes small
/// gradients with cancelling terms by as much.
fn check_against_hugging_face(name: &str) {
    tch::set_num_threads(1);
    let expected = fixture::hugging_face(name);
    let mean = Some(LossNormalizingFactor::NumRealTargetTokens);
    let spec = LossSpec { loss_normalizing_factor: mean, ..LossSpec::default() };
    let output = expected.t5.loss(&expected.params, &expected.batch, &spec, Dropout::off());
    let loss = output.sums.read().get(sum::LOSS);
    assert!((loss / expected.loss - 1.0).abs() < 1e-5, "loss {loss}, expected {}", expected.loss);
    let found = expected.params.gradients(&output.loss);
    for (((name, _), found), wanted) in expected.params.iter().zip(&found).zip(&expected.gradients)
    {
        let error = relative_error(found, wanted);
        assert!(error < 2e-5, "gradient of {name}: relative error {error}");
    }
}

#[test]
fn tied_relu_equals_hugging_face() {
    check_against_hugging_face("hf_tied_relu");
}

#[test]
fn untied_gated_gelu_equals_hugging_face() {
    check_against_hugging_face("hf_untied_gated_gelu");
}

#[test]
fn a_bias_per_layer_has_loss_and_gradients_of_hugging_face() {
    check_against_hugging_face("hf_umt5");
}

#[test]
fn local_attention_has_loss_and_gradients_of_hugging_face() {
    check_against_hugging_face("hf_longt5_local");
}

#[test]
fn transient_global_attention_has_loss_and_gradients_of_hugging_face() {
    check_against_hugging_face("hf_longt5_transient_global");
}

/// The loss and norms of gradients, float32, within 2e-5: flaxformer's are float32 too.
#[test]
fn packed_rows_of_longt5_have_loss_and_gradients_of_flaxformer() {
    tch::set_num_threads(1);
    for kind in ["longt5_local", "longt5_transient_global"] {
        let model = fixture::hugging_face(&format!("hf_{kind}"));
        let expected = fixture::packed(&format!("flaxformer_{kind}"));
        let mean = Some(LossNormalizingFactor::NumRealTargetTokens);
        let spec = LossSpec { loss_normalizing_factor: mean, ..LossSpec::default() };
        let output = model.t5.loss(&model.params, &expected.batch, &spec, Dropout::off());
        let loss = output.sums.read().get(sum::LOSS);
        assert!((loss / expected.loss - 1.0).abs() < 2e-6, "{loss}, expected {}", expected.loss);
        let found = model.params.gradients(&output.loss);
        for ((name, _), found) in model.params.iter().zip(&found) {
            let (found, wanted) = (found.norm().double_value(&[]), expected.norms[name]);
            assert!(
                (found / wanted - 1.0).abs() < 2e-5,
                "{kind}, {name}: {found}, expected {wanted}"
            );
        }
    }
}

#[test]
fn a_model_that_transformers_saved_is_imported_with_its_loss() {
    let name = "hf_untied_gated_gelu";
    let expected = fixture::hugging_face(name);
    let params = fixture::imported(name, expected.t5.spec());
    let mean = Some(LossNormalizingFactor::NumRealTargetTokens);
    let spec = LossSpec { loss_normalizing_factor: mean, ..LossSpec::default() };
    let loss = expected
        .t5
        .loss(&params, &expected.batch, &spec, Dropout::off())
        .sums
        .read()
        .get(sum::LOSS);
    assert!((loss / expected.loss - 1.0).abs() < 1e-5, "loss {loss}, expected {}", expected.loss);
}

#[test]
fn packed_examples_do_not_see_each_other() {
    let (t5, params) = fixture::tiny(1);
    let apart = two_examples();
    let packed = fixture::pack(&apart, [6, 4], [3, 5]);
    let logits = t5.logits(&params, &apart, Dropout::off());
    let alone = Tensor::cat(&[logits.get(0).narrow(0, 0, 3), logits.get(1).narrow(0, 0, 5)], 0);
    let together = t5.logits(&params, &packed, Dropout::off()).squeeze_dim(0);
    assert!(relative_error(&together, &alone) < 1e-5);
    let sums = t5.loss(&params, &packed, &LossSpec::default(), Dropout::off()).sums.read();
    let apart = t5.loss(&params, &apart, &LossSpec::default(), Dropout::off()).sums.read();
    assert!((sums.get(sum::LOSS) / apart.get(sum::LOSS) - 1.0).abs() < 1e-5);
    let examples: Vec<f64> = sums.features.iter().map(|feature| feature.num_examples).collect();
    assert_eq!(examples, [2.0, 2.0]);
}

#[test]
fn bfloat16_activations_stay_near_float32() {
    let (t5, params) = fixture::tiny(1);
    let batch = two_examples();
    let wide = gradients(&t5, &params, &batch);
    let config = T5Config { dtype: Dtype::Bfloat16, ..fixture::tiny_config() };
    let narrow = gradients(&T5::new(config.transformer()), &params, &batch);
    for (wide, narrow) in wide.iter().zip(&narrow) {
        assert_eq!(narrow.kind(), Kind::Float, "gradients of float32 parameters are float32");
        let error = relative_error(narrow, wide);
        assert!(error < 0.05, "relative error {error}");
    }
}

#[test]
fn dropout_follows_the_seed() {
    let (t5, params) = fixture::tiny(1);
    let batch = two_examples();
    let _held = fixture::generator();
    let logits = |seed| {
        tch::manual_seed(seed);
        t5.logits(&params, &batch, t5.dropout())
    };
    assert!(logits(3) == logits(3));
    assert!(logits(3) != logits(4));
}

fn gradients(t5: &T5, params: &gimlet::nn::Params, batch: &Batch) -> Vec<Tensor> {
    let output = t5.loss(params, batch, &LossSpec::default(), Dropout::off());
    params.gradients(&output.loss)
}

pub fn two_examples() -> Batch {
    let inputs = [vec![5, 9, 3, 7, 12, 1], vec![4, 4, 8, 1, 0, 0]];
    let targets = [vec![6, 2, 1, 0, 0], vec![3, 17, 5, 2, 1]];
    fixture::batch(&inputs, &targets)
}

/// Distance over the norm of the second.
fn relative_error(found: &Tensor, expected: &Tensor) -> f64 {
    let distance = (found.to_kind(Kind::Double) - expected.to_kind(Kind::Double)).norm();
    (distance / expected.to_kind(Kind::Double).norm()).double_value(&[])
}
