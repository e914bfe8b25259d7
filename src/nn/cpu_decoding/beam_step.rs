//! The part of a beam search's step that does not run the model: the Rust side of `bridge/beam_step.cpp`.

use std::ffi::c_char;

use tch::Tensor;

use crate::nn::autograd::{RawTensor, check, raw};

unsafe extern "C" {
    fn gimlet_best_columns(
        logits: RawTensor,
        count: i64,
        log_probs: RawTensor,
        columns: RawTensor,
    ) -> *mut c_char;
    fn gimlet_reorder_hypotheses(cache: RawTensor, origins: RawTensor, length: i64) -> *mut c_char;
}

/// The most probable columns of each row, the best first.
#[derive(Debug)]
pub struct BestColumns {
    /// Logarithms of probabilities, float32 `[rows, count]`.
    pub log_probs: Tensor,
    /// int64 `[rows, count]`
    pub columns: Tensor,
}

impl BestColumns {
    /// Finds the `count` most probable columns of `logits`, float32 `[rows, columns]`. On a CPU, the first of equal
    /// columns are taken.
    pub fn of(logits: &Tensor, count: i64) -> Self {
        if logits.device().is_cuda() {
            let (numbers, columns) = logits.topk(count, -1, true, true);
            return Self { log_probs: numbers - logits.logsumexp([-1], true), columns };
        }
        let logits = logits.contiguous();
        let (log_probs, columns) = (Tensor::new(), Tensor::new());
        // SAFETY: the tensors outlive the call; the bridge checks their shapes, kinds and devices.
        check(unsafe { gimlet_best_columns(raw(&logits), count, raw(&log_probs), raw(&columns)) });
        Self { log_probs, columns }
    }
}

/// Replaces the first `length` positions of each hypothesis of `cache`, contiguous `[layers, hypotheses, positions,
/// ..]`, by those of the one at its index, int64 `[hypotheses]`. Only hypotheses that change places are copied.
pub fn reorder_hypotheses(cache: &Tensor, indices: &Tensor, length: i64) {
    let indices = indices.contiguous();
    // SAFETY: the tensors outlive the call; the bridge checks their shapes, kinds and devices.
    check(unsafe { gimlet_reorder_hypotheses(raw(cache), raw(&indices), length) });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nn::team::Team;
    use tch::{Device, Kind};

    #[test]
    fn the_best_columns_are_those_of_plain_operations() {
        let _held = crate::nn::GENERATOR.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        tch::manual_seed(8);
        for (rows, columns, count) in [(3, 1000, 8), (1, 7, 7), (5, 33, 1), (2, 40, 20)] {
            for (scale, helpers) in [(1.0, None), (30.0, Some(2))] {
                let _team = helpers.map(Team::with_helpers);
                let logits = Tensor::randn([rows, columns], (Kind::Float, Device::Cpu)) * scale;
                let (numbers, expected) = logits.topk(count, -1, true, true);
                let log_probs = numbers - logits.logsumexp([-1], true);
                let found = BestColumns::of(&logits, count);
                assert_eq!(found.columns, expected, "{rows}, {columns}, {count}");
                assert!(found.log_probs.allclose(&log_probs, 1e-6, 1e-5, false));
            }
        }
    }

    #[test]
    fn of_equal_columns_the_first_are_taken() {
        let logits = Tensor::zeros([1, 40], (Kind::Float, Device::Cpu));
        let largest = [3, 20, 21, 37];
        largest.iter().for_each(|column| drop(logits.narrow(1, *column, 1).fill_(2.0)));
        let found = BestColumns::of(&logits, 6).columns;
        assert_eq!(found, Tensor::from_slice(&[3i64, 20, 21, 37, 0, 1]).view([1, 6]));
    }

    #[test]
    fn hypotheses_change_places_up_to_a_length() {
        for helpers in [None, Some(2)] {
            let _team = helpers.map(Team::with_helpers);
            let cache =
                Tensor::arange(3 * 4 * 5 * 2, (Kind::Float, Device::Cpu)).view([3, 4, 5, 2]);
            let expected = cache.copy();
            let indices = Tensor::from_slice(&[1i64, 0, 2, 0]);
            let moved = cache.index_select(1, &indices).narrow(2, 0, 3);
            expected.narrow(2, 0, 3).copy_(&moved);
            reorder_hypotheses(&cache, &indices, 3);
            assert_eq!(cache, expected);
        }
    }
}
