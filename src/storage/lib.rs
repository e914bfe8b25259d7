//! L1: paths and files; the only module that knows buckets.
//!
//! A [`Path`] is written by a user: `gs://t5-data/x`, `hf://datasets/y`, `file:///z` or a plain
//! path. Parsing never accesses storage; every operation first locates the bytes: on this machine,
//! also if `--path_map` or `GIMLET_PATH_MAP` names a local copy of a remote prefix, or elsewhere
//! (`remote`). `docs/storage.md` describes the environment variables.
//! ```
//! # use gimlet_storage::Path;
//! let dir = Path::parse("gs://t5-data/vocabs").unwrap();
//! assert_eq!(dir.join("sentencepiece.model").to_string(), "gs://t5-data/vocabs/sentencepiece.model");
//! ```

mod abandoned;
mod credentials;
mod disk;
mod error;
mod files;
mod folders;
mod growing;
mod lease;
mod location;
mod lock;
mod matching;
mod path;
mod path_map;
mod pattern;
mod probe;
mod process;
mod ranges;
mod remote;
mod slow;
mod user_cache;
mod writer;

pub use credentials::{CREDENTIALS, Credentials};
pub use error::StorageError;
pub use folders::FolderEntry;
pub use growing::{GrowingFile, Unsent};
pub use lease::{Holder, Lease, Leased, Takeover};
pub use lock::{Lock, Locked};
pub use path::Path;
pub use path_map::{PATH_MAP_VARIABLE, parse_path_map, set_path_map};
pub use probe::{Outcome, Probe};
pub use process::Process;
pub use ranges::RangeFile;
pub use remote::{JsonRequest, Limits, OFFLINE_VARIABLE, OUTAGE_VARIABLE, Unanswered, set_limits};
pub use slow::{is_cut_off, set_observer};
pub use user_cache::user_cache;
pub use writer::FileWriter;
