//! TensorBoard event files.
//!
//! The record framing is `tensorboard-rs`'s. The events are made here, because its own writer
//! panics when a disk is full, has no texts and does not replace the events of an interrupted run.

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use protobuf::{Message, RepeatedField};
use tensorboard_proto::event::{Event, SessionLog, SessionLog_SessionStatus};
use tensorboard_proto::summary::{
    Summary, Summary_Value, SummaryMetadata, SummaryMetadata_PluginData,
};
use tensorboard_proto::tensor::TensorProto;
use tensorboard_proto::tensor_shape::TensorShapeProto;
use tensorboard_proto::types::DataType;
use tensorboard_rs::record_writer::RecordWriter;

use super::console::warn_once;
use gimlet_storage::{GrowingFile, Path, Process, StorageError, Unsent};

/// Writes one TensorBoard run: a directory of event files.
///
/// The file is created at the first write. An error is reported once, and the next write tries
/// again with a new file, so a disk that was full for a while loses only the events of that time.
/// In a store the file is uploaded from time to time, and at the end.
pub struct EventWriter {
    dir: Path,
    first_step: Option<i64>,
    file: Option<GrowingFile>,
    /// The last reported error about lost events.
    failure: Option<StorageError>,
}

impl EventWriter {
    /// Creates a writer for a run that starts or resumes at `first_step`: TensorBoard drops the
    /// events of an interrupted predecessor for later steps. Without one, for steps in any order,
    /// nothing is dropped.
    pub fn new(dir: Path, first_step: Option<i64>) -> Self {
        Self { dir, first_step, file: None, failure: None }
    }

    /// Writes numbers at a step, and flushes them to the disk's cache.
    pub fn scalars<T: Into<String>>(
        &mut self,
        step: i64,
        scalars: impl IntoIterator<Item = (T, f64)>,
    ) {
        let values = scalars.into_iter().map(|(tag, number)| {
            let mut value = Summary_Value::new();
            value.set_tag(tag.into());
            value.set_simple_value(number as f32);
            value
        });
        self.summary(step, values.collect());
    }

    /// Writes a text, which TensorBoard shows as Markdown.
    pub fn text(&mut self, step: i64, tag: &str, markdown: &str) {
        let mut plugin = SummaryMetadata_PluginData::new();
        plugin.set_plugin_name("text".to_string());
        let mut metadata = SummaryMetadata::new();
        metadata.set_plugin_data(plugin);
        let mut tensor = TensorProto::new();
        tensor.set_dtype(DataType::DT_STRING);
        tensor.set_tensor_shape(TensorShapeProto::new());
        tensor.set_string_val(RepeatedField::from_vec(vec![markdown.as_bytes().to_vec()]));
        let mut value = Summary_Value::new();
        value.set_tag(tag.to_string());
        value.set_metadata(metadata);
        value.set_tensor(tensor);
        self.summary(step, vec![value]);
    }

    /// Ensures that everything written is stored durably. In a store, where the system's cache does
    /// not ensure that, the next write begins another file.
    ///
    /// # Errors
    /// A part of it was lost since the last call.
    pub fn settle(&mut self) -> Result<(), StorageError> {
        if !self.dir.is_on_disk() {
            self.finish();
        }
        self.failure.take().map_or(Ok(()), Err)
    }

    /// Bytes that a store may not have yet.
    pub fn unsent(&self) -> Option<Unsent> {
        self.file.as_ref().and_then(GrowingFile::unsent)
    }

    fn summary(&mut self, step: i64, values: Vec<Summary_Value>) {
        if values.is_empty() {
            return;
        }
        let mut summary = Summary::new();
        summary.set_value(RepeatedField::from_vec(values));
        let mut event = event_at(step);
        event.set_summary(summary);
        if let Err(error) = self.write(&event) {
            // A partly written event would make the rest of the file unreadable.
            self.file = None;
            self.warn(error);
        }
    }

    fn write(&mut self, event: &Event) -> io::Result<()> {
        if self.file.as_ref().is_some_and(GrowingFile::is_full) {
            self.finish();
        }
        let file = match &mut self.file {
            Some(file) => file,
            None => self.file.insert(start(&self.dir, self.first_step)?),
        };
        file.append(&record(event)?)?;
        if let Some(failure) = file.failure() {
            self.warn(failure.into());
        }
        Ok(())
    }

    fn finish(&mut self) {
        if let Some(Err(failure)) = self.file.take().map(GrowingFile::finish) {
            self.warn(failure.into());
        }
    }

    fn warn(&mut self, error: io::Error) {
        warn_once(&format!("cannot write TensorBoard events to {}: {error}", self.dir));
        self.failure = Some(StorageError::new("write events to", &self.dir, error));
    }
}

impl Drop for EventWriter {
    fn drop(&mut self) {
        self.finish();
    }
}

/// Creates an event file whose first records contain the version and the steps that it supersedes,
/// if any.
fn start(dir: &Path, first_step: Option<i64>) -> io::Result<GrowingFile> {
    dir.create_dir_all()?;
    let mut file = dir.join(&new_name()).grow()?;
    let mut version = event_at(0);
    version.set_file_version("brain.Event:2".to_string());
    file.append(&record(&version)?)?;
    if let Some(first_step) = first_step {
        let mut session = SessionLog::new();
        session.set_status(SessionLog_SessionStatus::START);
        let mut restart = event_at(first_step + 1);
        restart.set_session_log(session);
        let restart = record(&restart)?;
        // TensorBoard ignores the first start in a directory and purges events at
        // later ones; files of T5X have none. So each of Gimlet's files has two.
        file.append(&[restart.clone(), restart].concat())?;
    }
    Ok(file)
}

/// Returns a new file name of the form that TensorBoard looks for; it reads files in the order of
/// names.
fn new_name() -> String {
    static FILES: AtomicUsize = AtomicUsize::new(0);
    let seconds = now() as u64;
    let Process { host, pid, .. } = Process::this();
    // Zero-padded: several files of one second must sort in the order of their creation.
    let file = FILES.fetch_add(1, Ordering::Relaxed);
    format!("events.out.tfevents.{seconds:010}.{host}.{pid}.{file:04}")
}

/// Encodes an event for the file.
fn record(event: &Event) -> io::Result<Vec<u8>> {
    let mut framed = Vec::new();
    let bytes = event.write_to_bytes().map_err(io::Error::other)?;
    RecordWriter::new(&mut framed).write(&bytes)?;
    Ok(framed)
}

fn event_at(step: i64) -> Event {
    let mut event = Event::new();
    event.set_wall_time(now());
    event.set_step(step);
    event
}

/// Seconds since 1970.
fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |time| time.as_secs_f64())
}

/// Converts a printed gin configuration to Markdown: comments become headings, the rest code, as in
/// gin-config's `markdown`.
pub fn config_markdown(config: &str) -> String {
    let lines = config.lines().map(|line| match line.strip_prefix('#') {
        None => format!("    {line}"),
        Some(comment) => {
            let comment = comment.strip_prefix(' ').unwrap_or(comment);
            match comment {
                rule if rule.starts_with("====") => String::new(),
                none if none.starts_with("None") => "    # None.".to_string(),
                title if title.ends_with(':') => format!("#### {title}"),
                other => other.to_string(),
            }
        }
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns every event in the directory, files in the order of their names, checksums verified.
    fn read(dir: &Path) -> Vec<Event> {
        let files = dir.list().unwrap();
        files.iter().flat_map(|file| read_records(&file.read().unwrap())).collect()
    }

    fn scratch() -> (tempfile::TempDir, Path) {
        let dir = tempfile::tempdir().unwrap();
        let path = Path::try_from(dir.path()).unwrap();
        (dir, path)
    }

    fn read_records(mut bytes: &[u8]) -> Vec<Event> {
        let masked = |bytes: &[u8]| {
            crc32c::crc32c(bytes).rotate_right(15).wrapping_add(0xa282_ead8).to_le_bytes()
        };
        let mut events = Vec::new();
        while !bytes.is_empty() {
            let (length, rest) = bytes.split_at(8);
            let (length_crc, rest) = rest.split_at(4);
            assert_eq!(length_crc, masked(length));
            let length = u64::from_le_bytes(length.try_into().unwrap()) as usize;
            let (data, rest) = rest.split_at(length);
            let (data_crc, rest) = rest.split_at(4);
            assert_eq!(data_crc, masked(data));
            events.push(Event::parse_from_bytes(data).unwrap());
            bytes = rest;
        }
        events
    }

    /// Returns `(step, tag, value)` of every scalar that TensorBoard would show after its purges.
    fn shown(events: &[Event]) -> Vec<(i64, String, f32)> {
        let mut shown: Vec<(i64, String, f32)> = Vec::new();
        let mut started = false;
        for event in events {
            if event.has_session_log() && std::mem::replace(&mut started, true) {
                shown.retain(|(step, ..)| *step < event.get_step());
            }
            for value in event.get_summary().get_value() {
                let (tag, number) = (value.get_tag().to_string(), value.get_simple_value());
                shown.push((event.get_step(), tag, number));
            }
        }
        shown
    }

    #[test]
    fn scalars_are_read_back_with_their_steps() {
        let (_scratch, dir) = scratch();
        let mut writer = EventWriter::new(dir.join("train"), Some(0));
        writer.scalars(10, [("loss", 2.5), ("learning_rate/current", 0.01)]);
        writer.scalars(20, [("loss", f64::NAN)]);
        let events = read(&writer.dir);
        assert_eq!(events[0].get_file_version(), "brain.Event:2");
        let shown = shown(&events);
        assert_eq!(shown[0], (10, "loss".to_string(), 2.5));
        assert_eq!(shown[1], (10, "learning_rate/current".to_string(), 0.01));
        assert!(shown[2].2.is_nan());
    }

    #[test]
    fn texts_are_string_tensors_of_the_text_plugin() {
        let (_scratch, dir) = scratch();
        let mut writer = EventWriter::new(dir.clone(), Some(0));
        writer.text(0, "config", "    MODEL_DIR = '/x'\n");
        let events = read(&dir);
        let value = &events.last().unwrap().get_summary().get_value()[0];
        assert_eq!(value.get_tag(), "config");
        assert_eq!(value.get_metadata().get_plugin_data().get_plugin_name(), "text");
        assert_eq!(value.get_tensor().get_string_val()[0], b"    MODEL_DIR = '/x'\n");
    }

    #[test]
    fn a_resumed_run_supersedes_what_came_after_its_checkpoint() {
        let (_scratch, dir) = scratch();
        let mut killed = EventWriter::new(dir.clone(), Some(0));
        for step in [10, 20, 30] {
            killed.scalars(step, [("loss", f64::from(step as i32))]);
        }
        drop(killed);
        let mut resumed = EventWriter::new(dir.clone(), Some(20));
        resumed.scalars(30, [("loss", 31.0)]);
        let steps: Vec<(i64, f32)> =
            shown(&read(&dir)).into_iter().map(|(step, _, loss)| (step, loss)).collect();
        assert_eq!(steps, [(10, 10.0), (20, 20.0), (30, 31.0)]);
    }

    #[test]
    fn steps_in_any_order_supersede_nothing() {
        let (_scratch, dir) = scratch();
        for step in [30, 10] {
            EventWriter::new(dir.clone(), None).scalars(step, [("accuracy", 1.0)]);
        }
        let steps: Vec<i64> = shown(&read(&dir)).into_iter().map(|(step, ..)| step).collect();
        assert_eq!(steps, [30, 10]);
    }

    #[test]
    fn what_cannot_be_written_does_not_end_the_run() {
        let (_scratch, dir) = scratch();
        let file = dir.join("not a directory");
        file.write_atomic(b"").unwrap();
        let mut writer = EventWriter::new(file.join("train"), Some(0));
        writer.scalars(1, [("loss", 1.0)]);
        file.remove_file().unwrap();
        writer.scalars(2, [("loss", 2.0)]);
        assert_eq!(shown(&read(&writer.dir)), [(2, "loss".to_string(), 2.0)]);
        assert!(writer.settle().unwrap_err().to_string().contains("not a directory"));
        writer.settle().unwrap();
    }

    #[test]
    fn a_configuration_becomes_markdown_as_gin_s_does() {
        let config = "import t5x\n\n# Macros:\n# =====\nX = 1\n# None.\n";
        let expected = "    import t5x\n    \n#### Macros:\n\n    X = 1\n    # None.";
        assert_eq!(config_markdown(config), expected);
    }
}
