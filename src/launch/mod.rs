//! Many processes: finds this process's place among them.
//!
//! A launcher (torchrun, `gimlet launch`, srun, mpirun, horovodrun, a Job of Kubernetes) tells each
//! process its place by environment variables; T5X's scripts pass flags. [`World::find`] reads them
//! all. It opens no connection: that is the work of `partition`. [`supervise`] is a launcher itself, for the
//! processes of one machine.

mod devices;
mod environment;
mod error;
mod failure;
mod find;
mod flags;
mod kubernetes;
mod mpi;
mod slurm;
mod supervise;
mod torchrun;
mod workers;
mod world;

pub use devices::{num_present, num_visible};
pub use error::WorldError;
pub use failure::{WorkerFailure, status_of};
pub use flags::{DistributedArgs, host_and_port};
pub use supervise::{GroupEnd, supervise};
pub use workers::{ERROR_FILE, WorkerGroup, divided_cores, end_with_launcher};
pub use world::{Launcher, StoreOwner, World};
