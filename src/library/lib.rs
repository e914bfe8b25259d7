//! The gin files that the programs contain: library configurations, and tasks.

pub use include_dir::Dir;
use include_dir::include_dir;

/// The files of `gin/`.
pub static GIN: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/../../gin");

/// The files of `tasks/`.
pub static TASKS: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/../../tasks");
