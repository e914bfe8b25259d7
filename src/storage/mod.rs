//! L1: paths and files; the only place that will know buckets.
//!
//! A [`Path`] is what a user wrote: `gs://t5-data/x`, `hf://datasets/y`, `file:///z` or a plain
//! path. Parsing never touches anything; every operation first asks [`Path::local`] where the bytes
//! lie. Remote prefixes lie in local folders that `--path_map` or `GIMLET_PATH_MAP` names.
//! ```
//! # use gimlet::storage::Path;
//! let dir = Path::parse("gs://t5-data/vocabs").unwrap();
//! assert_eq!(dir.join("sentencepiece.model").to_string(), "gs://t5-data/vocabs/sentencepiece.model");
//! ```

mod error;
mod files;
mod lock;
mod path;
mod path_map;
mod writer;

pub use error::StorageError;
pub use lock::{FolderLock, Locked};
pub use path::Path;
pub use path_map::{PATH_MAP_VARIABLE, parse_path_map, set_path_map};
pub use writer::FileWriter;
