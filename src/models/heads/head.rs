//! The linear map from hidden states to logits, and its gradients.

use tch::{Kind, Tensor};

use super::slices::slice_rows;
use crate::nn::autograd::{custom_function, records_gradients};
use crate::nn::bridge::with_tf32;
use crate::nn::fused::kernels::{self, Kernel};
use crate::nn::{Axis, NarrowProduct};

/// The linear map from hidden states to logits, which are float32 for any format of hidden states.
#[derive(Debug)]
pub struct Head {
    /// In the format of activations: `[rows, embed]`
    pub hidden: Tensor,
    /// Float32 `[embed, vocab]`, or some columns of it; for tied embeddings a transposed view of them.
    pub kernel: Tensor,
    /// The addend of logits, float32 `[vocab]`, if there is one.
    pub bias: Option<Tensor>,
    /// The factor of logits, before the bias is added.
    pub scale: f64,
    /// The tokens of those columns.
    pub vocabulary: Vocabulary,
}

/// The tokens whose logits this process computes. The processes along an axis divide all of them, and sums over them
/// are sums over processes too (Shoeybi et al. 2019, arXiv:1909.08053).
#[derive(Clone, Debug)]
pub struct Vocabulary {
    /// The processes.
    pub axis: Axis,
    /// The first token here.
    pub first: i64,
    /// Number of tokens in all.
    pub size: i64,
}

impl Vocabulary {
    /// All of so many tokens.
    pub fn whole(size: i64) -> Self {
        Self { axis: Axis::default(), first: 0, size }
    }

    /// Number of rows whose logits are computed at once.
    pub(super) fn slice_rows(&self) -> i64 {
        slice_rows(self.size as usize, self.axis.size()) as i64
    }
}

impl Head {
    /// The logits, as part of the graph: `[rows, vocab]`.
    pub fn logits(&self) -> Tensor {
        let logits = self.wide_hidden().matmul(&self.kernel);
        match &self.bias {
            Some(bias) => logits + bias,
            None => logits,
        }
    }

    /// Hidden states times the scale, float32 `[rows, embed]`.
    fn wide_hidden(&self) -> Tensor {
        let wide = self.hidden.to_kind(Kind::Float);
        if self.scale == 1.0 { wide } else { wide * self.scale }
    }

    /// The kernel in bfloat16. The only place where it is rounded.
    fn narrow_kernel(&self) -> Tensor {
        self.kernel.to_kind(Kind::BFloat16)
    }
}

/// The products of a head without a graph, some rows at a time.
pub(super) struct HeadProducts<'a> {
    pub(super) head: &'a Head,
    way: Way,
}

enum Way {
    /// In float32, of hidden states times the scale.
    Wide(Tensor),
    /// The same on tensor cores, which keep 11 bits of each factor: all bits of bfloat16 and float16 hidden states.
    TensorFloat(Tensor),
    /// Of bfloat16 hidden states and this kernel: on CUDA bfloat16, as gradients of logits are then; on CPUs float32, with 16
    /// bits of it for logits and 8 of all numbers for gradients.
    Narrow(Tensor),
}

impl<'a> HeadProducts<'a> {
    pub(super) fn new(head: &'a Head) -> Self {
        let Head { hidden, kernel, .. } = head;
        let device = hidden.device();
        let way = match hidden.kind() {
            Kind::BFloat16 if NarrowProduct::suits(device) => Way::Narrow(kernel.shallow_clone()),
            Kind::BFloat16 if kernels::suit(Kernel::HeadProduct, hidden, i64::MAX) => {
                Way::Narrow(head.narrow_kernel())
            }
            Kind::BFloat16 | Kind::Half if device.is_cuda() => Way::TensorFloat(head.wide_hidden()),
            _ => Way::Wide(head.wide_hidden()),
        };
        Self { head, way }
    }

    /// On any device the products that bfloat16 hidden states have on CUDA.
    #[cfg(test)]
    pub(super) fn in_bfloat16(head: &'a Head) -> Self {
        Self { head, way: Way::Narrow(head.narrow_kernel()) }
    }

    /// The format in which gradients of logits are multiplied. [`HeadGradients::add`] casts those of another one.
    pub(super) fn gradient_kind(&self) -> Kind {
        match &self.way {
            Way::Wide(_) | Way::TensorFloat(_) => Kind::Float,
            Way::Narrow(kernel) => kernel.kind(),
        }
    }

    /// The logits of `rows` rows from `start` on: `[rows, vocab]`.
    pub(super) fn logits(&self, start: i64, rows: i64) -> Tensor {
        let mut products = self.products(start, rows);
        match &self.head.bias {
            Some(bias) => products.g_add_(bias),
            None => products,
        }
    }

    fn products(&self, start: i64, rows: i64) -> Tensor {
        let Head { hidden, kernel, scale, .. } = self.head;
        match &self.way {
            Way::Wide(hidden) => hidden.narrow(0, start, rows).matmul(kernel),
            Way::TensorFloat(hidden) => with_tf32(|| hidden.narrow(0, start, rows).matmul(kernel)),
            Way::Narrow(kernel) => {
                let size = [rows, kernel.size()[1]];
                let logits = Tensor::empty(size, (Kind::Float, hidden.device()));
                let first = &hidden.narrow(0, start, rows);
                NarrowProduct { first, second: kernel, scale: *scale, halves: true }
                    .write(&logits, false);
                logits
            }
        }
    }
}

/// Gradients of the head's inputs.
pub(super) struct HeadGradients {
    hidden: Tensor,         // float32 [rows, embed]
    kernel: Option<Tensor>, // unless it is not trained
    bias: Option<Tensor>,   // float32 [vocab]
}

impl HeadGradients {
    /// Returns room for gradients, or `None` if none is needed. Parameters require gradients even under `no_grad`.
    pub(super) fn new(head: &Head) -> Option<Self> {
        let hidden = || Tensor::empty(head.hidden.size(), (Kind::Float, head.hidden.device()));
        let read = [&head.hidden, &head.kernel].into_iter().chain(&head.bias);
        let is_needed = records_gradients() && read.into_iter().any(Tensor::requires_grad);
        is_needed.then(|| Self {
            hidden: hidden(),
            // The first slice of rows writes all of it, if there is one.
            kernel: head.kernel.requires_grad().then(|| match head.hidden.size()[0] {
                0 => head.kernel.zeros_like(),
                _ => head.kernel.empty_like(),
            }),
            bias: head.bias.as_ref().map(Tensor::zeros_like),
        })
    }

    /// Takes the gradient of the logits of the rows from `start` on, which come in order.
    pub(super) fn add(&self, products: &HeadProducts, start: i64, logits: &Tensor) {
        let (rows, kernel) = (logits.size()[0], &products.head.kernel);
        if let Some(bias) = &self.bias {
            let _ = bias.shallow_clone().g_add_(&logits.sum_dim_intlist(0, false, Kind::Float));
        }
        let hidden_gradient = self.hidden.narrow(0, start, rows);
        let is_first = start == 0;
        let multiply = |hidden: &Tensor| {
            let hidden = hidden.narrow(0, start, rows);
            let _ = logits.mm_out(&hidden_gradient, &kernel.tr());
            let _ = self.kernel.as_ref().map(|of_kernel| match is_first {
                true => hidden.tr().mm_out(of_kernel, logits),
                false => of_kernel.shallow_clone().addmm_(&hidden.tr(), logits),
            });
        };
        match &products.way {
            Way::Wide(hidden) => multiply(hidden),
            Way::TensorFloat(hidden) => with_tf32(|| multiply(hidden)),
            Way::Narrow(kernel) => {
                let logits = &logits.to_kind(products.gradient_kind());
                let scale = products.head.scale;
                let write = |first: &Tensor, second: &Tensor, result: &Tensor, add: bool| {
                    NarrowProduct { first, second, scale, halves: false }.write(result, add);
                };
                let hidden = products.head.hidden.narrow(0, start, rows);
                write(logits, &kernel.tr(), &hidden_gradient, false);
                match &self.kernel {
                    None => (),
                    Some(of_kernel) if of_kernel.is_contiguous() => {
                        write(&hidden.tr(), logits, of_kernel, !is_first);
                    }
                    Some(of_kernel) => write(&logits.tr(), &hidden, &of_kernel.tr(), !is_first),
                }
            }
        }
    }

    /// Returns a scalar with these gradients, whose memory the backward pass uses.
    pub(super) fn into_scalar(self, products: &HeadProducts) -> Tensor {
        let head = products.head;
        let scalar = Tensor::zeros([], (Kind::Float, head.hidden.device()));
        let (kind, scale) = match products.way {
            Way::Wide(_) | Way::TensorFloat(_) => (head.hidden.kind(), head.scale),
            Way::Narrow(_) => (head.hidden.kind(), 1.0),
        };
        let Self { mut hidden, mut kernel, mut bias } = self;
        let scaled = move |gradients: Vec<Tensor>| {
            let factor = &gradients[0];
            let of_kernel = kernel.as_mut().map(|kernel| kernel.g_mul_(factor));
            let of_hidden = hidden.g_mul_(&(factor * scale)).to_kind(kind);
            let mut all = vec![of_hidden, of_kernel.unwrap_or_default()];
            all.extend(bias.as_mut().map(|bias| bias.g_mul_(factor)));
            all
        };
        let read: Vec<&Tensor> =
            [&head.hidden, &head.kernel].into_iter().chain(&head.bias).collect();
        custom_function(&read, vec![scalar], scaled).remove(0)
    }
}
