//! Routers: from scores to places of tokens at experts, with losses that balance the load.
//!
//! Source: flaxformer `architectures/moe/routing.py`.

use tch::{Kind, Tensor};

use super::spec::{IgnoredPadding, RouterSpec, Routing, TokenGroups};

/// The places that tokens have at experts: entries of a token, a place and a weight.
#[derive(Debug)]
pub struct Places {
    /// The number of each entry's token among those of all groups: int64 `[entries]`.
    pub tokens: Tensor,
    /// The number of its place in `[groups, experts, capacity]`, or the number of places if it has none: int64
    /// `[entries]`.
    pub places: Tensor,
    /// The weight of the expert's result: `[entries]`, 0 without a place.
    pub weights: Tensor,
}

/// The losses of a router, and measures of its work: float32 `[5]`.
#[derive(Debug)]
pub struct RoutingReport(
    /// In the order of [`RoutingReport::NAMES`].
    pub Tensor,
);

impl RoutingReport {
    /// Names of the numbers: the loss that balances the load, the loss of large scores, the share of tokens without a
    /// place, the share of places with a token, and the mean weight of a token at an expert.
    pub const NAMES: [&str; 5] = [
        "auxiliary_loss",
        "router_z_loss",
        "fraction_tokens_left_behind",
        "expert_usage",
        "router_confidence",
    ];
}

/// A router's view of a batch.
pub struct Scored<'a> {
    /// The groups.
    pub groups: &'a TokenGroups,
    /// Scores, float32 `[groups, size, experts]`.
    pub logits: &'a Tensor,
    /// 1 for tokens that are not padding, if padding is ignored: float32 `[groups, size]`.
    pub real: Option<&'a Tensor>,
}

/// Entries by choice, before they are flattened.
struct Choices {
    places: Places,
    auxiliary_loss: Tensor,
    num_routed_tokens: Tensor,
    num_entries: Tensor,
    usage: Tensor,
}

impl RouterSpec {
    /// Gives tokens places at experts by their scores.
    pub fn route(&self, scored: &Scored<'_>) -> (Places, RoutingReport) {
        let logits = match scored.real {
            Some(real) => scored.logits * real.unsqueeze(-1),
            None => scored.logits.shallow_clone(),
        };
        let probabilities = scored.logits.softmax(-1, Kind::Float);
        let choices = match &self.routing {
            Routing::TokensChoose { num_selected_experts, batch_prioritized, padding } => {
                let choosing = TokensChoose {
                    count: *num_selected_experts as i64,
                    batch_prioritized: *batch_prioritized,
                    padding: *padding,
                };
                choosing.choose(scored, &probabilities)
            }
            Routing::ExpertsChoose => experts_choose(scored, &probabilities),
        };
        let num_tokens = self.num_tokens(scored);
        let routed = choices.num_routed_tokens / num_tokens;
        let left_behind = routed.ones_like() - routed;
        let confidence = choices.places.weights.sum(Kind::Float) / choices.num_entries;
        let numbers = [
            choices.auxiliary_loss,
            z_loss(&logits),
            left_behind.detach(),
            choices.usage.detach(),
            confidence.detach(),
        ];
        (choices.places, RoutingReport(Tensor::stack(&numbers, 0)))
    }

    /// Returns the number of tokens of which the share without a place is reported.
    fn num_tokens(&self, scored: &Scored<'_>) -> Tensor {
        let TokenGroups { count, size, .. } = scored.groups;
        let Some(real) = scored.real else {
            return scalar((count * size) as f64, scored.logits);
        };
        let counted = match self.routing {
            // Flaxformer's router that scatters counts each copy of a token.
            Routing::TokensChoose {
                num_selected_experts,
                padding: IgnoredPadding::Outweighed,
                ..
            } => num_selected_experts,
            _ => 1,
        };
        real.sum(Kind::Float) * counted as f64
    }
}

/// The parameters of [`Routing::TokensChoose`].
struct TokensChoose {
    count: i64,
    batch_prioritized: bool,
    padding: IgnoredPadding,
}

impl TokensChoose {
    fn choose(&self, scored: &Scored<'_>, probabilities: &Tensor) -> Choices {
        let (groups, size, experts) = probabilities.size3().expect("scores have three axes");
        let real = scored.real.map(|real| real.unsqueeze(-1));
        let masked = match &real {
            Some(real) => probabilities * real,
            None => probabilities.shallow_clone(),
        };
        let ranked = match self.padding {
            IgnoredPadding::Removed => probabilities,
            IgnoredPadding::Outweighed => &masked,
        };
        let chosen = top(ranked, self.count); // [groups, size, count]
        let gates = masked.gather(-1, &chosen, false);
        let is_chosen = chosen.one_hot(experts).to_kind(Kind::Int); // [groups, size, count, experts]
        let is_chosen = match (&real, self.padding) {
            (Some(real), IgnoredPadding::Removed) => {
                is_chosen * real.unsqueeze(-1).to_kind(Kind::Int)
            }
            _ => is_chosen,
        };
        let auxiliary_loss = load_balancing_loss(&masked, &is_chosen);
        let positions = self.positions(&is_chosen, &gates.select(-1, 0)); // [groups, size, count]
        let capacity = scored.groups.capacity as i64;
        let is_placed = positions.ge(0).logical_and(&positions.lt(capacity));
        let num_places = groups * experts * capacity;
        let group = Tensor::arange(groups, (Kind::Int64, chosen.device())).view([-1, 1, 1]);
        let places = (group * experts + &chosen) * capacity + &positions;
        let places = places.where_self(&is_placed, &places.full_like(num_places));
        let token = Tensor::arange(groups * size, (Kind::Int64, chosen.device())).view([-1, 1]);
        let num_entries = is_placed.sum(Kind::Float);
        Choices {
            places: Places {
                tokens: token.expand([-1, self.count], false).reshape(-1),
                places: places.reshape(-1),
                weights: (gates * &is_placed).reshape(-1),
            },
            auxiliary_loss,
            num_routed_tokens: is_placed.any_dim(-1, false).sum(Kind::Float),
            usage: &num_entries / num_places as f64,
            num_entries,
        }
    }

    /// Returns the position of each choice in its expert's buffer, however large, int64 `[groups, size, count]`; -1 for
    /// one that does not count. First choices come before second ones.
    fn positions(&self, is_chosen: &Tensor, first_gates: &Tensor) -> Tensor {
        let (groups, size, count, experts) = is_chosen.size4().expect("choices have four axes");
        let order = self.batch_prioritized.then(|| (-first_gates).argsort_stable(true, -1, false));
        let expanded = |order: &Tensor, last: i64| {
            order.view([groups, size, 1, 1]).expand([groups, size, count, last], false)
        };
        let in_order = match &order {
            Some(order) => is_chosen.gather(1, &expanded(order, experts), false),
            None => is_chosen.shallow_clone(),
        };
        let by_choice = in_order.transpose(1, 2).reshape([groups, count * size, experts]);
        let positions =
            (by_choice.cumsum(1, Kind::Int) * &by_choice).sum_dim_intlist(-1, false, Kind::Int64)
                - 1;
        let positions = positions.view([groups, count, size]).transpose(1, 2);
        match &order {
            Some(order) => {
                let places = expanded(order, 1).squeeze_dim(-1);
                positions.zeros_like().scatter(1, &places, &positions)
            }
            None => positions,
        }
    }
}

fn experts_choose(scored: &Scored<'_>, probabilities: &Tensor) -> Choices {
    let (groups, size, experts) = probabilities.size3().expect("scores have three axes");
    let masked = match scored.real {
        Some(real) => probabilities * real.unsqueeze(-1),
        None => probabilities.shallow_clone(),
    };
    let capacity = scored.groups.capacity as i64;
    let by_expert = masked.transpose(1, 2); // [groups, experts, size]
    let (_, chosen) = by_expert.detach().topk(capacity, -1, true, true);
    let gates = by_expert.gather(-1, &chosen, false); // [groups, experts, capacity]
    let options = (Kind::Int64, chosen.device());
    let tokens = (Tensor::arange(groups, options).view([-1, 1, 1]) * size + &chosen).view(-1);
    let num_places = groups * experts * capacity;
    let is_routed = Tensor::zeros([groups * size], (Kind::Float, chosen.device()));
    Choices {
        num_routed_tokens: is_routed.index_fill(0, &tokens, 1.0).sum(Kind::Float),
        // All experts have equally many tokens, and no free places.
        auxiliary_loss: scalar(0.0, probabilities),
        num_entries: scalar(num_places as f64, probabilities),
        usage: scalar(1.0, probabilities),
        places: Places {
            tokens,
            places: Tensor::arange(num_places, options),
            weights: gates.reshape(-1),
        },
    }
}

/// Returns a float32 scalar, made on the device of `on_device`.
fn scalar(value: f64, on_device: &Tensor) -> Tensor {
    Tensor::full([0i64; 0], value, (Kind::Float, on_device.device()))
}

/// Returns the numbers of the largest elements along the last axis, the first ones of equal elements:
/// `[.., experts]` to int64 `[.., count]`.
fn top(probabilities: &Tensor, count: i64) -> Tensor {
    let (_, order) = probabilities.detach().sort_stable(true, -1, true);
    order.narrow(-1, 0, count)
}

/// Returns the loss that is least when all experts are chosen equally often. Source: Fedus et al. 2021, equations 4 to 6.
fn load_balancing_loss(probabilities: &Tensor, is_chosen: &Tensor) -> Tensor {
    let experts = probabilities.size()[2] as f64;
    let share = is_chosen.amax([2], false).mean_dim(1, false, Kind::Float); // [groups, experts]
    let probability = probabilities.mean_dim(1, false, Kind::Float);
    (share * probability).mean(Kind::Float) * (experts * experts)
}

/// Returns the loss that keeps scores small. Source: Zoph et al. 2022, arXiv:2202.08906.
fn z_loss(logits: &Tensor) -> Tensor {
    logits.logsumexp([-1], false).square().mean(Kind::Float)
}
