//! The description of a block of experts, and the groups in which a router gives tokens to them.
//!
//! Source: flaxformer `architectures/moe/{moe_layers,routing}.py`.

use crate::nn::{Dtype, Initializer};

/// Feed-forward blocks of one shape, of which a router gives each token to a few.
#[derive(Clone, Debug, PartialEq)]
pub struct ExpertsSpec {
    /// Number of experts.
    pub num_experts: usize,
    /// Greatest number of tokens that are routed together.
    pub max_group_size: usize,
    /// Places of an expert in training, as a multiple of an equal share of a group's tokens.
    pub train_capacity_factor: f64,
    /// The same in evaluation and prediction.
    pub eval_capacity_factor: f64,
    /// Smallest number of places of an expert in a group.
    pub min_expert_capacity: usize,
    /// Probability that a feature between an expert's projections is dropped in training.
    pub dropout_rate: f64,
    /// Format in which experts compute.
    pub dtype: Dtype,
    /// The distribution of the first values of experts' kernels.
    pub initializer: Initializer,
    /// The router.
    pub router: RouterSpec,
}

/// A router: a projection of tokens to scores of experts, and the rule by which scores give places.
#[derive(Clone, Debug, PartialEq)]
pub struct RouterSpec {
    /// The rule.
    pub routing: Routing,
    /// Whether scores have a bias.
    pub use_bias: bool,
    /// Format of scores.
    pub weights_dtype: Dtype,
    /// Format of the weights by which experts' results are multiplied.
    pub dtype: Dtype,
    /// Half the width of the uniform noise around 1 by which a router's inputs are multiplied in training.
    pub jitter_noise: f64,
    /// Whether padding, whose activations are 0, gets no places, or the last ones.
    pub ignore_padding_tokens: bool,
    /// The distribution of the first values of the projection, whose bias begins with zeros.
    pub initializer: Initializer,
}

/// The rule by which scores give tokens places at experts.
#[derive(Clone, Debug, PartialEq)]
pub enum Routing {
    /// Each token goes to the experts with the highest scores, as long as these have places (Fedus et al. 2021,
    /// arXiv:2101.03961).
    TokensChoose {
        /// Experts of a token.
        num_selected_experts: usize,
        /// Whether tokens with a higher score get places first, instead of earlier tokens (Riquelme et al. 2021,
        /// arXiv:2106.05974).
        batch_prioritized: bool,
        /// The treatment of padding that is ignored.
        padding: IgnoredPadding,
    },
    /// Each expert takes the tokens with the highest scores (Zhou et al. 2022, arXiv:2202.09368).
    ExpertsChoose,
}

/// The treatment of padding in a router that ignores it. Flaxformer's two routers by which tokens choose differ in
/// nothing else but speed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IgnoredPadding {
    /// It gets no places.
    Removed,
    /// Its scores are 0, but it takes places that are free.
    Outweighed,
}

/// The kind of pass for which tokens are routed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RoutingMode {
    /// With noise and the capacity of training.
    Training,
    /// Without noise, and with the capacity of evaluation.
    Evaluation,
}

/// The groups of a batch's tokens that are routed together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TokenGroups {
    /// Rows of the batch, with those added to make the number of tokens divisible.
    pub rows: usize,
    /// Length of rows, with what is added to make the number of tokens divisible.
    pub length: usize,
    /// Number of groups.
    pub count: usize,
    /// Tokens of a group.
    pub size: usize,
    /// Places of each expert in a group.
    pub capacity: usize,
}

impl ExpertsSpec {
    /// Returns the groups of `rows` of `length` tokens, which are one of `parts` equal parts of a batch. Groups are as
    /// many as the experts or a multiple, so that they do not depend on the number of parts where this divides the
    /// number of experts. Source: flaxformer `moe_layers.py`, `_maybe_pad` and `_num_groups`.
    pub fn groups(
        &self,
        (rows, length): (usize, usize),
        parts: usize,
        mode: RoutingMode,
    ) -> TokenGroups {
        // A number of groups that experts and parts of the batch divide.
        let mut multiples = (1..).map(|multiple| multiple * self.num_experts);
        let step = multiples.find(|number| number.is_multiple_of(parts)).unwrap_or(1);
        let (rows, length) = padded((rows, length), step / parts);
        let tokens = parts * rows * length;
        let least = (tokens / self.max_group_size).max(step);
        let mut count = least.next_multiple_of(step);
        while !tokens.is_multiple_of(count) {
            count += step;
        }
        let size = tokens / count;
        TokenGroups {
            rows,
            length,
            count: count / parts,
            size,
            capacity: self.capacity(size, mode),
        }
    }

    /// Returns the places of an expert in a group of so many tokens.
    fn capacity(&self, tokens: usize, mode: RoutingMode) -> usize {
        let factor = match mode {
            RoutingMode::Training => self.train_capacity_factor,
            RoutingMode::Evaluation => self.eval_capacity_factor,
        };
        // Python's `round` takes the even one of two equally near numbers.
        let share = (factor * tokens as f64 / self.num_experts as f64).round_ties_even();
        let capacity = (share as usize).max(self.min_expert_capacity);
        match self.router.routing {
            Routing::TokensChoose { .. } => capacity,
            Routing::ExpertsChoose => capacity.min(tokens),
        }
    }
}

/// Adds rows, or length, to a batch until `divisor` divides its number of tokens: whichever adds fewer.
fn padded((rows, length): (usize, usize), divisor: usize) -> (usize, usize) {
    let added = |unit: usize, other: usize| {
        (0..divisor).find(|more| ((unit + more) * other).is_multiple_of(divisor)).unwrap_or(divisor)
    };
    let (more_rows, more_length) = (added(rows, length), added(length, rows));
    match more_length * rows > more_rows * length {
        true => (rows + more_rows, length),
        false => (rows, length + more_length),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn experts(num_experts: usize, max_group_size: usize) -> ExpertsSpec {
        let routing = Routing::TokensChoose {
            num_selected_experts: 1,
            batch_prioritized: false,
            padding: IgnoredPadding::Removed,
        };
        ExpertsSpec {
            num_experts,
            max_group_size,
            train_capacity_factor: 1.0,
            eval_capacity_factor: 2.5,
            min_expert_capacity: 1,
            dropout_rate: 0.0,
            dtype: Dtype::Float32,
            initializer: Initializer::ONES,
            router: RouterSpec {
                routing,
                use_bias: false,
                weights_dtype: Dtype::Float32,
                dtype: Dtype::Float32,
                jitter_noise: 0.0,
                ignore_padding_tokens: false,
                initializer: Initializer::ONES,
            },
        }
    }

    fn check(spec: &ExpertsSpec, shape: (usize, usize), expected: [usize; 5]) {
        let TokenGroups { rows, length, count, size, capacity } =
            spec.groups(shape, 1, RoutingMode::Training);
        assert_eq!([rows, length, count, size, capacity], expected);
    }

    /// Values of flaxformer's `_maybe_pad` and `_num_groups`, computed by them.
    #[test]
    fn groups_are_those_of_flaxformer() {
        check(&experts(16, 64), (8, 32), [8, 32, 16, 16, 1]);
        check(&experts(4, 1000), (8, 32), [8, 32, 4, 64, 16]);
        // 9 tokens of 4 experts: 3 rows more, or 3 positions more, so positions.
        check(&experts(4, 8), (3, 3), [3, 4, 4, 3, 1]);
        // A step of decoding: two rows more are fewer tokens than one position more.
        check(&experts(4, 8), (6, 1), [8, 1, 4, 2, 1]);
        check(&experts(8, 8), (6, 1), [8, 1, 8, 1, 1]);
        // 120 / 25 is rounded down, so groups may exceed the maximum.
        check(&experts(2, 25), (10, 12), [10, 12, 4, 30, 15]);
    }

    #[test]
    fn an_equal_share_is_rounded_to_the_even_number() {
        let spec = experts(2, 25);
        let capacity = |size| spec.capacity(size, RoutingMode::Evaluation);
        assert_eq!([capacity(2), capacity(6), capacity(1)], [2, 8, 1]);
        let chosen = ExpertsSpec {
            router: RouterSpec { routing: Routing::ExpertsChoose, ..spec.router.clone() },
            ..spec.clone()
        };
        assert_eq!(chosen.capacity(2, RoutingMode::Evaluation), 2);
    }

    #[test]
    fn parts_of_a_batch_have_the_groups_of_the_whole() {
        let spec = experts(4, 32);
        let whole = spec.groups((8, 16), 1, RoutingMode::Training);
        let part = spec.groups((4, 16), 2, RoutingMode::Training);
        assert_eq!((part.count * 2, part.size), (whole.count, whole.size));
    }
}
