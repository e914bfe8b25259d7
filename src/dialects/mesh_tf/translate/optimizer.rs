//! Adafactor, and the parameters that it updates.

use super::statements::{Statements, text};
use crate::mesh_tf::read::Meaning;
use crate::mesh_tf::spec::{AdafactorDecayRatePow, AdafactorOptimizer, DecayRate, Optimizer, Run};

const ADAFACTOR: &str = "t5x.adafactor.Adafactor";

/// Translates the optimizer.
pub fn translate(meaning: &Meaning, out: &mut Statements<'_>) {
    let Some(optimizer) = &meaning.run.optimizer else {
        let help = "bind `run.optimizer = @optimize.AdafactorOptimizer`; Mesh TensorFlow's defaults.gin does";
        return out.refuse::<Run>(("", "optimizer"), "a training has no optimizer", help);
    };
    let Optimizer::Adafactor(adafactor) = &optimizer.0;
    for (key, value) in [
        ("multiply_by_parameter_scale", text(&adafactor.multiply_by_parameter_scale)),
        ("clipping_threshold", text(&adafactor.clipping_threshold)),
        ("factored", text(&adafactor.factored)),
        ("epsilon1", text(&adafactor.epsilon1)),
        ("epsilon2", text(&adafactor.epsilon2)),
        ("min_dim_size_to_factor", text(&adafactor.min_dim_size_to_factor)),
    ] {
        out.write::<AdafactorOptimizer>(&format!("{ADAFACTOR}.{key}"), &value, ("", key));
    }
    let beta1 = Some(adafactor.beta1).filter(|beta1| *beta1 != 0.0);
    out.bind::<AdafactorOptimizer>(&format!("{ADAFACTOR}.beta1"), beta1, ("", "beta1"));
    decay(adafactor.decay_rate.as_ref(), out);
    if let Some(filter) = &meaning.run.variable_filter {
        let place = ("", "variable_filter");
        out.write::<Run>("OPTIMIZER", "@t5x.optimizers.MultiOptimizer()", place);
        let key = "t5x.optimizers.MultiOptimizer.traversals_and_optimizers";
        let pair = "[(@flax.traverse_util.ModelParamTraversal(), @t5x.adafactor.Adafactor())]";
        out.write::<Run>(key, pair, place);
        let key = "flax.traverse_util.ModelParamTraversal.mesh_variable_filter";
        out.bind::<Run>(key, filter.clone(), place);
    }
}

/// Translates the decay of the second moment.
fn decay(rate: Option<&DecayRate>, out: &mut Statements<'_>) {
    match rate {
        None => {}
        Some(DecayRate::Constant(beta2)) => {
            let key = format!("{ADAFACTOR}.beta2");
            out.bind::<AdafactorOptimizer>(&key, *beta2, ("", "decay_rate"));
        }
        Some(DecayRate::Power(AdafactorDecayRatePow { exponent, offset })) => {
            for (key, value, parameter) in [
                ("decay_rate", text(exponent), "exponent"),
                ("step_offset", text(offset), "offset"),
            ] {
                let key = format!("{ADAFACTOR}.{key}");
                out.write::<AdafactorDecayRatePow>(&key, &value, ("", parameter));
            }
        }
    }
}
