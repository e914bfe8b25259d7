//! Compares Adafactor's kernels with the operations that they replace.

use gimlet::optim::{Adafactor, Gradient, Optimizer, OptimizerDef, ParamShape};
use tch::{Kind, Tensor};

use crate::{Comparison, compare, cuda, random};

/// Returns parameters and states after three updates of all shapes.
fn updated(spec: &Adafactor, shapes: &[Vec<usize>]) -> Vec<Tensor> {
    let (device, axes) = (tch::Device::Cuda(0), ["embed", "mlp"]);
    let names: Vec<String> = (0..shapes.len()).map(|index| format!("p{index}")).collect();
    let named = names.iter().zip(shapes);
    let params: Vec<ParamShape<'_>> =
        named.map(|(name, shape)| ParamShape { name, shape, axes: &axes[..shape.len()] }).collect();
    let mut optimizer =
        Optimizer::new(&OptimizerDef::Adafactor(spec.clone()), &params, device).expect("a layout");
    let sizes: Vec<Vec<i64>> =
        shapes.iter().map(|shape| shape.iter().map(|&extent| extent as i64).collect()).collect();
    let tensors: Vec<Tensor> = sizes.iter().map(|size| random(size, Kind::Float) * 0.1).collect();
    for step in 0..3 {
        let grads: Vec<Tensor> =
            sizes.iter().map(|size| random(size, Kind::Float) * 0.01).collect();
        let gradients: Vec<Gradient<'_>> = names
            .iter()
            .zip(tensors.iter().zip(&grads))
            .map(|(name, (param, grad))| Gradient { name, param, grad })
            .collect();
        optimizer.apply(&gradients, 0.01, step).expect("an update");
    }
    let states: Vec<Tensor> = optimizer
        .arrays()
        .map(|(_, array)| array.copy())
        .filter(|array| array.numel() > 1)
        .collect();
    tensors.into_iter().chain(states).collect()
}

#[test]
fn adafactor_of_matrices_and_vectors() {
    let (_device, _held) = cuda();
    let shapes: Vec<Vec<usize>> = [
        vec![8],
        vec![1024],
        vec![16384],
        vec![12, 32],
        vec![128, 128],
        vec![512, 1024],
        vec![2816, 1024],
        vec![1031, 520],
        vec![32128, 512],
    ]
    .into();
    let plain = Adafactor::default();
    let others = [
        Adafactor { clipping_threshold: None, max_parameter_scale: Some(0.05), ..plain.clone() },
        Adafactor {
            multiply_by_parameter_scale: false,
            weight_decay_rate: Some(0.1),
            ..plain.clone()
        },
    ];
    for spec in others.iter().chain([&plain]) {
        let kernels = &["adafactor_matrix", "adafactor_vector"];
        let comparison = Comparison { what: "adafactor", kernels, tolerance: 1e-5 };
        compare(&comparison, || updated(spec, &shapes));
    }
}
