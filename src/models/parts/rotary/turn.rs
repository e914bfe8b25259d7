//! Turning queries and keys.

use tch::{Kind, Tensor};

use super::spec::Rotary;
use crate::nn::Joined;
use crate::nn::profiler::{Activity, part};

impl Rotary {
    /// Turns queries and keys of `projected`, which are queries, keys and values of so many heads, each
    /// `[batch, length, num_heads * head_dim]`.
    pub fn turn(&self, projected: &Joined, num_heads: i64) -> Joined {
        let _part = part(Activity::Attention);
        let parts = projected.parts();
        let [query, key, value] = &parts[..] else { panic!("queries, keys and values") };
        let (cos, sin) = self.angles(query);
        let turned = [query, key].map(|part| self.turned(part, num_heads, (&cos, &sin)));
        let [query, key] = turned;
        Joined::new(vec![query, key, value.contiguous()], 3)
    }

    /// Cosine and sine of the angle of each position and number, `[length, 1, dim]`. A number of the first half and its
    /// counterpart in the second have the same angle, `position / base^(2 i / dim)` for the i-th of them.
    fn angles(&self, like: &Tensor) -> (Tensor, Tensor) {
        let options = (Kind::Float, like.device());
        let half = self.dim as i64 / 2;
        let exponents = Tensor::arange(half, options) * (-2.0 / self.dim as f64);
        let positions = Tensor::arange(like.size()[1], options).view([-1, 1, 1]);
        let angles = (positions * (exponents * self.base.ln()).exp()).repeat([1, 1, 2]);
        (angles.cos().to_kind(like.kind()), angles.sin().to_kind(like.kind()))
    }

    fn turned(&self, part: &Tensor, num_heads: i64, (cos, sin): (&Tensor, &Tensor)) -> Tensor {
        let (batch, length, width) = part.size3().expect("activations are [batch, length, width]");
        let heads = part.view([batch, length, num_heads, width / num_heads]);
        let dim = self.dim as i64;
        let (first, rest) = (heads.narrow(-1, 0, dim), width / num_heads - dim);
        let halves = first.chunk(2, -1);
        let across = Tensor::cat(&[&halves[1].neg(), &halves[0]], -1);
        let turned = &first * cos + across * sin;
        let whole = match rest {
            0 => turned,
            _ => Tensor::cat(&[turned, heads.narrow(-1, dim, rest)], -1),
        };
        whole.reshape([batch, length, width])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tch::Device;

    /// Scores depend on the distance of query and key alone, and lengths stay.
    #[test]
    fn scores_depend_on_distances() {
        let _held = crate::nn::GENERATOR.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let options = (Kind::Float, Device::Cpu);
        let [query, key] = [0, 1].map(|_| Tensor::randn([1, 1, 12], options));
        let all = [&query, &key, &key].map(|part| part.repeat([1, 9, 1]));
        for dim in [6, 4] {
            let rotary = Rotary { dim, base: 100.0 };
            let turned =
                rotary.turn(&Joined::new(all.each_ref().map(Tensor::shallow_clone).into(), 3), 2);
            let parts = turned.parts();
            let scores = parts[0].squeeze().matmul(&parts[1].squeeze().tr());
            let (one, other) =
                (scores.narrow(0, 0, 8).narrow(1, 0, 8), scores.narrow(0, 1, 8).narrow(1, 1, 8));
            assert!(one.allclose(&other, 1e-4, 1e-5, false), "{scores}");
            assert!((scores.get(0).get(0) - scores.get(0).get(5)).abs().double_value(&[]) > 1e-3);
            assert_eq!(parts[2], all[2]);
            let norms = parts[0].square().sum_dim_intlist(-1, false, Kind::Float);
            assert!(norms.allclose(&norms.narrow(1, 0, 1), 1e-5, 1e-5, false));
        }
    }
}
