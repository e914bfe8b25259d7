//! The mesh of a run, on which everything can be divided.

use crate::partition::{LocalDevice, Mesh, Process};
use crate::session::check::{UnfitSpec, check_mesh};

use super::inputs::training_shape;
use super::spec::Train;

impl Train {
    /// Returns the mesh of the processes.
    ///
    /// # Errors
    /// They cannot divide the model or a microbatch.
    pub fn mesh(&self, process: Process, device: LocalDevice) -> Result<Mesh, UnfitSpec> {
        let mesh = Mesh::new(&self.partitioner, process, device);
        let mesh = mesh.map_err(|misfit| UnfitSpec(misfit.to_string()))?;
        check_divides(self, &mesh).map(|()| mesh)
    }
}

/// Ensures that the processes can divide the model and every microbatch.
///
/// # Errors
/// They cannot.
fn check_divides(spec: &Train, mesh: &Mesh) -> Result<(), UnfitSpec> {
    let lengths = training_shape(spec)?.lengths;
    check_mesh(mesh, &spec.model, &lengths)?;
    let trainer = spec.trainer_cls.0.trainer();
    let (rows, parts) = (spec.train_dataset_cfg.batch_size, trainer.num_microbatches());
    let (count, together) = (mesh.data().size, spec.model.loss_spec().rows_together());
    let divisor = parts * count * together;
    if rows.is_multiple_of(divisor) {
        return Ok(());
    }
    let parts_said = if parts > 1 { format!(" of {parts} microbatches") } else { String::new() };
    let divided = match together {
        1 => format!("among {count} processes"),
        _ => format!(
            "into micro-batches of {together} rows (losses.mean_of_microbatches.rows), the same number for each process"
        ),
    };
    let fits = (rows / divisor).max(1) * divisor;
    Err(UnfitSpec(format!(
        "a batch of {rows} rows{parts_said} cannot be divided {divided}: set BATCH_SIZE = {fits}, or another \
         multiple of {divisor}"
    )))
}
