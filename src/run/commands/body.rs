//! Runs the body of a command, in `gimlet-torch`.

use crate::gin::config_str;
use crate::nn::cpu;
use crate::partition::{LocalDevice, Mesh, Process};
use crate::run::configure::{configure, registry};
use crate::run::doctor::BUILD;
use crate::run::failure::Failure;
use crate::run::interrupt::Interrupt;
use crate::run::library::Library;
use crate::session::context::Context;
use crate::session::kernel_trials::try_kernels;
use crate::telemetry::{self, Verbosity, set_verbosity};

use super::root::{Root, RootCommand};

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
    let configured = configure::<C::Spec>(command.gin(), &Library, color)?;
    set_verbosity(verbosity);
    eprint!("{}", configured.warnings);
    if let Some(signal) = interrupt.signal() {
        telemetry::notice("interrupted before it began; nothing was written");
        return Err(Failure::Interrupted(signal));
    }
    cpu::prepare();
    let partitioner = configured.spec.partitioner();
    let mesh = Mesh::new(partitioner, Process::ALONE, LocalDevice::available());
    telemetry::detail(&format!(
        "{}, device {:?}, {} threads",
        BUILD.trim_matches('\0'),
        mesh.device(),
        tch::get_num_threads()
    ));
    try_kernels(mesh.device());
    let context = Context {
        tasks: &configured.tasks,
        config_text: &config_str(&configured.config, &registry()),
        mesh,
        stop: interrupt.stop(),
    };
    command.run(&configured.spec, &context, &interrupt)
}
