//! The norms of a network, of either kind.

use tch::Tensor;

use super::dropout::Dropout;
use super::fused::{RmsNorm, add_and_norm, rms_norm};
use super::profiler::{Activity, part};

/// A norm over the last axis.
#[derive(Debug)]
pub enum Norm {
    /// A root-mean-square norm.
    Rms(RmsNorm),
    /// A layer norm.
    Layer(LayerNorm),
}

/// The parameters of a layer norm.
#[derive(Debug)]
pub struct LayerNorm {
    /// The learned factors, `[embed]`.
    pub scale: Tensor,
    /// The learned addends, `[embed]`.
    pub bias: Tensor,
    /// The addend of the variance.
    pub epsilon: f64,
}

impl Norm {
    /// Normalizes `[.., embed]`, in float32, to the dtype of the inputs.
    pub fn of(&self, inputs: &Tensor) -> Tensor {
        match self {
            Self::Rms(norm) => rms_norm(inputs, norm),
            Self::Layer(norm) => norm.of(inputs),
        }
    }

    /// Returns the sum of the residual stream `[batch, length, embed]` and a branch of that shape, with dropout by
    /// [`Dropout::add_along_length`]; and the norm of it.
    pub fn of_sum(&self, residual: &Tensor, branch: &Tensor, dropout: Dropout) -> (Tensor, Tensor) {
        match self {
            Self::Rms(norm) => add_and_norm(residual, branch, norm, dropout),
            Self::Layer(norm) => {
                let sum = dropout.add_along_length(residual, branch);
                let normal = norm.of(&sum);
                (sum, normal)
            }
        }
    }
}

impl LayerNorm {
    fn of(&self, inputs: &Tensor) -> Tensor {
        let _part = part(Activity::Elementwise);
        let (scale, bias) = (Some(&self.scale), Some(&self.bias));
        // libtorch computes bfloat16 in float32.
        inputs.layer_norm([self.scale.size()[0]], scale, bias, self.epsilon, true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tch::{Device, Kind};

    #[test]
    fn a_layer_norm_has_mean_and_deviation_of_its_parameters() {
        let _held = crate::nn::GENERATOR.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let options = (Kind::Float, Device::Cpu);
        let (scale, bias) = (Tensor::full([64], 3.0, options), Tensor::full([64], 2.0, options));
        let norm = Norm::Layer(LayerNorm { scale, bias, epsilon: 1e-12 });
        let (stream, branch) =
            (Tensor::randn([2, 5, 64], options), Tensor::randn([2, 5, 64], options));
        let (sum, normal) = norm.of_sum(&stream, &branch, Dropout::off());
        assert_eq!(sum, stream + branch);
        assert_eq!(normal, norm.of(&sum));
        let means = normal.mean_dim(-1, false, Kind::Float);
        let deviations = normal.std_dim(-1, false, false);
        assert!(means.allclose(&means.full_like(2.0), 1e-5, 1e-5, false), "{means}");
        assert!(deviations.allclose(&means.full_like(3.0), 1e-5, 1e-5, false), "{deviations}");
    }
}
