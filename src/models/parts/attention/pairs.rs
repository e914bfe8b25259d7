//! Bytes of tensors with a number for each pair of positions: masks of attention, biases of relative position and their
//! gradients. They grow with the square of the length, so that they are most of a step's memory for long rows.
//!
//! On a CPU blocks of scores are computed one after the other (`bridge/attention.cpp`), but a bias and its gradient are tensors
//! of all pairs of a head, which the rows of a batch share. Kernels of CUDA read and write them for each row (`nn::fused`).

use crate::nn::Dtype;
use crate::partition::LocalDevice;

/// A build for CUDA is assumed to run on it, wherever its dry run is made.
const BUILT_FOR_CUDA: bool = cfg!(feature = "cuda");

/// The widest heads of CUDA's kernel without a bias.
const WIDEST_FLASH_HEAD: usize = 128;
/// Bytes of a number in float32.
const WIDE: f64 = 4.0;

/// The attention of all layers of a stack to its own positions or to an encoding.
#[derive(Clone, Copy, Debug)]
pub struct Pairs {
    /// Rows of a microbatch.
    pub rows: f64,
    /// Queries of a row.
    pub queries: f64,
    /// Keys of a row.
    pub keys: f64,
    /// Heads.
    pub heads: f64,
    /// Width of a head.
    pub head_dim: usize,
    /// Format of activations.
    pub dtype: Dtype,
    /// Whether scores are computed in float32, for any format of activations.
    pub float32_logits: bool,
    /// Masks that are made on the way to that of the attention, and it. What the others leave is too small for a bias.
    pub masks: f64,
    /// The learned bias, if there is one.
    pub bias: Option<LearnedBias>,
    /// The kernels that compute it.
    pub kernels: Kernels,
}

/// Biases of relative position.
#[derive(Clone, Copy, Debug)]
pub struct LearnedBias {
    /// Those in memory at once: one that layers share, or one of each layer that is kept.
    pub kept: f64,
    /// Gradients of a bias in memory at once: a layer's, and the sum of those of the layers before it.
    pub gradients: f64,
}

/// The kernels of attention.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kernels {
    /// Those of CPUs, on so many threads.
    OfCpu { threads: usize },
    /// Those of CUDA.
    OfCuda,
}

impl Kernels {
    /// Those of a device; of a CPU on as many threads as libtorch starts here.
    pub fn on(device: LocalDevice) -> Self {
        if BUILT_FOR_CUDA || device != LocalDevice::Cpu {
            return Self::OfCuda;
        }
        let threads = std::env::var("OMP_NUM_THREADS").ok().and_then(|text| text.parse().ok());
        let threads = threads.filter(|count: &usize| *count > 0);
        let cores = || std::thread::available_parallelism().map_or(1, usize::from);
        Self::OfCpu { threads: threads.unwrap_or_else(cores) }
    }
}

impl Pairs {
    /// Bytes from the forward pass of the stack's first layer to its backward pass.
    pub fn kept(&self) -> f64 {
        let of_row = self.queries * self.keys;
        let mask = self.masks * self.rows * of_row;
        let biases = match (self.kernels, self.bias) {
            (Kernels::OfCpu { .. }, bias) => bias.map_or(0.0, |bias| bias.kept * self.heads),
            // Each bias once more with the mask of each row.
            (Kernels::OfCuda, Some(bias)) => bias.kept * self.heads * (1.0 + self.rows),
            // The mask as a bias, which all heads share.
            (Kernels::OfCuda, None) => {
                if self.is_flash() {
                    0.0
                } else {
                    self.rows
                }
            }
        };
        mask + self.size() * of_row * biases
    }

    /// Bytes that a layer keeps beside these.
    pub fn kept_of_layer(&self) -> f64 {
        // Weights, and in their own format those from which they were rounded.
        if self.writes_scores_out() { (WIDE + self.size()) * self.scores() } else { 0.0 }
    }

    /// Bytes beside these in the backward pass of a layer.
    pub fn passing(&self) -> f64 {
        let of_row = self.queries * self.keys;
        let gradients = self.bias.map_or(0.0, |bias| bias.gradients) * self.heads;
        match self.kernels {
            Kernels::OfCpu { threads } => {
                let widened = self.heads * self.bias.map_or(0.0, |_| self.widened());
                of_row * (self.size() * gradients + widened + WIDE * self.sums(threads))
            }
            Kernels::OfCuda if self.writes_scores_out() => {
                3.0 * WIDE * self.scores() + self.size() * of_row * gradients
            }
            Kernels::OfCuda => {
                let of_rows = if self.bias.is_some() { self.rows * self.heads } else { 0.0 };
                self.size() * of_row * (of_rows + gradients)
            }
        }
    }

    /// Scores of all heads and rows.
    fn scores(&self) -> f64 {
        self.rows * self.heads * self.queries * self.keys
    }

    /// Bytes of an activation.
    fn size(&self) -> f64 {
        self.dtype.size() as f64
    }

    /// Bytes of a number of a bias and its gradient in float32, in which CPUs without tiles of bfloat16 compute.
    fn widened(&self) -> f64 {
        if self.dtype == Dtype::Float32 { 0.0 } else { 2.0 * WIDE }
    }

    /// Sums over the batch of a bias' gradient, of one head each: threads that share a head have one each
    /// (`share_out` in `bridge/parallel.cpp`).
    fn sums(&self, threads: usize) -> f64 {
        if self.bias.is_none() {
            return 0.0;
        }
        let (rows, heads) = (self.rows as usize, self.heads as usize);
        let chunk = (rows * heads).div_ceil(threads).max(1);
        let starts = (0..rows * heads).step_by(chunk);
        (heads + starts.filter(|start| !start.is_multiple_of(rows)).count()) as f64
    }

    /// Whether a kernel of CUDA reads no bias.
    fn is_flash(&self) -> bool {
        self.dtype != Dtype::Float32 && self.head_dim <= WIDEST_FLASH_HEAD && !self.float32_logits
    }

    /// Whether no kernel computes the attention.
    fn writes_scores_out(&self) -> bool {
        self.kernels == Kernels::OfCuda && self.float32_logits && self.dtype != Dtype::Float32
    }
}
