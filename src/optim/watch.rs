//! Measures of the gradients and weights of an update, under T5X's names (`trainer.py`,
//! `WeightMetricsComputer`). They stay on the device until the update is made.

use std::collections::BTreeMap;

use tch::{Kind, Tensor};

use super::norms::root_mean_square;

/// The measures to take of an update.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Watched {
    /// The norm of all gradients together.
    #[default]
    GradientNorm,
    /// Also each weight, its gradient and its change, and the gradients' norms by group.
    Weights,
}

/// The measures of one update.
#[derive(Debug, Default)]
pub struct Watch {
    watched: Watched,
    /// Sums of squares of the gradients, by parameter.
    squares: Vec<(String, Tensor)>,
    /// Scalars by metric.
    metrics: Vec<(String, Tensor)>,
}

impl Watch {
    /// Creates a watch without measures.
    pub fn new(watched: Watched) -> Self {
        Self { watched, ..Self::default() }
    }

    /// Measures a gradient, in float32, before its use; returns the input of [`Watch::after`].
    pub(super) fn before(&mut self, name: &str, param: &Tensor, grad: &Tensor) -> Option<Tensor> {
        let flat = grad.flatten(0, -1);
        self.squares.push((name.to_string(), flat.dot(&flat)));
        if self.watched == Watched::GradientNorm {
            return None;
        }
        self.add("weight_gradient_rms", name, rms(grad));
        Some(param.detach().copy())
    }

    /// Measures an updated parameter; `old` is its earlier value.
    pub(super) fn after(&mut self, name: &str, param: &Tensor, old: Option<Tensor>) {
        let Some(old) = old else { return };
        let (param, old) = (param.detach().to_kind(Kind::Float), old.to_kind(Kind::Float));
        let change = &param - &old;
        self.add("weight_rms", name, rms(&param));
        self.add("weight_max", name, param.abs().max());
        self.add("weight_update_rms", name, rms(&change));
        self.add("weight_update_divided_by_weight_rms", name, rms(&(change / old)));
    }

    fn add(&mut self, metric: &str, name: &str, value: Tensor) {
        self.metrics.push((format!("{metric}/{name}"), value));
    }

    /// Returns every metric by its tag.
    pub fn read(mut self) -> BTreeMap<String, f64> {
        const NORM: &str = "weight_gradient_norm";
        let mut squares = std::mem::take(&mut self.squares);
        // In a fixed order, so that sums do not depend on the order of gradients.
        squares.sort_by(|(a, _), (b, _)| a.cmp(b));
        if squares.is_empty() {
            return BTreeMap::new();
        }
        let values: Vec<Tensor> = squares
            .iter()
            .map(|(_, square)| square.shallow_clone())
            .chain(self.metrics.iter().map(|(_, value)| value.shallow_clone()))
            .collect();
        // One transfer from the device for all.
        let values = Vec::<f64>::try_from(Tensor::stack(&values, 0).to_kind(Kind::Double));
        let values = values.expect("scalars make a vector");
        let (squared, values) = values.split_at(squares.len());
        let tags = self.metrics.into_iter().map(|(tag, _)| tag);
        let mut out: BTreeMap<String, f64> = tags.zip(values.iter().copied()).collect();
        out.insert(NORM.to_string(), squared.iter().sum::<f64>().sqrt());
        if self.watched == Watched::Weights {
            let mut groups: BTreeMap<String, f64> = BTreeMap::new();
            for ((name, _), square) in squares.iter().zip(squared) {
                *groups.entry(group(name)).or_default() += square;
            }
            out.extend(
                groups.into_iter().map(|(group, sum)| (format!("{NORM}/{group}"), sum.sqrt())),
            );
        }
        out
    }
}

/// Returns a stack's layer, such as `encoder/layers_0`, or a part beside the layers.
fn group(name: &str) -> String {
    let parts: Vec<&str> = name.split('/').collect();
    let length = if parts.len() > 2 { 2 } else { 1 };
    parts[..length].join("/")
}

/// The root mean square of all elements.
fn rms(tensor: &Tensor) -> Tensor {
    let dims: Vec<usize> = (0..tensor.dim()).collect();
    root_mean_square(tensor, &dims).flatten(0, -1).get(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_layers_and_what_stands_beside_them() {
        for (name, expected) in [
            ("encoder/layers_0/attention/query/kernel", "encoder/layers_0"),
            ("decoder/decoder_norm/scale", "decoder/decoder_norm"),
            ("token_embedder/embedding", "token_embedder"),
        ] {
            assert_eq!(group(name), expected);
        }
    }

    #[test]
    fn an_update_is_measured_as_t5x_does() {
        let (old, grad) =
            (Tensor::from_slice(&[1.0_f32, 2.0]), Tensor::from_slice(&[3.0_f32, -4.0]));
        let mut param = old.copy();
        let mut watch = Watch::new(Watched::Weights);
        let before = watch.before("encoder/layers_0/kernel", &param, &grad);
        let _ = param.g_sub_(&Tensor::from_slice(&[0.5_f32, -2.0]));
        watch.after("encoder/layers_0/kernel", &param, before);
        let other = Tensor::from_slice(&[12.0_f32]);
        let _ = watch.before("token_embedder/embedding", &other, &other);
        let found = watch.read();
        let half: f64 = 0.5;
        for (tag, expected) in [
            ("weight_gradient_norm", 13.0),
            ("weight_gradient_norm/encoder/layers_0", 5.0),
            ("weight_gradient_norm/token_embedder", 12.0),
            ("weight_gradient_rms/encoder/layers_0/kernel", (25.0 * half).sqrt()),
            ("weight_rms/encoder/layers_0/kernel", ((0.25 + 16.0) * half).sqrt()),
            ("weight_max/encoder/layers_0/kernel", 4.0),
            ("weight_update_rms/encoder/layers_0/kernel", ((0.25 + 4.0) * half).sqrt()),
            (
                "weight_update_divided_by_weight_rms/encoder/layers_0/kernel",
                ((0.25 + 1.0) * half).sqrt(),
            ),
        ] {
            assert!((found[tag] - expected).abs() < 1e-6, "{tag}: {} != {expected}", found[tag]);
        }
    }

    #[test]
    fn the_norm_alone_is_measured_by_default() {
        let grad = Tensor::from_slice(&[3.0_f32, -4.0]);
        let mut watch = Watch::default();
        assert!(watch.before("kernel", &grad, &grad).is_none());
        watch.after("kernel", &grad, None);
        assert_eq!(watch.read(), BTreeMap::from([("weight_gradient_norm".to_string(), 5.0)]));
    }
}
