//! The gin files that the programs contain: library configurations, tasks, and runs.

pub use include_dir::Dir;
use include_dir::include_dir;

/// The files of `gin/`.
pub static GIN: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/../../gin");

/// The files of `tasks/`.
pub static TASKS: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/../../tasks");

/// The gin files of `runs/`, without their data.
pub static RUNS: Dir<'_> = include_dir!("$OUT_DIR/runs");
