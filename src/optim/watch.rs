//! Measures of the gradients and weights of an update, under T5X's names (`trainer.py`,
//! `WeightMetricsComputer`). They stay on the device until the update is made.

use std::collections::BTreeMap;

use tch::{Kind, Tensor};

use super::norms::square_sum;
use super::parts::OwnPart;
use crate::nn::Axes;

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
    /// For each metric that is a root mean square: its tag, the sum of squares on the device, and the number of squares.
    means: Vec<(String, Tensor, f64)>,
    /// Greatest elements by metric.
    greatest: Vec<(String, Tensor)>,
    /// The processes with other parts of parameters.
    peers: Axes,
}

impl Watch {
    /// Creates a watch without measures.
    pub fn new(watched: Watched) -> Self {
        Self { watched, ..Self::default() }
    }

    /// Takes the sum of squares of the part of a gradient, a scalar.
    pub(super) fn gradient(&mut self, name: &str, squares: Tensor, part: &OwnPart) {
        self.peers = part.peers().clone();
        let squares = part.shared(squares);
        if self.watched == Watched::Weights {
            let mean = format!("weight_gradient_rms/{name}");
            self.means.push((mean, squares.shallow_clone(), part.numel()));
        }
        self.squares.push((name.to_string(), squares));
    }

    /// Returns the input of [`Watch::after`] for a parameter before its update.
    pub(super) fn before(&self, param: &Tensor) -> Option<Tensor> {
        (self.watched == Watched::Weights).then(|| param.detach().copy())
    }

    /// Measures the part of an updated parameter; `old` is its earlier value.
    pub(super) fn after(
        &mut self,
        name: &str,
        param: &Tensor,
        old: Option<Tensor>,
        part: &OwnPart,
    ) {
        let Some(old) = old else { return };
        let (param, old) = (param.detach().to_kind(Kind::Float), old.to_kind(Kind::Float));
        let change = &param - &old;
        self.mean("weight_rms", name, &param, part);
        self.greatest.push((format!("weight_max/{name}"), param.abs().max()));
        self.mean("weight_update_rms", name, &change, part);
        self.mean("weight_update_divided_by_weight_rms", name, &(change / old), part);
    }

    fn mean(&mut self, metric: &str, name: &str, of: &Tensor, part: &OwnPart) {
        let squares = part.shared(square_sum(of));
        self.means.push((format!("{metric}/{name}"), squares, part.numel()));
    }

    /// Returns every metric by its tag.
    pub fn read(&self) -> BTreeMap<String, f64> {
        const NORM: &str = "weight_gradient_norm";
        // In a fixed order, so that sums do not depend on the order of gradients, and processes agree on it.
        let squares = sorted(&self.squares, |(name, _)| name);
        let means = sorted(&self.means, |(tag, ..)| tag);
        let greatest = sorted(&self.greatest, |(tag, _)| tag);
        if squares.is_empty() {
            return BTreeMap::new();
        }
        let all_sums = squares.iter().map(|(_, square)| square);
        let sums = self.values(all_sums.chain(means.iter().map(|(_, sum, _)| sum)), false);
        let (squared, sums) = sums.split_at(squares.len());
        let means = means.iter().zip(sums);
        let mut out: BTreeMap<String, f64> =
            means.map(|((tag, _, count), sum)| (tag.clone(), (sum / count).sqrt())).collect();
        let values = self.values(greatest.iter().map(|(_, value)| value), true);
        out.extend(greatest.iter().map(|(tag, _)| tag.clone()).zip(values));
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

    /// Returns scalars added up over the processes, or the greatest, in one transfer from the device for all.
    fn values<'a>(&self, scalars: impl Iterator<Item = &'a Tensor>, greatest: bool) -> Vec<f64> {
        let scalars: Vec<Tensor> = scalars.map(Tensor::shallow_clone).collect();
        if scalars.is_empty() {
            return Vec::new();
        }
        let values = Tensor::stack(&scalars, 0).to_kind(Kind::Double);
        match greatest {
            true => self.peers.max_in_place(&values),
            false => self.peers.sum_in_place(&values),
        }
        Vec::try_from(values).expect("scalars make a vector")
    }
}

fn sorted<T>(measures: &[T], name: impl Fn(&T) -> &String) -> Vec<&T> {
    let mut sorted: Vec<&T> = measures.iter().collect();
    sorted.sort_by(|a, b| name(a).cmp(name(b)));
    sorted
}

/// Returns a stack's layer, such as `encoder/layers_0`, or a part beside the layers.
fn group(name: &str) -> String {
    let parts: Vec<&str> = name.split('/').collect();
    let length = if parts.len() > 2 { 2 } else { 1 };
    parts[..length].join("/")
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
        let before = watch.before(&param);
        watch.gradient("encoder/layers_0/kernel", grad.dot(&grad), &OwnPart::whole(&[2]));
        let _ = param.g_sub_(&Tensor::from_slice(&[0.5_f32, -2.0]));
        watch.after("encoder/layers_0/kernel", &param, before, &OwnPart::whole(&[2]));
        let other = Tensor::from_slice(&[12.0_f32]);
        watch.gradient("token_embedder/embedding", other.dot(&other), &OwnPart::whole(&[1]));
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
        assert!(watch.before(&grad).is_none());
        watch.gradient("kernel", grad.dot(&grad), &OwnPart::whole(&[2]));
        watch.after("kernel", &grad, None, &OwnPart::whole(&[2]));
        assert_eq!(watch.read(), BTreeMap::from([("weight_gradient_norm".to_string(), 5.0)]));
    }
}
