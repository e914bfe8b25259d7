//! The work of a forward pass through the whole network on one device, by arithmetic alone.

use super::spec::{StackSpec, TransformerSpec};
use crate::models::contract::memory::StepShape;
use crate::models::parts::{ForwardWork, PassContext, Tokens};
use crate::partition::Mesh;

/// Operations of a part of a layer beside its products: norm, reshapes, its own, residual.
const OPERATIONS_OF_PART: f64 = 8.0;

impl TransformerSpec {
    /// Returns the work of one process of a mesh for a microbatch of that shape.
    pub fn forward_work(&self, shape: &StepShape, mesh: &Mesh) -> ForwardWork {
        let mut work = ForwardWork::none(self.tokens.stream.size());
        let on = PassContext { mesh, is_dropped: self.dropout_rate > 0.0 };
        for (stack, tokens) in self.stacks_of(shape) {
            stack.share(mesh.model().size).add_work(tokens, on, &mut work);
        }
        self.tokens.add_work(self.num_predicted(shape), mesh.model().size, &mut work);
        work
    }
}

impl StackSpec {
    fn add_work(&self, tokens: Tokens, on: PassContext<'_>, work: &mut ForwardWork) {
        for (count, parts) in self.layer_kinds() {
            parts.iter().for_each(|part| part.add_work(tokens, count as f64, on, work));
        }
        let PassContext { mesh, is_dropped } = on;
        let num_parts = self.num_parts() as f64;
        work.num_operations += OPERATIONS_OF_PART * num_parts;
        let position = self.position.map_or(0.0, |it| it.num_operations(self.num_layers));
        work.num_operations += position;
        let share = if mesh.splits_length() { mesh.model().size as f64 } else { 1.0 };
        let stream = tokens.count() * self.dims.emb_dim as f64;
        // A norm reads and writes the stream; a residual reads two and writes one.
        let passes = num_parts * (5.0 + if is_dropped { 2.0 } else { 0.0 }) / share;
        // Embedding and the last norm.
        work.stream_bytes += work.size * (passes + 4.0) * stream;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::models::parts::MatrixProducts;
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
        let counted = T5Config::t5_1_1_small().transformer().train_step_flops(&shape, &|_| true);
        assert_eq!(3.0 * whole, counted);
        assert!((flops(&work(2)) / whole - 0.5).abs() < 1e-6);
    }
}
