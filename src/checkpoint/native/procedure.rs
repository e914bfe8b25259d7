//! How a checkpoint comes about.

use super::share::Share;
use crate::checkpoint::spec::Commit;

/// What is the same for all checkpoints of a run. Several processes that save one give the same, but for their ranks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Procedure {
    /// How it becomes visible in a store; what several processes save does so by its name.
    pub commit: Commit,
    /// Which of several processes this one is, where they save together.
    pub share: Option<Share>,
}
