//! Many processes: finds this process's place among them.
//!
//! A launcher (torchrun, `gimlet launch`, srun, mpirun, horovodrun, a Job of Kubernetes) tells each
//! process its place by environment variables; T5X's scripts pass flags. [`World::find`] reads them
//! all. It opens no connection: that is the work of `partition`.

mod environment;
mod error;
mod find;
mod flags;
mod kubernetes;
mod mpi;
mod slurm;
mod torchrun;
mod world;

pub use error::WorldError;
pub use flags::DistributedArgs;
pub use world::{Launcher, StoreOwner, World};
