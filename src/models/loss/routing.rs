//! The losses of routers, and the metrics of experts. Source: T5X `contrib/moe/models.py`.

use tch::{Kind, Tensor};

use super::spec::RoutingLosses;
use crate::metrics::sum;
use crate::nn::RoutingReport;

/// The part of a model's loss that is of routers, and the sums for metrics.
pub(super) struct Routed {
    pub loss: Tensor,
    pub sums: [(&'static str, Tensor); 5],
}

impl RoutingLosses {
    /// Returns the weighted losses of routers, averaged over layers with experts; `None` for a network without them.
    pub(super) fn of(&self, reports: &[RoutingReport]) -> Option<Routed> {
        let reports: Vec<&Tensor> = reports.iter().map(|report| &report.0).collect();
        if reports.is_empty() {
            return None;
        }
        // Sums over the parts of a batch are means.
        let mean = Tensor::stack(&reports, 0).mean_dim(0, false, Kind::Float) * self.share;
        let factors = [self.aux_loss_factor, self.router_z_loss_factor];
        let factor = |index: usize| factors.get(index).copied().unwrap_or(1.0);
        let number = |index: usize| mean.select(0, index as i64) * factor(index);
        let sums = std::array::from_fn(|index| (sum::OF_EXPERTS[index], number(index)));
        Some(Routed { loss: number(0) + number(1), sums })
    }
}
