//! Threads as the processes of a group, and every operation of a group, on tensors of any device.

use std::sync::Arc;
use std::time::Duration;

use gimlet::nn::bridge::Transport;
use gimlet::nn::c10d::{Membership, ProcessGroup, Reduce, Store};
use tch::{Device, Kind, Tensor};

/// Runs `work` in the members of a group of that size, each with its number.
pub fn members(size: usize, transport: Transport, work: impl Fn(Arc<ProcessGroup>, usize) + Sync) {
    let port = std::net::TcpListener::bind("127.0.0.1:0").and_then(|socket| socket.local_addr());
    let port = port.expect("a free port").port();
    let timeout = Duration::from_secs(60);
    let member = |rank| {
        let store =
            Store::connect(("127.0.0.1", port), rank == 0, "test", timeout).expect("a store");
        let place = Membership { rank, size, transport, is_local: true, timeout };
        let group = ProcessGroup::join(&store, "all", place).expect("the others come");
        work(Arc::new(group), rank);
        // The first member serves the store to the end.
        store.set(&format!("ended/{rank}"), b"").expect("it is served");
        if rank == 0 {
            (0..size).for_each(|other| drop(store.get(&format!("ended/{other}"), timeout)));
        }
    };
    std::thread::scope(|scope| {
        for rank in 0..size {
            let member = &member;
            scope.spawn(move || member(rank));
        }
    });
}

/// Checks every operation of a group, in both formats of gradients.
pub fn check_operations(size: usize, transport: Transport, device: Device) {
    members(size, transport, |group, rank| {
        for kind in [Kind::Float, Kind::BFloat16] {
            check_member(&group, rank as i64, (kind, device));
        }
        assert_eq!(group.check(), Ok(()));
        assert!(group.waited().expect("the device answers") >= 0.0);
    });
}

fn check_member(group: &ProcessGroup, rank: i64, options: (Kind, Device)) {
    let size = group.size() as i64;
    // Small integers have no rounding in either format.
    let of = |rank: i64| Tensor::arange(3 * size, options).view([size, 3]) * (rank + 1);
    let all: Vec<Tensor> = (0..size).map(of).collect();
    let sum = Tensor::stack(&all, 0).sum_dim_intlist(0, false, options.0);
    let own = of(rank);
    let summed = own.copy();
    group.all_reduce(&summed, Reduce::Sum).and_then(|work| work.wait()).expect("a sum");
    assert_eq!(summed, sum);
    let greatest = own.copy();
    group.all_reduce(&greatest, Reduce::Max).and_then(|work| work.wait()).expect("a maximum");
    assert_eq!(greatest, of(size - 1));
    let part = Tensor::zeros([3], options);
    group.reduce_scatter(&own, &part).and_then(|work| work.wait()).expect("parts of a sum");
    assert_eq!(part, sum.get(rank));
    let whole = Tensor::zeros([size, 3], options);
    group.all_gather(&own.narrow(0, 0, 1), &whole).and_then(|work| work.wait()).expect("all parts");
    assert_eq!(whole, Tensor::stack(&all.iter().map(|of| of.get(0)).collect::<Vec<_>>(), 0));
    let received = Tensor::zeros([size, 3], options);
    group.all_to_all(&own, &received).and_then(|work| work.wait()).expect("an exchange");
    assert_eq!(received, Tensor::stack(&all.iter().map(|of| of.get(rank)).collect::<Vec<_>>(), 0));
    let last = own.copy();
    let root = group.size() - 1;
    group.broadcast(&last, root).and_then(|work| work.wait()).expect("the last member's");
    assert_eq!(last, of(size - 1));
}
