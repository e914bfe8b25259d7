//! Draws the initial values of parameters, with the distributions of `jax.nn.initializers`.

use tch::{Device, Kind, Tensor};

use super::spec::{Distribution, FanMode, Initializer, LayerParts, ParamSpec};

/// Standard deviation of a unit Gaussian cut at two standard deviations.
const TRUNCATED_STDDEV: f64 = 0.879_625_661_034_239_8;
/// `erf(2 / sqrt(2))`: the mass of a Gaussian within two standard deviations.
const TWO_SIGMA_MASS: f64 = 0.954_499_736_103_641_6;

/// Values for `spec` on `device`, float32. Reseeds torch's generators. An array of layers has the values that arrays of
/// their own would have.
pub fn draw(spec: &ParamSpec, seed: u64, device: Device) -> Tensor {
    let one = |name: &str, shape: &[usize], initializer| {
        tch::manual_seed(seed_of(seed, name) as i64);
        draw_one(shape, initializer, device)
    };
    let Some(LayerParts { parts, shape, axis }) = &spec.layers else {
        return one(&spec.name, &spec.shape, spec.initializer);
    };
    let mut inner: Vec<i64> = spec.shape.iter().map(|&extent| extent as i64).collect();
    axis.map(|axis| inner.remove(axis));
    let part = |(name, initializer): &(String, Initializer)| one(name, shape, *initializer);
    let layers: Vec<Tensor> = parts.iter().map(|it| part(it).view(&inner[..])).collect();
    match axis {
        Some(axis) => Tensor::stack(&layers, *axis as i64),
        None => layers[0].shallow_clone(),
    }
}

fn draw_one(shape: &[usize], initializer: Initializer, device: Device) -> Tensor {
    let size: Vec<i64> = shape.iter().map(|&extent| extent as i64).collect();
    let mut values = Tensor::empty(&size, (Kind::Float, device));
    match initializer {
        Initializer::Constant { value } => values.fill_(value),
        Initializer::Normal { stddev } => values.normal_(0.0, stddev),
        Initializer::Uniform { scale } => values.uniform_(0.0, scale),
        Initializer::VarianceScaling { scale, mode, distribution } => {
            let variance = scale / fan(shape, mode).max(1.0);
            draw_with_variance(values, variance, distribution)
        }
    }
}

fn draw_with_variance(mut values: Tensor, variance: f64, distribution: Distribution) -> Tensor {
    match distribution {
        Distribution::Normal => values.normal_(0.0, variance.sqrt()),
        Distribution::Uniform => {
            let bound = (3.0 * variance).sqrt();
            values.uniform_(-bound, bound)
        }
        Distribution::TruncatedNormal => truncated(values, variance.sqrt() / TRUNCATED_STDDEV),
        Distribution::NarrowedTruncatedNormal => truncated(values, variance.sqrt()),
    }
}

/// Draws from a Gaussian that is cut at two standard deviations.
fn truncated(mut values: Tensor, stddev: f64) -> Tensor {
    // The inverse of the distribution function, as jax does.
    let mut unit = values.uniform_(-TWO_SIGMA_MASS, TWO_SIGMA_MASS).erfinv_();
    let bound = 2.0 * stddev;
    unit.g_mul_scalar_(stddev * std::f64::consts::SQRT_2).clamp_(-bound, bound)
}

fn fan(shape: &[usize], mode: FanMode) -> f64 {
    let [.., inputs, outputs] = shape else { return 1.0 };
    match mode {
        FanMode::FanIn => *inputs as f64,
        FanMode::FanAvg => (*inputs + *outputs) as f64 / 2.0,
    }
}

/// FNV-1a over the seed's bytes and the name: stable across builds, unlike std's hashers.
fn seed_of(seed: u64, name: &str) -> u64 {
    let bytes = seed.to_le_bytes().into_iter().chain(name.bytes());
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::super::spec::Dtype;
    use super::*;

    fn spec(name: &str, initializer: Initializer) -> ParamSpec {
        let (shape, axes) = (vec![400, 300], vec!["embed", "mlp"]);
        let (name, dtype) = (name.to_string(), Dtype::Float32);
        ParamSpec { name, shape, axes, initializer, dtype, layers: None }
    }

    fn check(mode: FanMode, distribution: Distribution, stddev: f64, largest: f64) {
        let _held = crate::nn::GENERATOR.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let initializer = Initializer::VarianceScaling { scale: 1.0, mode, distribution };
        let values = draw(&spec("w", initializer), 0, Device::Cpu);
        let found = values.std(false).double_value(&[]);
        assert!((found / stddev - 1.0).abs() < 0.01, "stddev {found}, expected {stddev}");
        let found = values.abs().max().double_value(&[]);
        assert!(found <= largest * 1.000_001, "largest {found}, bound {largest}");
        assert!(found > largest * 0.98, "largest {found}, bound {largest}");
    }

    #[test]
    fn truncated_normal_keeps_its_variance_and_ends_at_two_sigma() {
        let (mode, stddev) = (FanMode::FanIn, 0.05);
        check(mode, Distribution::TruncatedNormal, stddev, 2.0 * stddev / TRUNCATED_STDDEV);
    }

    #[test]
    fn tensorflow_s_truncated_normal_is_narrower() {
        let distribution = Distribution::NarrowedTruncatedNormal;
        check(FanMode::FanIn, distribution, 0.05 * TRUNCATED_STDDEV, 2.0 * 0.05);
    }

    #[test]
    fn uniform_spreads_the_variance_over_the_mean_fan() {
        let stddev = (1.0f64 / 350.0).sqrt();
        check(FanMode::FanAvg, Distribution::Uniform, stddev, stddev * 3f64.sqrt());
    }

    #[test]
    fn a_draw_depends_on_seed_and_name_only() {
        let _held = crate::nn::GENERATOR.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let normal = Initializer::Normal { stddev: 1.0 };
        let first = draw(&spec("a", normal), 7, Device::Cpu);
        let other = draw(&spec("b", normal), 7, Device::Cpu);
        let reseeded = draw(&spec("a", normal), 8, Device::Cpu);
        let again = draw(&spec("a", normal), 7, Device::Cpu);
        assert!(first == again);
        assert!(first != other);
        assert!(first != reseeded);
    }

    /// Checks the first three values and the last one of a draw. Other values would change the start
    /// of every seeded run. A script computed the expected ones in float64 from the definitions of
    /// the Mersenne Twister, of the Box-Muller method and of the inverse error function.
    ///
    /// The tolerance is a few roundings of float32: libtorch's kernels for different CPUs do or do
    /// not fuse products with sums, and approximate logarithms and cosines. Another generator, or
    /// another order of its numbers, changes the first digits.
    fn check_values(shape: &[usize], initializer: Initializer, expected: [f64; 4]) {
        let _held = crate::nn::GENERATOR.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let spec = ParamSpec { shape: shape.to_vec(), ..spec("encoder/wo", initializer) };
        let values = draw(&spec, 7, Device::Cpu).view([-1]);
        assert_eq!(values.kind(), Kind::Float);
        let found = [0, 1, 2, values.numel() as i64 - 1].map(|at| values.double_value(&[at]));
        let is_close = |(found, expected): (&f64, &f64)| (found - expected).abs() <= 2e-6;
        let are_close = found.iter().zip(&expected).all(is_close);
        assert!(are_close, "{initializer:?} of {shape:?}: {found:?} instead of {expected:?}");
    }

    #[test]
    fn initial_values_stay_the_same_in_every_version() {
        assert_eq!(seed_of(7, "encoder/wo"), 3_482_103_597_436_494_025);
        check_values(&[6, 4], Initializer::ONES, [1.0; 4]);
        // libtorch draws Gaussians one by one below 16 values, and in blocks of 16 from there on.
        let normal = Initializer::Normal { stddev: 1.0 };
        check_values(&[5], normal, [-1.507_510_3, -1.270_645_8, -0.360_544_5, -0.734_321_8]);
        check_values(&[6, 4], normal, [-0.695_085_5, -1.325_749_2, -2.343_907_4, 0.419_041_3]);
        let blocks = [-0.695_085_5, -1.325_749_2, -2.343_907_4, 1.495_007_7];
        check_values(&[3, 20, 40], normal, blocks);
        let check_scaled = |mode, distribution, expected| {
            let initializer = Initializer::VarianceScaling { scale: 20.0, mode, distribution };
            check_values(&[3, 20, 40], initializer, expected);
        };
        // The variance is 1 over 20 inputs, and 2/3 over the mean of 20 inputs and 40 outputs.
        let (fan_in, fan_avg) = (FanMode::FanIn, FanMode::FanAvg);
        let (uniform, truncated) = (Distribution::Uniform, Distribution::TruncatedNormal);
        check_scaled(fan_in, Distribution::Normal, blocks);
        check_scaled(fan_in, uniform, [1.130_796_7, 0.293_559_1, 1.670_046_5, -1.206_231_6]);
        check_scaled(fan_in, truncated, [1.004_670_6, 0.232_103_4, 1.992_445_5, -1.095_414_9]);
        check_scaled(fan_avg, truncated, [0.820_310_1, 0.189_511_6, 1.626_824_9, -0.894_402_5]);
    }
}
