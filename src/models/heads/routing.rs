//! The losses of routers, and the metrics of experts. Source: T5X `contrib/moe/models.py`.

use tch::{Kind, Tensor};

use super::spec::RoutingLosses;
use super::sums::HeadLoss;
use crate::metrics::sum;
use crate::nn::RoutingReport;

impl RoutingLosses {
    /// Returns the weighted losses of routers, averaged over layers with experts; `None` for a network without them.
    pub fn of(&self, reports: &[RoutingReport]) -> Option<HeadLoss> {
        let reports: Vec<&Tensor> = reports.iter().map(|report| &report.0).collect();
        if reports.is_empty() {
            return None;
        }
        // Sums over the parts of a batch are means.
        let mean = Tensor::stack(&reports, 0).mean_dim(0, false, Kind::Float) * self.share;
        let factors = [self.aux_loss_factor, self.router_z_loss_factor];
        let factor = |index: usize| factors.get(index).copied().unwrap_or(1.0);
        let number = |index: usize| mean.select(0, index as i64) * factor(index);
        let sums = (0..).zip(sum::OF_EXPERTS).map(|(index, name)| (name, number(index))).collect();
        let loss = number(0) + number(1);
        Some(HeadLoss { value: loss.detach(), loss, sums, num_targets: 0 })
    }
}
