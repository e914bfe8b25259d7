//! Matrix products by the other library, in every layout that the bridge passes to it or to
//! libtorch.

use gimlet::nn::bridge::{Products, set_products};
use gimlet::nn::cpu::has_avx512;
use tch::{Device, Kind, Tensor};

use crate::fixture;

/// The product in float64.
fn exact(a: &Tensor, b: &Tensor) -> Tensor {
    a.to_kind(Kind::Double).matmul(&b.to_kind(Kind::Double))
}

fn check(found: &Tensor, expected: &Tensor) {
    assert_eq!(found.size(), expected.size());
    let distance = (found.to_kind(Kind::Double) - expected).abs().max().double_value(&[]);
    assert!(distance < 1e-4, "distance {distance}");
}

/// On a CPU without AVX-512 libtorch refuses oneDNN's products, and keeps its own.
fn exchange() {
    set_products(Products { float_by_onednn: has_avx512(), bfloat16_by_mkl: true });
}

fn random(size: &[i64]) -> Tensor {
    Tensor::randn(size, (Kind::Float, Device::Cpu))
}

#[test]
fn every_layout_gives_the_product() {
    let _held = fixture::generator();
    tch::manual_seed(0);
    exchange();
    let (a, b) = (random(&[70, 50]), random(&[50, 90]));
    let (at, bt) = (random(&[50, 70]), random(&[90, 50]));
    for a in [&a, &at.tr()] {
        for b in [&b, &bt.tr()] {
            check(&a.matmul(b), &exact(a, b));
            let out = random(&[70, 90]);
            check(&a.mm_out(&out, b), &exact(a, b));
            let sum = random(&[70, 90]);
            let expected = sum.to_kind(Kind::Double) + exact(a, b);
            check(&sum.shallow_clone().addmm_(a, b), &expected);
            // A transposed result is libtorch's.
            let sum = random(&[90, 70]);
            let expected = sum.tr().to_kind(Kind::Double) + exact(a, b);
            check(&sum.tr().addmm_(a, b), &expected);
        }
    }
    let part = random(&[70, 80]).narrow(1, 10, 50);
    check(&part.matmul(&b), &exact(&part, &b));
    let one = random(&[1, 50]).expand([70, 50], false);
    check(&one.matmul(&b), &exact(&one, &b));
}

#[test]
fn batched_products_too() {
    let _held = fixture::generator();
    tch::manual_seed(0);
    exchange();
    let (a, b) = (random(&[6, 40, 30]), random(&[6, 40, 30]));
    check(&a.matmul(&b.transpose(1, 2)), &exact(&a, &b.transpose(1, 2)));
    check(&a.transpose(1, 2).matmul(&b), &exact(&a.transpose(1, 2), &b));
    let heads = random(&[6, 40, 2, 30]).transpose(1, 2);
    check(&heads.matmul(&heads.transpose(2, 3)), &exact(&heads, &heads.transpose(2, 3)));
    let shared = random(&[1, 30, 40]).expand([6, 30, 40], false);
    check(&a.bmm(&shared), &exact(&a, &shared));
}

#[test]
fn empty_products_and_wrong_shapes_are_libtorch_s() {
    exchange();
    let empty = random(&[0, 50]).matmul(&random(&[50, 3000]));
    assert_eq!(empty.size(), [0, 3000]);
    let zero = random(&[300, 0]).matmul(&random(&[0, 300]));
    assert_eq!(zero.abs().max().double_value(&[]), 0.0);
    let error = random(&[300, 50]).f_mm(&random(&[40, 300])).expect_err("shapes differ");
    assert!(error.to_string().contains("cannot be multiplied"), "{error}");
}

/// Rounded once: within 2^-8 of the product of the factors' values.
#[test]
fn bfloat16_products_round_once() {
    let _held = fixture::generator();
    tch::manual_seed(0);
    exchange();
    let narrow = |size: &[i64]| random(size).to_kind(Kind::BFloat16);
    let check = |a: &Tensor, b: &Tensor| {
        let (found, expected) = (a.matmul(b), exact(a, b));
        assert_eq!(found.kind(), Kind::BFloat16);
        let error = (found.to_kind(Kind::Double) - &expected).abs() / (expected.abs() + 1e-3);
        let largest = error.max().double_value(&[]);
        assert!(largest < 1.0 / 255.0, "relative error {largest}");
    };
    let (a, b) = (narrow(&[70, 50]), narrow(&[50, 90]));
    check(&a, &b);
    check(&narrow(&[50, 70]).tr(), &narrow(&[90, 50]).tr());
    check(&narrow(&[6, 40, 30]), &narrow(&[6, 40, 30]).transpose(1, 2));
}
