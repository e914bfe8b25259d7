//! The layouts of a run that a machine can hold, with their predictions, the fastest first.

use crate::nn::RematPolicy;
use crate::partition::Process;
use crate::session::check::UnfitSpec;
use crate::train::{Train, bytes_sent, step_estimate, training_shape};

use super::cluster::Cluster;
use super::layout::{MeshLayout, Zero, activation_dims};
use super::time::{StepTime, step_time};

/// A layout, and the predictions about it.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// The layout.
    pub layout: MeshLayout,
    /// Size of the data axis.
    pub data: usize,
    /// Bytes of memory of a device.
    pub memory: u64,
    /// Bytes that a process sends in a step.
    pub sent: u64,
    /// The time of a step.
    pub time: StepTime,
}

/// All layouts of a run on a machine.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MeshPlan {
    /// Those that fit, the fastest first: the best microbatches and policy of each mesh.
    pub rows: Vec<Row>,
    /// Those for which the memory is too small, whatever the microbatches and the policy; the smallest first.
    pub too_large: Vec<Row>,
    /// The reasons why others cannot divide the run.
    pub misfits: Vec<String>,
}

/// Finds the layouts of a run on a machine.
///
/// # Errors
/// A length is not bound, or the optimizer's rules do not cover a parameter.
pub fn search(train: &Train, machine: &Cluster) -> Result<MeshPlan, UnfitSpec> {
    let mut plan = MeshPlan::default();
    for num_partitions in (1..=machine.count).filter(|size| machine.count.is_multiple_of(*size)) {
        let alone = [activation_dims(train)];
        let dims = if num_partitions > 1 { &[1, 2][..] } else { &alone };
        let zeros = if num_partitions < machine.count { &Zero::ALL[..] } else { &[Zero::None] };
        for activation_dims in dims.iter().copied() {
            for zero in zeros.iter().copied() {
                plan.add(train, machine, (num_partitions, activation_dims, zero))?;
            }
        }
    }
    plan.rows.sort_by(|a, b| a.time.total().total_cmp(&b.time.total()));
    plan.too_large.sort_by_key(|row| row.memory);
    Ok(plan)
}

/// Predicts the run as it is configured, on one process of a machine.
///
/// # Errors
/// A length is not bound, or the optimizer's rules do not cover a parameter.
pub fn alone(train: &Train, machine: &Cluster) -> Result<StepTime, UnfitSpec> {
    let machine = machine.alone();
    let mesh = train.mesh(Process::ALONE, machine.local_device())?;
    step_time(train, &mesh, &machine, Zero::None)
}

impl MeshPlan {
    /// Adds a mesh with the fastest microbatches and policy that fit.
    ///
    /// # Errors
    /// Those of the search.
    pub fn add(
        &mut self,
        train: &Train,
        machine: &Cluster,
        (num_partitions, activation_dims, zero): (usize, usize, Zero),
    ) -> Result<(), UnfitSpec> {
        let first = MeshLayout {
            num_partitions,
            zero,
            activation_dims,
            num_microbatches: 1,
            remat_policy: RematPolicy::None,
        };
        let data = machine.count / num_partitions;
        let rows = training_shape(train)?.rows / data;
        let mut best: Option<Row> = None;
        let mut smallest: Option<Row> = None;
        for remat_policy in policies(train, zero) {
            for num_microbatches in divisors_by_two(rows) {
                let layout = MeshLayout { num_microbatches, remat_policy, ..first };
                let row = match predict(train, machine, layout)? {
                    Predicted::Row(row) => row,
                    Predicted::Misfit(reason) => {
                        self.misfits.push(reason);
                        return Ok(());
                    }
                };
                let fits = row.memory as f64 <= machine.usable_memory();
                let chosen = if fits { &mut best } else { &mut smallest };
                let is_better = |other: &Row| match fits {
                    true => row.time.total() < other.time.total(),
                    false => row.memory < other.memory,
                };
                if chosen.as_ref().is_none_or(is_better) {
                    *chosen = Some(row);
                }
                // More parts take more time.
                if fits {
                    break;
                }
            }
        }
        match (best, smallest) {
            (Some(row), _) => self.rows.push(row),
            (None, row) => self.too_large.extend(row),
        }
        Ok(())
    }
}

enum Predicted {
    Row(Row),
    /// The mesh cannot divide the run.
    Misfit(String),
}

fn predict(train: &Train, machine: &Cluster, layout: MeshLayout) -> Result<Predicted, UnfitSpec> {
    let Some(train) = layout.of(train) else {
        return Ok(Predicted::Misfit("the network has no remat_policy".to_string()));
    };
    let process = Process { rank: 0, count: machine.count };
    let mesh = match train.mesh(process, machine.local_device()) {
        Ok(mesh) => mesh,
        Err(UnfitSpec(reason)) => return Ok(Predicted::Misfit(reason)),
    };
    Ok(Predicted::Row(Row {
        layout,
        data: mesh.data().size,
        memory: step_estimate(&train, &mesh)?.total(),
        sent: bytes_sent(&train, &mesh)?,
        time: step_time(&train, &mesh, machine, layout.zero)?,
    }))
}

/// The policies that differ: a layer whose parameters are gathered is made again in any case.
fn policies(train: &Train, zero: Zero) -> Vec<RematPolicy> {
    let all = match zero {
        Zero::Parameters => &[RematPolicy::Minimal, RematPolicy::Full][..],
        _ => &[RematPolicy::None, RematPolicy::Minimal, RematPolicy::Full],
    };
    match train.model.with_remat_policy(RematPolicy::None) {
        Some(_) => all.to_vec(),
        None => vec![RematPolicy::None],
    }
}

/// 1, 2, 4 and so on, as far as they divide the rows of a process. Without a row, 1 tells what is wrong.
fn divisors_by_two(rows: usize) -> impl Iterator<Item = usize> {
    let is_divisor =
        move |parts: &usize| *parts == 1 || *parts <= rows && rows.is_multiple_of(*parts);
    (0..16).map(|power| 1 << power).take_while(is_divisor)
}
