//! Runs the body of a command, in `gimlet-torch`.

use std::env;
use std::sync::Arc;

use anyhow::anyhow;

use crate::gin::{Configurable as _, config_str, differences, tree};
use crate::nn::bridge::torch_version;
use crate::nn::cpu;
use crate::run::configure::{configure, registry};
use crate::run::doctor::{BUILD, describe_device};
use crate::run::failure::Failure;
use crate::run::gin::{Project, ReadingArgs};
use crate::run::interrupt::Interrupt;
use crate::run::library::Library;
use crate::run::output::write_error;
use crate::run::version;
use crate::run::world::world;
use crate::session::context::Context;
use crate::session::kernel_trials::try_kernels;
use crate::session::made_with::Values;
use crate::session::start_record::StartRecord;
use crate::storage::Path;
use crate::telemetry::{self, Verbosity, set_verbosity};

use super::joined::{end, join, laid_out};
use super::root_command::RootCommand;

/// The work of a command.
pub trait Body: RootCommand {
    /// Runs the spec, until it ends or a signal asks it to, and says how it ended.
    ///
    /// # Errors
    /// Those of the run; a signal that ended it.
    fn run(
        &self,
        spec: &Self::Spec,
        context: &Context<'_>,
        interrupt: &Interrupt,
    ) -> Result<(), Failure>;
}

/// Runs a command on the available device.
///
/// # Errors
/// Mistakes in the configuration, and the errors of the body.
pub fn run<C: Body>(command: &C, verbosity: Verbosity, color: bool) -> Result<(), Failure> {
    let interrupt = Interrupt::listen().map_err(Failure::world)?;
    let configured = configure::<C::Spec>(&*command.gin()?, &Library, color)?;
    set_verbosity(verbosity);
    write_error(&configured.warnings);
    unless_asked(&interrupt)?;
    cpu::prepare();
    let flags = command.distributed();
    let joined = join(world(&flags)?.as_ref(), &flags, interrupt.stop());
    let (processes, device) = joined.or_else(|failure| {
        unless_asked(&interrupt)?;
        Err(failure)
    })?;
    let place = processes.place();
    if !processes.is_first() {
        set_verbosity(Verbosity::Quiet);
    }
    let (processes, mesh, axes) = laid_out(&configured.spec, processes, device)?;
    telemetry::detail(&format!(
        "{}, process {} of {}, device {:?}, {} threads",
        BUILD.trim_matches('\0'),
        place.rank,
        place.count,
        mesh.device(),
        tch::get_num_threads()
    ));
    try_kernels(mesh.device());
    let processes = Arc::new(processes);
    let bindings = &configured.bindings;
    let places = bindings.iter().map(|(name, bound)| (name.clone(), bound.place.clone()));
    let params = bindings.iter().map(|(name, bound)| (name.clone(), bound.value.clone()));
    let registry = registry();
    let values = tree(&configured.config, &registry, C::Spec::schema());
    let context = Context {
        tasks: &configured.tasks,
        config_text: &config_str(&configured.config, &registry),
        changes: &|earlier| changes(earlier, &values),
        values: values.clone(),
        params: params.collect(),
        start: StartRecord {
            command: env::args().collect(),
            processes: place.count,
            device: describe_device(mesh.local_device()),
            gimlet: version::version(),
            libtorch: torch_version().to_string(),
            bound_at: places.collect(),
            ..StartRecord::default()
        },
        mesh,
        axes,
        processes: Arc::clone(&processes),
        verbosity,
        stop: interrupt.stop(),
    };
    let done = command.run(&configured.spec, &context, &interrupt);
    drop(context);
    match (done, Arc::into_inner(processes)) {
        (Err(failure), Some(processes)) => Err(end(processes, failure)),
        (done, _) => done,
    }
}

/// Returns the differences between an earlier run's `config.gin` and these values, as `gimlet gin diff` prints them; none
/// if that file is not readable any more.
fn changes(earlier: &Path, now: &Values) -> Vec<String> {
    let Ok(project) = Project::load(&[earlier.to_string()], &ReadingArgs::default(), &[]) else {
        return Vec::new();
    };
    let Ok(root) = project.root() else { return Vec::new() };
    let earlier = tree(&project.loaded.config, &project.registry, root);
    differences(&[&earlier, now]).iter().map(ToString::to_string).collect()
}

/// Fails if checkpoints were left out, with the damage of each; the work on the others is done.
///
/// # Errors
/// At least one was left out.
pub fn unless_left_out(damaged: &[String]) -> Result<(), Failure> {
    match damaged {
        [] => Ok(()),
        damaged => Err(Failure::World(anyhow!("left out: {}", damaged.join("; ")))),
    }
}

/// Ends a run that a signal has asked to end before it began.
fn unless_asked(interrupt: &Interrupt) -> Result<(), Failure> {
    let Some(signal) = interrupt.signal() else { return Ok(()) };
    telemetry::notice("interrupted before it began; nothing was written");
    Err(Failure::Interrupted(signal))
}
