//! The experts that these modules describe, and mistakes in them.

use super::experts::{MoeLayer, Router};
use crate::gin::Slot;
use crate::models::flaxformer::dense::MlpBlock;
use crate::models::flaxformer::parts::SparseParts;
use crate::models::parts::FeedForwardSpec;
use crate::models::transformer::SparseLayers;
use crate::nn::{Dtype, ExpertsSpec, IgnoredPadding, RouterSpec, Routing};

impl MoeLayer {
    /// The feed-forward block.
    pub fn block(&self) -> FeedForwardSpec {
        FeedForwardSpec {
            norm: "pre_mlp_layer_norm",
            name: "mlp",
            dim: self.expert.intermediate_dim,
            activations: self.expert.activations.clone(),
            experts: Some(ExpertsSpec {
                num_experts: self.num_experts,
                max_group_size: self.max_group_size,
                train_capacity_factor: self.train_capacity_factor,
                eval_capacity_factor: self.eval_capacity_factor,
                min_expert_capacity: self.min_expert_capacity,
                dropout_rate: self.expert.intermediate_dropout_rate,
                dtype: self.expert.dtype,
                initializer: self.expert.kernel_init.initializer(),
                router: self.router.spec(),
            }),
        }
    }

    /// Finds values with which there are no experts, or tokens cannot be given to them.
    ///
    /// # Errors
    /// The first such value, with the expected ones.
    pub fn check(&self) -> Result<(), String> {
        let at_least_one = [
            ("num_experts", self.num_experts),
            ("max_group_size", self.max_group_size),
            ("min_expert_capacity", self.min_expert_capacity),
        ];
        if let Some((name, _)) = at_least_one.iter().find(|(_, value)| *value == 0) {
            return Err(format!("moe_layers.MoeLayer.{name} is 0, expected at least 1"));
        }
        let factors = [
            ("train_capacity_factor", self.train_capacity_factor),
            ("eval_capacity_factor", self.eval_capacity_factor),
        ];
        let is_wrong = |factor: f64| !factor.is_finite() || factor < 0.0;
        if let Some((name, factor)) = factors.iter().find(|(_, factor)| is_wrong(*factor)) {
            return Err(format!("moe_layers.MoeLayer.{name} is {factor}, expected 0 or more"));
        }
        let router = self.router.spec();
        if [self.dtype, router.dtype, router.weights_dtype].contains(&Dtype::Float16) {
            return Err("moe_layers.MoeLayer.dtype, or the dtype of its router, is 'float16', in which experts are not computed: \
                        expected 'float32' or 'bfloat16'"
                .to_string());
        }
        if self.dtype != self.expert.dtype {
            return Err(format!(
                "moe_layers.MoeLayer.dtype is {:?}, and dense.MlpBlock.dtype of its expert is {:?}, expected the same",
                self.dtype, self.expert.dtype
            ));
        }
        if self.expert.final_dropout_rate != 0.0 {
            return Err(format!(
                "dense.MlpBlock.final_dropout_rate of an expert is {}, expected 0: the layer drops its result",
                self.expert.final_dropout_rate
            ));
        }
        let rate = self.expert.intermediate_dropout_rate;
        if !(0.0..1.0).contains(&rate) {
            return Err(format!(
                "dense.MlpBlock.intermediate_dropout_rate of an expert is {rate}, expected 0 or more and below 1 \
                 (EXPERT_DROPOUT_RATE)"
            ));
        }
        self.router.check(self.num_experts)
    }
}

impl Router {
    fn spec(&self) -> RouterSpec {
        let (parameters, ignore_padding_tokens, routing) = match self {
            Self::TokensChoose(it) => {
                let routing = Routing::TokensChoose {
                    num_selected_experts: it.num_selected_experts,
                    batch_prioritized: it.batch_prioritized_routing,
                    padding: IgnoredPadding::Removed,
                };
                (&it.router, it.ignore_padding_tokens, routing)
            }
            Self::TokensChooseScatter(it) => {
                let routing = Routing::TokensChoose {
                    num_selected_experts: it.num_selected_experts,
                    batch_prioritized: it.batch_prioritized_routing,
                    padding: IgnoredPadding::Outweighed,
                };
                (&it.router, it.ignore_padding_tokens, routing)
            }
            Self::ExpertsChoose(it) => {
                (&it.router, it.ignore_padding_tokens, Routing::ExpertsChoose)
            }
        };
        RouterSpec {
            routing,
            use_bias: parameters.router_weights.use_bias,
            weights_dtype: parameters.router_weights.dtype,
            dtype: parameters.dtype,
            jitter_noise: parameters.jitter_noise,
            ignore_padding_tokens,
            initializer: parameters.router_weights.kernel_init.initializer(),
        }
    }

    fn check(&self, num_experts: usize) -> Result<(), String> {
        let name = self.schema_of().short_name();
        let RouterSpec { routing, jitter_noise, .. } = self.spec();
        match routing {
            Routing::TokensChoose { num_selected_experts: count, .. }
                if !(1..=num_experts).contains(&count) =>
            {
                Err(format!(
                    "routing.{name}.num_selected_experts is {count}, expected 1 to {num_experts}, the number of experts"
                ))
            }
            _ if !(0.0..=1.0).contains(&jitter_noise) => {
                Err(format!("routing.{name}.jitter_noise is {jitter_noise}, expected 0 to 1"))
            }
            _ => Ok(()),
        }
    }
}

impl SparseParts<'_> {
    /// The layers with experts.
    pub fn layers(&self) -> SparseLayers {
        let extra = self.layer.extra_mlp.as_ref().map(|mlp| FeedForwardSpec {
            norm: "pre_extra_mlp_layer_norm",
            name: "extra_mlp",
            dim: mlp.intermediate_dim,
            activations: mlp.activations.clone(),
            experts: None,
        });
        SparseLayers {
            num_layers: self.stack.num_sparse_layers,
            layout: self.stack.sparse_layout,
            blocks: [self.mlp.block()].into_iter().chain(extra).collect(),
        }
    }

    /// Finds values with which a stack of `num_layers` layers, whose other layers have the block `dense`, cannot have these
    /// layers; `stack` names its configurable.
    ///
    /// # Errors
    /// The first such value, with the expected ones.
    pub fn check(&self, stack: &str, num_layers: usize, dense: &MlpBlock) -> Result<(), String> {
        self.mlp.check()?;
        self.layers().check(stack, num_layers)?;
        let extra = self.layer.extra_mlp.as_ref();
        match extra.filter(|extra| extra.kernel_init != dense.kernel_init) {
            None => Ok(()),
            Some(_) => Err(format!(
                "{stack}Layer.extra_mlp has another kernel_init than the block of layers without experts, expected the same"
            )),
        }
    }
}
