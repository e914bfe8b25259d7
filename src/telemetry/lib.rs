//! The output of a run for its user: TensorBoard events, progress on the terminal, notices.
//!
//! Telemetry never ends a run. A failed write is reported once, and the run continues.
//!
//! ```no_run
//! use gimlet_storage::Path;
//! use gimlet_telemetry::{EventWriter, notice};
//! let mut events = EventWriter::new(Path::parse("/tmp/model/train").unwrap(), Some(0));
//! events.scalars(100, [("loss", 2.5)]);
//! notice("2 tasks have no validation split");
//! ```

mod console;
mod count;
mod events;
mod lines;
mod mlflow;
mod process;
mod progress;
mod read_events;
mod terminal;
mod wait;

pub use console::{
    Verbosity, counted, detail, detail_once, notice, notice_once, quoted_names, said_variable,
    set_verbosity, warn, warn_once,
};
pub use count::Count;
pub use events::{EventWriter, config_markdown};
pub use lines::MetricLines;
pub use mlflow::{MlflowError, MlflowRun, MlflowSettings, MlflowStatus};
pub use process::{
    Laps, available_on_host, cpu_seconds, peak_resident_bytes, read_bytes, total_on_host,
};
pub use progress::{Progress, Status, duration, thousands};
pub use read_events::{Ending, Logged, read_events};
pub use terminal::colors;
pub use wait::Wait;
