//! Several optimizers, each for the parameters that it is given by their paths.
//!
//! Source: T5X `optimizers.py`; flax `traverse_util.py`. T5X takes a Python function for the choice; a gin file lists
//! regular expressions. The state is that of each optimizer by itself.

use std::collections::BTreeSet;

use fancy_regex::Regex;

use crate::checkpoint::{NamePatterns, mesh_spellings};
use crate::gin::{Configurable, Nested};

use super::OptimizerDef;
use super::error::OptimError;
use super::layout::{ParamShape, StateLayout};
use super::rule::Rule;

/// Several optimizers, each for the parameters that its traversal chooses. Other parameters keep their values.
/// Source: T5X `optimizers.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "t5x.optimizers.MultiOptimizer")]
pub struct MultiOptimizer {
    /// Pairs of @traverse_util.ModelParamTraversal() and an optimizer. No parameter may be chosen twice.
    pub traversals_and_optimizers: Vec<(ModelParamTraversal, Nested<OptimizerDef>)>,
}

/// A choice of parameters. Source: flax `traverse_util.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "flax.traverse_util.ModelParamTraversal")]
pub struct ModelParamTraversal {
    /// Regular expressions, of which one must match the whole path of a parameter:
    /// `/encoder/encoder_norm/scale` matches `.*/scale`.
    #[gin(default = Vec::new())]
    pub filter_fn: Vec<String>,
    /// A regular expression to be found in the name that Mesh TensorFlow gives a parameter,
    /// `encoder/block_000/task_adapter/DenseReluDense/wi/kernel`; its `run.variable_filter`.
    #[gin(default = None)]
    pub mesh_variable_filter: Option<String>,
}

impl ModelParamTraversal {
    fn patterns(&self) -> Result<ParamFilter, OptimError> {
        let unfit = |param, pattern: &str, reason| OptimError::Pattern {
            param,
            pattern: pattern.to_string(),
            reason,
        };
        let paths = NamePatterns::new(&self.filter_fn);
        let of_mesh = |pattern: &String| {
            Regex::new(pattern)
                .map_err(|error| unfit("mesh_variable_filter", pattern, error.to_string()))
        };
        Ok(ParamFilter {
            paths: paths.map_err(|error| unfit("filter_fn", &error.pattern, error.reason))?,
            mesh_names: self.mesh_variable_filter.as_ref().map(of_mesh).transpose()?,
        })
    }
}

/// The compiled form of a choice.
#[derive(Debug)]
pub(super) struct ParamFilter {
    paths: NamePatterns,
    mesh_names: Option<Regex>,
}

impl ParamFilter {
    /// Whether it chooses the parameter. A pattern that is too hard to match does not match.
    pub(super) fn chooses(&self, param: &str) -> bool {
        let is_found = |pattern: &Regex, name: &str| pattern.is_match(name).unwrap_or(false);
        let path = format!("/{param}");
        self.paths.match_any(&path)
            || self.mesh_names.as_ref().is_some_and(|pattern| {
                mesh_spellings(param).iter().any(|name| is_found(pattern, name))
            })
    }
}

impl MultiOptimizer {
    /// Returns the choices, in the order of the optimizers.
    pub(super) fn filters(&self) -> Result<Vec<ParamFilter>, OptimError> {
        self.traversals_and_optimizers.iter().map(|(traversal, _)| traversal.patterns()).collect()
    }

    pub(super) fn optimizers(&self) -> impl Iterator<Item = &dyn Rule> {
        self.traversals_and_optimizers.iter().map(|(_, optimizer)| optimizer.spec())
    }

    /// Returns the optimizer of a parameter, if it has one.
    fn of(&self, param: &str) -> Result<Option<&dyn Rule>, OptimError> {
        let filters = self.filters()?;
        let parts = filters.iter().zip(1..).zip(self.optimizers());
        let mut chosen = parts.filter(|((filter, _), _)| filter.chooses(param));
        match (chosen.next(), chosen.next()) {
            (Some(((_, first), _)), Some(((_, second), _))) => {
                Err(OptimError::ChosenTwice { name: param.to_string(), first, second })
            }
            (first, _) => Ok(first.map(|(_, optimizer)| optimizer)),
        }
    }
}

impl Rule for MultiOptimizer {
    fn layout(&self, param: ParamShape<'_>) -> Result<StateLayout, OptimError> {
        match self.of(param.name)? {
            Some(optimizer) => optimizer.layout(param),
            None => Ok(StateLayout { slots: Vec::new(), averaged: Vec::new(), factored: None }),
        }
    }

    fn check(&self) -> Result<(), OptimError> {
        self.filters()?;
        self.optimizers().try_for_each(|optimizer| optimizer.check())
    }

    fn path(&self, param: &str, slot: &str) -> String {
        let optimizer = self.of(param).ok().flatten();
        optimizer.expect("only a parameter with an optimizer has slots").path(param, slot)
    }

    fn none_path(&self, param: &str) -> Option<String> {
        matches!(self.of(param), Ok(None)).then(|| param.to_string())
    }

    fn choice(&self) -> Box<dyn Fn(&str) -> bool + '_> {
        // Patterns that are none, and parameters that are chosen twice, are refused elsewhere.
        let Ok(filters) = self.filters() else { return Box::new(|_| true) };
        Box::new(move |param| filters.iter().any(|filter| filter.chooses(param)))
    }

    fn count_paths(&self) -> Vec<String> {
        let paths: BTreeSet<String> = self.optimizers().flat_map(|o| o.count_paths()).collect();
        paths.into_iter().collect()
    }

    fn needs_whole_params(&self) -> bool {
        self.optimizers().any(|optimizer| optimizer.needs_whole_params())
    }

    fn needs_all_gradients(&self) -> bool {
        self.optimizers().any(|optimizer| optimizer.needs_all_gradients())
    }

    fn skips_nan_updates(&self) -> bool {
        self.optimizers().all(|optimizer| optimizer.skips_nan_updates())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::optim::{Adafactor, Fromage, LearningRate, OptaxRule};
    use crate::schedule::{CreateLearningRateScheduler, Schedule};

    fn multi(choices: &[&str]) -> MultiOptimizer {
        let traversal = |pattern: &&str| ModelParamTraversal {
            filter_fn: vec![pattern.to_string()],
            mesh_variable_filter: None,
        };
        let adafactor = || Nested(Box::new(OptimizerDef::Adafactor(Adafactor::default())));
        let pairs = choices.iter().map(|pattern| (traversal(pattern), adafactor()));
        MultiOptimizer { traversals_and_optimizers: pairs.collect() }
    }

    fn slots(optimizer: &MultiOptimizer, name: &str) -> Result<usize, String> {
        let param = ParamShape { name, shape: &[4], axes: &["embed"] };
        optimizer.layout(param).map(|layout| layout.slots.len()).map_err(|error| error.to_string())
    }

    #[test]
    fn a_pattern_matches_a_whole_path_and_no_match_means_no_state() {
        let optimizer = multi(&["/encoder/.*", ".*/decoder_norm"]);
        assert_eq!(slots(&optimizer, "encoder/encoder_norm/scale"), Ok(4));
        assert_eq!(
            optimizer.path("encoder/encoder_norm/scale", "v"),
            "encoder/encoder_norm/scale/v"
        );
        assert_eq!(slots(&optimizer, "decoder/decoder_norm/scale"), Ok(0));
        assert_eq!(optimizer.none_path("encoder/a"), None);
        assert_eq!(optimizer.none_path("decoder/a").as_deref(), Some("decoder/a"));
    }

    #[test]
    fn a_parameter_chosen_twice_is_refused() {
        let error = slots(&multi(&["/a", ".*/scale", "/encoder/.*"]), "encoder/scale").unwrap_err();
        assert!(error.starts_with("parameter `encoder/scale` is chosen by traversals 2 and 3 of"));
    }

    #[test]
    fn a_pattern_that_is_none_is_refused_before_the_run() {
        let error = multi(&["("]).check().unwrap_err().to_string();
        assert!(error.starts_with("`(` of `ModelParamTraversal.filter_fn` is not a pattern: "));
    }

    #[test]
    fn a_filter_of_mesh_tensorflow_is_found_in_its_names() {
        let check = |filter: &str, name: &str, expected: bool| {
            let mut optimizer = multi(&[]);
            let traversal = ModelParamTraversal {
                filter_fn: Vec::new(),
                mesh_variable_filter: Some(filter.to_string()),
            };
            let adafactor = Nested(Box::new(OptimizerDef::Adafactor(Adafactor::default())));
            optimizer.traversals_and_optimizers.push((traversal, adafactor));
            assert_eq!(
                slots(&optimizer, name),
                Ok(if expected { 4 } else { 0 }),
                "{filter} {name}"
            );
        };
        check("task_adapter", "encoder/layers_3/task_adapter/wi/kernel", true);
        check("task_adapter", "decoder/layers_3/pre_task_adapter_layer_norm/scale", true);
        check("task_adapter", "encoder/layers_3/mlp/wi/kernel", false);
        check("layer_norm|shared", "token_embedder/embedding", true);
        check("block_011/.*layer_norm", "decoder/layers_11/pre_mlp_layer_norm/scale", true);
        check("rms_norm", "decoder/decoder_norm/scale", true);
        check("SelfAttention/q$", "encoder/layers_0/attention/query/kernel", true);
    }

    #[test]
    fn an_optimizer_of_nothing_is_refused() {
        let check = |choices: &[&str], expected: bool| {
            let optimizer = OptimizerDef::from(multi(choices));
            let updates = optimizer.check_updates(["encoder/a", "decoder/b"].into_iter());
            assert_eq!(updates.is_ok(), expected, "{choices:?}");
        };
        check(&["/encoder/.*"], true);
        check(&["task_adapter"], false);
        let adafactor = OptimizerDef::from(Adafactor::default());
        assert!(adafactor.check_updates(["encoder/a"].into_iter()).is_ok());
    }

    #[test]
    fn counts_of_all_optimizers_are_kept_once() {
        let schedule =
            Schedule::CreateLearningRateScheduler(CreateLearningRateScheduler::default());
        let fromage = Fromage { learning_rate: LearningRate::Schedule(schedule), min_norm: 1e-6 };
        let mut optimizer = multi(&["/a", "/b", "/c"]);
        for (_, rule) in &mut optimizer.traversals_and_optimizers[1..] {
            *rule = Nested(Box::new(OptimizerDef::from(OptaxRule::from(fromage.clone()))));
        }
        assert_eq!(optimizer.count_paths(), ["1/count", "2/count"]);
    }
}
