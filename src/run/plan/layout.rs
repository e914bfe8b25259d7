//! The layouts of a run on a number of processes, and the bindings with which a user asks for them.

use crate::nn::RematPolicy;
use crate::partition::{LogicalAxisRules, Partitioner, PjitPartitioner, StandardLogicalAxisRules};
use crate::session::spec::TrainerClass;
use crate::train::Train;

/// The arrays that the data axis divides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Zero {
    /// None: each process along the axis has all of them.
    None,
    /// The optimizer's state (ZeRO-1).
    State,
    /// Parameters, gradients and state (ZeRO-3).
    Parameters,
}

/// A layout of a run: its mesh, and the settings that trade time for memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MeshLayout {
    /// Size of the model axis.
    pub num_partitions: usize,
    /// The arrays that the data axis divides.
    pub zero: Zero,
    /// T5X's number of dimensions of activations that are divided, 1 or 2.
    pub activation_dims: usize,
    /// Parts of a batch.
    pub num_microbatches: usize,
    /// The tensors that layers keep.
    pub remat_policy: RematPolicy,
}

impl Zero {
    /// All of them, the simplest first.
    pub const ALL: [Self; 3] = [Self::None, Self::State, Self::Parameters];

    /// The number in ZeRO's name.
    pub fn stage(self) -> usize {
        match self {
            Self::None => 0,
            Self::State => 1,
            Self::Parameters => 3,
        }
    }
}

impl MeshLayout {
    /// Returns the run in this layout; `None` if its network cannot keep other tensors.
    pub fn of(&self, train: &Train) -> Option<Train> {
        let mut train = train.clone();
        if train.model.transformer().decoder.dims.remat_policy != self.remat_policy {
            train.model = train.model.with_remat_policy(self.remat_policy)?;
        }
        let (Partitioner::Pjit(pjit), TrainerClass::Trainer(trainer)) =
            (&mut train.partitioner, &mut train.trainer_cls.0)
        else {
            return None;
        };
        let rules = pjit.logical_axis_rules.take();
        let standard = rules.map_or_else(Default::default, |rules| rules.standard());
        *pjit = PjitPartitioner {
            num_partitions: Some(self.num_partitions),
            model_parallel_submesh: None,
            logical_axis_rules: Some(LogicalAxisRules::Standard(StandardLogicalAxisRules {
                activation_partitioning_dims: self.activation_dims,
                parameter_partitioning_dims: self.parameter_dims(),
                ..standard
            })),
            spread_optimizer_state: self.zero == Zero::State,
            ..pjit.clone()
        };
        trainer.num_microbatches = Some(self.num_microbatches);
        Some(train)
    }

    fn parameter_dims(&self) -> usize {
        if self.zero == Zero::Parameters { 2 } else { 1 }
    }

    /// Returns the flags that give a run this layout, those that say what it does already left out.
    pub fn flags(&self, train: &Train) -> Vec<String> {
        let pjit = train.partitioner.pjit();
        let rules = pjit.logical_axis_rules.as_ref();
        let (standard, are_listed) = match rules {
            Some(LogicalAxisRules::Listed(_)) => (StandardLogicalAxisRules::default(), true),
            rules => (rules.map_or_else(Default::default, LogicalAxisRules::standard), false),
        };
        let trainer = train.trainer_cls.0.trainer();
        let remat_policy = train.model.transformer().decoder.dims.remat_policy;
        let are_rules_changed = standard.activation_partitioning_dims != self.activation_dims
            || standard.parameter_partitioning_dims != self.parameter_dims();
        let spreads = self.zero == Zero::State;
        let pjit_name = |parameter: &str| format!("partitioning.PjitPartitioner.{parameter}");
        let rule_name = |parameter: &str| format!("{RULES}.{parameter}");
        let settings = [
            (
                pjit.model_parallel_submesh.is_some(),
                pjit_name("model_parallel_submesh"),
                "None".to_string(),
            ),
            (
                pjit.requested_partitions().unwrap_or(1) != self.num_partitions,
                pjit_name("num_partitions"),
                self.num_partitions.to_string(),
            ),
            (
                are_listed || (pjit.logical_axis_rules.is_none() && are_rules_changed),
                pjit_name("logical_axis_rules"),
                format!("@{RULES}()"),
            ),
            (
                standard.activation_partitioning_dims != self.activation_dims,
                rule_name("activation_partitioning_dims"),
                self.activation_dims.to_string(),
            ),
            (
                standard.parameter_partitioning_dims != self.parameter_dims(),
                rule_name("parameter_partitioning_dims"),
                self.parameter_dims().to_string(),
            ),
            (
                pjit.spread_optimizer_state != spreads,
                pjit_name("spread_optimizer_state"),
                if spreads { "True" } else { "False" }.to_string(),
            ),
            (
                trainer.num_microbatches() != self.num_microbatches,
                "trainer.Trainer.num_microbatches".to_string(),
                self.num_microbatches.to_string(),
            ),
            (
                remat_policy != self.remat_policy,
                train.model.dimensions().parameter("remat_policy"),
                format!("\"'{}'\"", remat_name(self.remat_policy)),
            ),
        ];
        let changed = settings.into_iter().filter(|(is_changed, ..)| *is_changed);
        changed.map(|(_, name, value)| format!("--gin.{name}={value}")).collect()
    }
}

/// The configurable of the rules that divide arrays.
const RULES: &str = "partitioning.standard_logical_axis_rules";

/// The policy as gin writes it.
pub fn remat_name(policy: RematPolicy) -> &'static str {
    match policy {
        RematPolicy::None => "none",
        RematPolicy::Minimal => "minimal",
        RematPolicy::Full => "full",
    }
}
