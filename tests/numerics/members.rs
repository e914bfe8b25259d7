//! Two threads as the processes along an axis, which exchange tensors by Gloo.

use std::sync::Arc;

use gimlet::models::heads::{Head, LossSpec, Targets, Vocabulary, cross_entropy};
use gimlet::nn::bridge::Transport;
use gimlet::nn::{Axis, Lost, Portion};
use tch::{Device, Kind, Tensor};

use crate::exchanges::{check_operations, members};

/// Runs `work` in both members.
fn both(work: impl Fn(Axis) + Sync) {
    members(2, Transport::Gloo, |group, rank| {
        let axis = Axis::new(rank, group, &Arc::<Lost>::default());
        work(axis.clone());
        assert_eq!(axis.lost(), None);
    });
}

#[test]
fn operations_of_groups_give_every_member_its_part() {
    check_operations(1, Transport::Gloo, Device::Cpu);
    check_operations(3, Transport::Gloo, Device::Cpu);
}

/// Checks a tensor of six million elements, which is exchanged in two pieces.
fn check_pieces(size: [i64; 2], dim: usize) {
    both(|axis| {
        let whole = Tensor::arange(size[0] * size[1], (Kind::Float, Device::Cpu)).view(size);
        let extent = size[dim];
        let portion = |tensor: Tensor| Portion { tensor, dim, extent };
        let first = (extent + 1) / 2;
        let (start, length) = [(0, first), (first, extent - first)][axis.index()];
        let part = whole.narrow(dim as i64, start, length);
        let gathered = axis.gather_all(&[portion(part.shallow_clone())]).remove(0);
        assert!(gathered == whole);
        let summed = axis.sum_parts(&[portion(whole.shallow_clone())]).remove(0);
        assert!(summed == part * 2.0);
    });
}

#[test]
fn large_tensors_are_exchanged_in_pieces() {
    check_pieces([7, 1 << 20], 1);
    check_pieces([7, 1 << 20], 0);
}

#[test]
fn of_equal_logits_the_first_counts_whichever_process_has_it() {
    both(|axis| {
        let columns = [[1.0f32, 2.0], [2.0, 2.0]][axis.index()];
        let head = Head {
            hidden: Tensor::ones([4, 1], (Kind::Float, Device::Cpu)),
            kernel: Tensor::from_slice(&columns).view([1, 2]),
            bias: None,
            scale: 1.0,
            vocabulary: Vocabulary { first: 2 * axis.index() as i64, axis, size: 4 },
        };
        let targets = Targets {
            tokens: Tensor::from_slice(&[0i64, 1, 2, 3]),
            coefficients: Tensor::ones([4], (Kind::Float, Device::Cpu)),
        };
        let (losses, _) = cross_entropy(&head, &targets, &LossSpec::default());
        assert_eq!(losses.correct, Tensor::from_slice(&[0.0f32, 1.0, 0.0, 0.0]));
    });
}
