//! The settings for writing a checkpoint.

use super::share::Share;
use crate::spec::Commit;

/// The settings that all checkpoints of a run share. Processes that save a checkpoint together use
/// the same settings, except for their ranks.
#[derive(Clone, Debug, Default)]
pub struct Procedure {
    /// How a checkpoint becomes visible in a store; a checkpoint of several processes always does
    /// so by its name.
    pub commit: Commit,
    /// This process's share of the work, when several processes save together.
    pub share: Option<Share>,
}
