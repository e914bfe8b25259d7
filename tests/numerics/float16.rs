//! Training in float16 on the CPU, where a run would be refused: with a scale of the loss it stays near float32, and gradients
//! that are not finite leave everything as it is.

use gimlet::checkpoint::LossScaling;
use gimlet::metrics::sum;
use gimlet::models::bert::{Bert, BertConfig};
use gimlet::models::heads::{LossNormalizingFactor, LossSpec};
use gimlet::models::t5::{T5, T5Config};
use gimlet::models::transformer::TransformerSpec;
use gimlet::models::{Batch, ModuleSpec, Network};
use gimlet::nn::{Axes, Dropout, Dtype, Params};
use gimlet::optim::{
    Adafactor, Incoming, LossScale, Optimizer, OptimizerDef, ParamShape, Watch, Watched,
};
use gimlet::session::loss_scaler::LossScaler;
use tch::{Device, Tensor};

use crate::fixture;
use crate::{bert, model};

const UPDATES: i64 = 5;

/// A training of a network.
struct Training<'a> {
    network: &'a dyn Network,
    params: Params,
    optimizer: Optimizer,
    batch: &'a Batch,
    loss: LossSpec,
    updates: i64,
}

impl<'a> Training<'a> {
    fn new(network: &'a dyn Network, spec: &TransformerSpec, of: (&Params, &'a Batch)) -> Self {
        let (params, batch) = of;
        let tree = spec.param_tree();
        let shape =
            |name: &str| &tree.iter().find(|it| it.name == name).expect("it is there").shape;
        let shapes =
            params.iter().map(|(name, _)| ParamShape { name, shape: shape(name), axes: &[] });
        let def = OptimizerDef::from(Adafactor::default());
        let optimizer = Optimizer::new(&def, &shapes.collect::<Vec<_>>(), Device::Cpu);
        let copies = params.iter().map(|(name, it)| (name.to_string(), it.detach().copy()));
        let mean = Some(LossNormalizingFactor::NumRealTargetTokens);
        Self {
            network,
            params: Params::from_tensors(copies.collect::<Vec<_>>()),
            optimizer: optimizer.expect("the rules cover the parameters"),
            batch,
            loss: LossSpec { loss_normalizing_factor: mean, ..LossSpec::default() },
            updates: 0,
        }
    }

    /// Makes a step; returns the loss, the norm of the gradients, and whether there was an update.
    fn step(&mut self, scale: Option<f64>) -> (f64, f64, bool) {
        let output = self.network.loss(&self.params, self.batch, &self.loss, Dropout::off());
        let loss = output.loss * scale.unwrap_or(1.0);
        let scale = scale.map(|scale| LossScale { scale, axes: Axes::default() });
        let incoming = Incoming { loss_scale: scale.as_ref(), ..Incoming::default() };
        let mut watch = Watch::new(Watched::GradientNorm);
        let backward = || loss.backward();
        let step = self.updates;
        let updated =
            self.optimizer.update(&self.params, 0.01, step, &mut watch, incoming, backward);
        let is_updated = updated.expect("a step");
        self.updates += i64::from(is_updated);
        let norm = watch.read().get("weight_gradient_norm").copied().unwrap_or(f64::NAN);
        (output.sums.read().get(sum::LOSS), norm, is_updated)
    }

    /// Copies of all numbers.
    fn state(&self) -> Vec<Tensor> {
        let params = self.params.iter().map(|(_, param)| param.detach().copy());
        params.chain(self.optimizer.arrays().map(|(_, array)| array.copy())).collect()
    }
}

/// Compares losses and norms of gradients of some updates, relative 1e-2. The first step of float16 overflows.
fn check(wide: &dyn Network, half: &dyn Network, spec: &TransformerSpec, of: (&Params, &Batch)) {
    let _held = fixture::generator();
    tch::set_num_threads(1);
    let [mut wide, mut half] = [wide, half].map(|network| Training::new(network, spec, of));
    let scaler = LossScaler::default();
    let mut scaling = LossScaling { scale: Some(scaler.maximum), ..LossScaling::default() };
    let before = half.state();
    // Of gradients that are products of such a number none is finite in float16.
    assert!(!half.step(Some(1e30)).2, "numbers beyond 65504 make no update");
    assert_eq!(half.state(), before);
    assert!(half.params.iter().all(|(_, param)| !param.grad().defined()), "gradients are gone");
    let mut steps = 0;
    while half.updates < UPDATES {
        steps += 1;
        assert!(steps < 30, "the scale falls until there are updates: {scaling:?}");
        let (found, norm, is_updated) = half.step(Some(scaler.scale(&scaling)));
        scaler.see(&mut scaling, is_updated);
        if is_updated {
            let (expected, expected_norm, _) = wide.step(None);
            for (found, expected) in [(found, expected), (norm, expected_norm)] {
                assert!((found / expected - 1.0).abs() < 1e-2, "{found}, expected {expected}");
            }
        }
    }
    assert_eq!(wide.updates, half.updates);
    assert_eq!(half.optimizer.counts().0, UPDATES);
}

#[test]
fn a_t5_trains_as_in_float32() {
    let (t5, params) = fixture::tiny(1);
    let config = T5Config { dtype: Dtype::Float16, ..fixture::tiny_config() };
    let half = T5::new(config.transformer());
    check(&t5, &half, t5.spec(), (&params, &model::two_examples()));
}

#[test]
fn a_bert_trains_as_in_float32_also_with_blocks() {
    for name in ["bert_absolute", "bert_bigbird"] {
        let expected = bert::expected(name);
        let config = bert::config(&expected["config"]);
        let spec = |dtype| {
            let mut spec = BertConfig { dtype, ..config.clone() }.transformer();
            if let Some(layout) = bert::layout(&expected) {
                spec.last.layouts = vec![layout; config.num_hidden_layers].into();
            }
            spec
        };
        let wide = spec(Dtype::Float32);
        let half = Bert::new(spec(Dtype::Float16));
        let params = bert::params(name, &config);
        let batch = bert::batch(&expected["batch"]);
        check(&Bert::new(wide.clone()), &half, &wide, (&params, &batch));
    }
}
