//! Each number steps by the learning rate, in the direction of a mean of gradients.

use gimlet::gin::{Configurable, Fills};
use gimlet::nn::Dtype;
use gimlet::optim::{
    Clock, OptimError, OptimizerDef, ParamShape, Prepare, Prepared, Rule, Slot, StateLayout,
    Updated,
};

/// Signum (Bernstein et al. 2018, arXiv:1802.04434): the sign of a mean of gradients, times the
/// Trainer's learning rate.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "my_optimizers.SignSgd")]
pub struct SignSgd {
    /// Decay of the stored mean of gradients.
    #[gin(default = 0.9)]
    pub momentum: f64,
}

impl Fills for SignSgd {
    type Slot = OptimizerDef;
}

impl Rule for SignSgd {
    /// Keeps one array for each parameter, which checkpoints name `PARAMETER/m`.
    fn layout(&self, param: ParamShape<'_>) -> Result<StateLayout, OptimError> {
        let shape = param.shape.to_vec();
        let dims = Some((0..shape.len()).collect());
        let mean = Slot { name: "m", shape, dims, dtype: Dtype::Float32, initial: 0.0 };
        Ok(StateLayout { slots: vec![mean], averaged: Vec::new(), factored: None })
    }

    /// Says before the run starts that a mean cannot decay like this.
    fn check(&self) -> Result<(), OptimError> {
        if (0.0..1.0).contains(&self.momentum) {
            return Ok(());
        }
        let (name, reason) =
            ("my_optimizers.SignSgd", "`momentum` lies below 0, or is not below 1");
        Err(OptimError::Settings { name, reason })
    }
}

impl Prepare for SignSgd {
    fn prepare(&self, clock: &Clock) -> Result<Box<dyn Prepared>, OptimError> {
        let learning_rate = f64::from(clock.learning_rate);
        Ok(Box::new(SignStep { momentum: self.momentum, learning_rate }))
    }
}

/// One update.
#[derive(Debug)]
struct SignStep {
    momentum: f64,
    learning_rate: f64,
}

impl Prepared for SignStep {
    fn apply(&self, updated: Vec<Updated<'_>>) {
        for Updated { mut param, grad, state, .. } in updated {
            let mean = &mut state.arrays[0];
            mean.copy_(&mean.lerp(&grad, 1.0 - self.momentum));
            let _ = param.g_sub_(&(mean.sign() * self.learning_rate));
        }
    }
}
