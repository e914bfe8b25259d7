//! The work of a forward pass on one device, by arithmetic alone: products of matrices, attention, and the bytes
//! that everything else reads and writes. `gimlet plan` turns it into seconds.

use super::spec::{StackSpec, TransformerSpec};
use crate::models::contract::memory::StepShape;
use crate::partition::Mesh;

/// Passes over logits in float32, forward and backward: written, read for sums, read for probabilities, and twice for
/// gradients. A pass here is a third of the whole, as for everything else.
const LOGIT_PASSES: f64 = 5.0 / 3.0;
/// Operations of a layer's block beside its products: norm, reshapes, the block's own, residual.
const OPERATIONS_OF_BLOCK: f64 = 8.0;
/// Passes over the activations of an expert's places: tokens are read, moved and laid out by experts, and results back.
const MOVES_OF_PLACE: f64 = 8.0;
/// Operations of a layer's own bias of relative position: product with buckets, window, and sum with the mask.
const OPERATIONS_OF_BIAS: f64 = 3.0;

/// Products of a matrix of `rows` x `inner` numbers with one of `inner` x `columns`, or of equal parts of its rows with
/// several, which experts have.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MatrixProducts {
    /// Tokens.
    pub rows: f64,
    /// Numbers of a token before.
    pub inner: f64,
    /// Numbers of a token after.
    pub columns: f64,
    /// Matrices of `inner` x `columns`.
    pub num_kernels: f64,
    /// Number of such products.
    pub count: f64,
    /// Whether they can be computed in fp8.
    pub is_projection: bool,
}

/// The work of a forward pass over one microbatch.
#[derive(Clone, Debug, PartialEq)]
pub struct ForwardWork {
    /// Products of matrices but those inside attention.
    pub products: Vec<MatrixProducts>,
    /// Floating-point operations of scores and averages.
    pub attention_flops: f64,
    /// Bytes that norms, residuals, activations, dropout and the loss read and write.
    pub stream_bytes: f64,
    /// Operations that a device is told to do.
    pub num_operations: f64,
    /// Bytes of an activation.
    pub size: f64,
}

impl MatrixProducts {
    /// Returns the operations of all of them.
    pub fn flops(&self) -> f64 {
        2.0 * self.count * self.rows * self.inner * self.columns
    }

    /// Returns the numbers that one of them reads and writes.
    pub fn numbers(&self) -> f64 {
        self.rows * (self.inner + self.columns) + self.num_kernels * self.inner * self.columns
    }
}

impl TransformerSpec {
    /// Returns the work of one process of a mesh for a microbatch of that shape.
    pub fn forward_work(&self, shape: &StepShape, mesh: &Mesh) -> ForwardWork {
        let StepShape { rows, parts, .. } = *shape;
        let dims = &self.last.dims;
        let size = dims.dtype.size() as f64;
        let mut work = ForwardWork {
            products: Vec::new(),
            attention_flops: 0.0,
            stream_bytes: 0.0,
            num_operations: 0.0,
            size,
        };
        for (stack, length, encoding) in self.stacks_of(shape) {
            let part = stack.part(mesh.model().size);
            let tokens = Tokens { rows, length, encoding, parts };
            let is_dropped = self.dropout_rate > 0.0;
            work.add_stack(&part, tokens, mesh, is_dropped);
        }
        let vocabulary = self.vocab_size.div_ceil(mesh.model().size) as f64;
        // The head multiplies in the format of activations, and leaves float32.
        let [rows, inner] = [rows * shape.last_length(), dims.emb_dim].map(|number| number as f64);
        work.products.push(MatrixProducts {
            rows,
            inner,
            columns: vocabulary,
            num_kernels: 1.0,
            count: 1.0,
            is_projection: false,
        });
        work.stream_bytes += LOGIT_PASSES * 4.0 * rows * vocabulary;
        work
    }
}

/// The tokens of a stack: rows of one length, beside an encoding of another, in one of several parts of a batch.
#[derive(Clone, Copy)]
struct Tokens {
    rows: usize,
    length: usize,
    encoding: usize,
    parts: usize,
}

impl ForwardWork {
    fn add(&mut self, [rows, inner, columns]: [f64; 3], count: f64) {
        let (num_kernels, is_projection) = (1.0, true);
        self.push(MatrixProducts { rows, inner, columns, num_kernels, count, is_projection });
    }

    fn push(&mut self, products: MatrixProducts) {
        self.num_operations += products.count;
        self.products.push(products);
    }

    fn add_stack(&mut self, stack: &StackSpec, tokens: Tokens, mesh: &Mesh, is_dropped: bool) {
        let (shape, parts) = ((tokens.rows, tokens.length), tokens.parts);
        let [rows, length, encoding] =
            [tokens.rows, tokens.length, tokens.encoding].map(|number| number as f64);
        let (dims, layers) = (&stack.dims, stack.num_layers as f64);
        let [embed, joined] = [dims.emb_dim, dims.joined()].map(|number| number as f64);
        let own = rows * length;
        for attention in stack.attentions {
            let keys = match attention.reads_encoding {
                true => encoding,
                false => stack.reach.num_keys(length),
            };
            match attention.reads_encoding {
                // Queries, keys and values of the same inputs are one product.
                false => {
                    let beside = rows * stack.reach.num_beside(length);
                    self.add([own + beside, embed, 3.0 * joined], layers);
                }
                true => {
                    self.add([own, embed, joined], layers);
                    self.add([rows * keys, embed, 2.0 * joined], layers);
                }
            }
            self.add([own, joined, embed], layers);
            self.attention_flops += layers * 4.0 * rows * length * keys * joined;
        }
        let dropped = if is_dropped { 2.0 } else { 0.0 };
        let mut activated = 0.0;
        for (count, blocks) in stack.layer_kinds() {
            let layers = count as f64;
            for block in blocks {
                let [num_inputs, mlp] = [block.activations.len(), block.dim].map(|n| n as f64);
                let (computed, mut num_kernels) = (block.num_places(shape, parts), 1.0);
                if let Some(experts) = &block.experts {
                    num_kernels = mesh.own_experts(experts.num_experts) as f64;
                    self.add([own, embed, experts.num_experts as f64], layers);
                    activated += layers * MOVES_OF_PLACE * computed * embed;
                }
                // Experts compute in no 8 bits.
                let (rows, is_projection) = (computed, block.experts.is_none());
                for (inner, columns) in [(embed, num_inputs * mlp), (mlp, embed)] {
                    let count = layers;
                    self.push(MatrixProducts {
                        rows,
                        inner,
                        columns,
                        num_kernels,
                        count,
                        is_projection,
                    });
                }
                activated += layers * (num_inputs + 1.0 + dropped) * computed * mlp;
            }
        }
        let blocks = stack.num_blocks() as f64;
        self.num_operations += OPERATIONS_OF_BLOCK * blocks;
        if stack.bias_per_layer {
            self.num_operations += OPERATIONS_OF_BIAS * layers;
        }
        let share = if mesh.splits_length() { mesh.model().size as f64 } else { 1.0 };
        // A norm reads and writes the stream; a residual reads two and writes one.
        let stream = blocks * (5.0 + dropped) * own * embed / share;
        // Embedding and the last norm.
        let ends = 4.0 * own * embed;
        self.stream_bytes += self.size * (stream + activated + ends);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::models::t5::T5Config;
    use crate::partition::{LocalDevice, Partitioner, PjitPartitioner, Process};

    fn work(count: usize) -> ForwardWork {
        let pjit = PjitPartitioner { num_partitions: Some(count), ..Default::default() };
        let process = Process { rank: 0, count };
        let mesh = Mesh::new(&Partitioner::Pjit(pjit), process, LocalDevice::Cpu);
        let shape = StepShape::whole(4, [512, 114]);
        T5Config::t5_1_1_small().transformer().forward_work(&shape, &mesh.expect("it divides"))
    }

    #[test]
    fn the_work_has_the_operations_of_the_model_and_processes_divide_them() {
        let shape = StepShape::whole(4, [512, 114]);
        let flops = |work: &ForwardWork| {
            work.products.iter().map(MatrixProducts::flops).sum::<f64>() + work.attention_flops
        };
        let whole = flops(&work(1));
        let counted = T5Config::t5_1_1_small().transformer().train_step_flops(&shape);
        assert_eq!(3.0 * whole, counted);
        assert!((flops(&work(2)) / whole - 0.5).abs() < 1e-6);
    }
}
