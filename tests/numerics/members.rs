//! Two threads as the processes along an axis, which exchange tensors by Gloo.

use std::sync::Arc;
use std::time::Duration;

use gimlet::models::heads::{Head, LossSpec, Targets, Vocabulary, cross_entropy};
use gimlet::nn::bridge::Transport;
use gimlet::nn::c10d::{Membership, ProcessGroup, Store};
use gimlet::nn::{Axis, Lost, Portion};
use tch::{Device, Kind, Tensor};

/// Runs `work` in both members.
fn both(work: impl Fn(Axis) + Sync) {
    let port = std::net::TcpListener::bind("127.0.0.1:0").and_then(|socket| socket.local_addr());
    let port = port.expect("a free port").port();
    let timeout = Duration::from_secs(60);
    let member = |rank| {
        let store =
            Store::connect(("127.0.0.1", port), rank == 0, "test", timeout).expect("a store");
        let transport = Transport::Gloo;
        let place = Membership { rank, size: 2, transport, is_local: true, timeout };
        let group = ProcessGroup::join(&store, "both", place).expect("the other one comes");
        let lost = Arc::<Lost>::default();
        let axis = Axis::new(rank, Arc::new(group), &lost);
        work(axis.clone());
        assert_eq!(axis.lost(), None);
        // The first member serves the store to the end.
        axis.sum_in_place(&Tensor::zeros([1], (Kind::Float, Device::Cpu)));
    };
    std::thread::scope(|scope| {
        for rank in 0..2 {
            let member = &member;
            scope.spawn(move || member(rank));
        }
    });
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
