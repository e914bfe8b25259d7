//! `gimlet launch` on several machines, whose launchers meet by libtorch's means.

use std::sync::Arc;

use super::failure::Failure;
use super::interrupt;
use super::launch::{LaunchArgs, Launched, ended};
use crate::launch::{Board, supervise_together};
use crate::partition::{MeetingPoint, Rendezvous};
use crate::telemetry;

/// Runs the command in processes of this machine, together with other machines.
///
/// # Errors
/// Mistakes in flags; the first failure of a process of any machine, if no restart is left.
pub fn launch_together(args: &LaunchArgs) -> Result<(), Failure> {
    let signals = interrupt::received().map_err(Failure::world)?;
    interrupt::release().map_err(Failure::world)?;
    let launched = Launched::read(args)?;
    // `gimlet` has printed the notices.
    let terms = launched.terms(args, &|_| {})?;
    let board = Arc::new(Board::new(terms.silence));
    let address = launched.group.endpoint.clone().expect("flags are refused without one");
    let point = MeetingPoint { address, node_rank: args.node_rank, terms: terms.clone() };
    let rendezvous = Rendezvous::begin(point, Arc::clone(&board)).map_err(Failure::world)?;
    let end = supervise_together(&launched.group, &terms, &board, &signals, &telemetry::notice);
    rendezvous.close();
    ended(&launched.group, end)
}
