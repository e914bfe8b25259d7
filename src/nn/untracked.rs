//! Operations without gradients and without what libtorch notes for them, for predictions.

use std::ffi::c_void;

unsafe extern "C" {
    safe fn gimlet_untrack() -> *mut c_void;
    fn gimlet_track(untracked: *mut c_void);
}

/// Runs `body` as `tch::no_grad` does, and without libtorch's notes of views and versions of tensors: with them an
/// operation on a small tensor takes up to twice as long. A backward pass must not need what `body` writes in place.
pub fn untracked<R>(body: impl FnOnce() -> R) -> R {
    tch::no_grad(|| {
        let _untracked = Untracked(gimlet_untrack());
        body()
    })
}

/// The operations of this thread are untracked for as long as it lives. As a pointer it is not `Send`.
struct Untracked(*mut c_void);

impl Drop for Untracked {
    fn drop(&mut self) {
        // SAFETY: made by `gimlet_untrack` on this thread, and deleted once.
        unsafe { gimlet_track(self.0) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nn::autograd::records_gradients;
    use tch::{Device, Kind, Tensor};

    #[test]
    fn tensors_made_untracked_are_ordinary_ones_and_tracking_goes_on_afterwards() {
        let leaf = Tensor::from_slice(&[2f32, 3.0]).set_requires_grad(true);
        let (made, part) = untracked(|| {
            let made = &leaf * 2.0;
            let part = made.narrow(0, 1, 1);
            part.shallow_clone().copy_(&Tensor::ones([1], (Kind::Float, Device::Cpu)));
            (made, part)
        });
        assert!(!made.requires_grad() && records_gradients());
        assert_eq!(made, Tensor::from_slice(&[4f32, 1.0]));
        let loss = (&leaf * (&made + &part)).sum(Kind::Float);
        loss.backward();
        assert_eq!(leaf.grad(), Tensor::from_slice(&[5f32, 2.0]));
    }
}
