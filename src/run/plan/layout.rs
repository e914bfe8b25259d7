//! The layouts of a run on a number of processes, and the bindings with which a user asks for them.

use crate::nn::RematPolicy;
use crate::partition::{
    LogicalAxisRules, MoePjitPartitioner, Partitioner, PjitPartitioner, StandardLogicalAxisRules,
};
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
        if self.changes_remat(&train) {
            train.model = train.model.with_remat_policy(self.remat_policy)?;
        }
        let rules = self.rules(&train);
        let (num_partitions, spreads) = (Some(self.num_partitions), self.zero == Zero::State);
        match &mut train.partitioner {
            Partitioner::Pjit(pjit) => {
                *pjit = PjitPartitioner {
                    num_partitions,
                    model_parallel_submesh: None,
                    logical_axis_rules: rules,
                    spread_optimizer_state: spreads,
                    ..pjit.clone()
                };
            }
            Partitioner::Moe(moe) => {
                *moe = MoePjitPartitioner {
                    num_partitions,
                    model_parallel_submesh: None,
                    logical_axis_rules: rules,
                    spread_optimizer_state: spreads,
                    ..moe.clone()
                };
            }
        }
        *num_microbatches(&mut train.trainer_cls.0) = Some(self.num_microbatches);
        Some(train)
    }

    /// Whether a stack of the run's network keeps other tensors.
    fn changes_remat(&self, train: &Train) -> bool {
        let spec = train.model.transformer();
        spec.stacks().any(|stack| stack.dims.remat_policy != self.remat_policy)
    }

    /// The rules of the run in this layout; `None` where it leaves them to its partitioner and they are right.
    fn rules(&self, train: &Train) -> Option<LogicalAxisRules> {
        let rules = rules(train);
        match has_no_rules(train) && !self.changes_rules(&rules) {
            true => None,
            false => Some(rules.with_dims(self.activation_dims, self.parameter_dims())),
        }
    }

    fn changes_rules(&self, rules: &LogicalAxisRules) -> bool {
        let standard = rules.standard();
        standard.activation_partitioning_dims != self.activation_dims
            || standard.parameter_partitioning_dims != self.parameter_dims()
    }

    fn parameter_dims(&self) -> usize {
        if self.zero == Zero::Parameters { 2 } else { 1 }
    }

    /// Returns the flags that give a run this layout, those that say what it does already left out.
    pub fn flags(&self, train: &Train) -> Vec<String> {
        let pjit = train.partitioner.pjit();
        let rules = rules(train);
        let are_listed = matches!(rules, LogicalAxisRules::Listed(_));
        let standard =
            if are_listed { StandardLogicalAxisRules::default() } else { rules.standard() };
        let trainer = train.trainer_cls.0.trainer();
        let spreads = self.zero == Zero::State;
        let pjit_name = |parameter: &str| match &train.partitioner {
            Partitioner::Pjit(_) => format!("partitioning.PjitPartitioner.{parameter}"),
            Partitioner::Moe(_) => format!("MoePjitPartitioner.{parameter}"),
        };
        let rules_name = match rules {
            LogicalAxisRules::Moe(_) => "moe.partitioning.standard_logical_axis_rules",
            _ => "partitioning.standard_logical_axis_rules",
        };
        let rule_name = |parameter: &str| format!("{rules_name}.{parameter}");
        let trainer_name = match &train.trainer_cls.0 {
            TrainerClass::Trainer(_) => "trainer.Trainer",
            TrainerClass::Moe(_) => "MoeTrainer",
        };
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
                are_listed || (has_no_rules(train) && self.changes_rules(&rules)),
                pjit_name("logical_axis_rules"),
                format!("@{rules_name}()"),
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
                format!("{trainer_name}.num_microbatches"),
                self.num_microbatches.to_string(),
            ),
        ];
        let remat = train.model.module().remat_parameters().into_iter().map(|parameter| {
            let value = format!("\"'{}'\"", remat_name(self.remat_policy));
            (self.changes_remat(train), parameter, value)
        });
        let changed = settings.into_iter().chain(remat).filter(|(is_changed, ..)| *is_changed);
        changed.map(|(_, name, value)| format!("--gin.{name}={value}")).collect()
    }
}

/// Whether the run leaves the rules that divide arrays to its partitioner.
fn has_no_rules(train: &Train) -> bool {
    match &train.partitioner {
        Partitioner::Pjit(pjit) => pjit.logical_axis_rules.is_none(),
        Partitioner::Moe(moe) => moe.logical_axis_rules.is_none(),
    }
}

/// The rules that divide arrays.
fn rules(train: &Train) -> LogicalAxisRules {
    let standard = || LogicalAxisRules::Standard(StandardLogicalAxisRules::default());
    train.partitioner.pjit().logical_axis_rules.unwrap_or_else(standard)
}

/// The number of dimensions of activations that the run divides.
pub fn activation_dims(train: &Train) -> usize {
    rules(train).standard().activation_partitioning_dims
}

fn num_microbatches(trainer: &mut TrainerClass) -> &mut Option<usize> {
    match trainer {
        TrainerClass::Trainer(trainer) => &mut trainer.num_microbatches,
        TrainerClass::Moe(moe) => &mut moe.trainer.num_microbatches,
    }
}

/// The policy as gin writes it.
pub fn remat_name(policy: RematPolicy) -> &'static str {
    match policy {
        RematPolicy::None => "none",
        RematPolicy::Minimal => "minimal",
        RematPolicy::Full => "full",
    }
}
