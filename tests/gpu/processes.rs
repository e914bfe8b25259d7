//! Groups of processes on one GPU: two members by Gloo, which goes through the host's memory, and one alone by NCCL, which
//! refuses two.

use gimlet::nn::bridge::Transport;

use crate::cuda;
use crate::exchanges::check_operations;

#[test]
fn two_members_share_a_device_by_gloo() {
    let (device, _held) = cuda();
    check_operations(2, Transport::Gloo, device);
}

#[test]
fn one_member_exchanges_with_itself_by_nccl() {
    let (device, _held) = cuda();
    check_operations(1, Transport::Nccl, device);
}
