//! Rows of Arrow IPC files, which list their batches, and of streams, which `datasets` saves.

use std::io::{self, Read, Seek, SeekFrom};
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_ipc::MessageHeader;
use arrow_ipc::reader::{FileReader, StreamReader};
use arrow_schema::{ArrowError, DataType, Schema};

use super::super::row_options::RowOptions;
use super::error::shorter;
use super::panics::decoded;
use super::position::RecordPosition;
use super::record::{Body, RecordReader};
use super::rows::Rows;
use super::seek::{Progress, SeekFile};
use crate::error::{DataError, file_error};
use gimlet_storage::Path;

const FILE_MAGIC: &[u8] = b"ARROW1";
/// Maximum size of the padded magic; the data after it begin at a multiple of eight.
const FILE_HEAD: usize = 64;
/// Marker before the length of a message; versions before 0.15 do not write it.
const CONTINUATION: [u8; 4] = [0xff; 4];
/// Number of batches used to estimate the number of rows: reading all would be slow over a network.
const JUDGED_BATCHES: usize = 64;

/// Estimates the number of rows of a file or stream from the headers of its first batches; the
/// number is exact if there are few batches.
///
/// # Errors
/// A file that cannot be read, or is not Arrow.
pub(crate) fn about_num_rows(path: &Path) -> Result<u64, DataError> {
    let damaged = |error: io::Error| not_arrow(path, &error);
    let mut file = SeekFile::open(path)?;
    let head = head_of(&mut file, path)?;
    let padded = head.strip_prefix(FILE_MAGIC).map(|rest| rest.iter().position(|byte| *byte != 0));
    let begin = padded.map_or(0, |at| (FILE_MAGIC.len() + at.unwrap_or(FILE_HEAD)) & !7);
    file.seek(SeekFrom::Start(begin as u64)).map_err(damaged)?;
    let (mut rows, mut bytes, mut batches) = (0, 0, 0);
    while batches < JUDGED_BATCHES {
        match next_head(&mut file).map_err(damaged)? {
            None => return Ok(rows),
            Some(head) => {
                rows += head.rows;
                bytes += head.bytes;
                batches += usize::from(head.is_batch);
            }
        }
    }
    Ok((rows as f64 * file.size() as f64 / bytes.max(1) as f64) as u64)
}

/// The header of a message.
struct Head {
    is_batch: bool,
    rows: u64,
    /// Bytes of the whole message.
    bytes: u64,
}

/// Reads the header of the next message and skips its body; `None` after the last message.
fn next_head(file: &mut SeekFile) -> io::Result<Option<Head>> {
    let begin = file.stream_position()?;
    if begin >= file.size() {
        // A stream may end without an end marker.
        return Ok(None);
    }
    let mut length = [0; 4];
    file.read_exact(&mut length)?;
    if length == CONTINUATION {
        file.read_exact(&mut length)?;
    }
    let length = u64::from(u32::from_le_bytes(length));
    if length == 0 {
        return Ok(None);
    }
    let mut metadata = Vec::new();
    file.by_ref().take(length).read_to_end(&mut metadata)?;
    let message = arrow_ipc::root_as_message(&metadata)
        .map_err(|error| io::Error::other(error.to_string()))?;
    let body = u64::try_from(message.bodyLength()).map_err(io::Error::other)?;
    let end = file.stream_position()?.saturating_add(body);
    file.seek(SeekFrom::Start(end))?;
    let batch = message.header_as_record_batch();
    let is_batch = message.header_type() == MessageHeader::RecordBatch;
    let rows = batch.map_or(0, |batch| batch.length().max(0) as u64);
    Ok(Some(Head { is_batch, rows, bytes: end - begin }))
}

/// Opens a file or stream at a position that a reader returned, or at its beginning.
pub(super) fn open_arrow(
    path: &Path,
    options: Arc<RowOptions>,
    position: RecordPosition,
) -> Result<Box<dyn RecordReader>, DataError> {
    decoded(path, || Ok(Box::new(ArrowRows::open_at(path, options, position)?) as _))
}

/// The batches of a file or stream, from its beginning on.
fn open_batches(path: &Path) -> Result<Box<dyn Batches>, DataError> {
    let damaged = |error: ArrowError| not_arrow(path, &error);
    let mut file = SeekFile::open(path)?;
    Ok(match head_of(&mut file, path)?.starts_with(FILE_MAGIC) {
        true => {
            let reader = FileReader::try_new(file, None).map_err(damaged)?;
            Box::new(Listed { reader, next: 0 })
        }
        false => {
            let progress = file.progress();
            let reader = StreamReader::try_new(file, None).map_err(damaged)?;
            Box::new(Stream { reader, progress })
        }
    })
}

/// The first bytes of the file; reading starts again at the beginning.
fn head_of(file: &mut SeekFile, path: &Path) -> Result<Vec<u8>, DataError> {
    let mut head = Vec::new();
    let read = file.by_ref().take(FILE_HEAD as u64).read_to_end(&mut head);
    read.and_then(|_| file.seek(SeekFrom::Start(0))).map_err(|error| file_error(path, error))?;
    Ok(head)
}

fn not_arrow(path: &Path, error: &dyn std::error::Error) -> DataError {
    file_error(path, format!("{error}; is it a whole Arrow file or stream?"))
}

/// The batches of a file or stream.
trait Batches: Send {
    /// The place of the next batch.
    fn place(&self) -> u64;

    /// Goes to a batch; `false` if it can be reached only by reading from the beginning.
    fn go_to(&mut self, place: u64) -> Result<bool, ArrowError>;

    /// The next batch.
    fn next(&mut self) -> Result<Option<RecordBatch>, ArrowError>;
}

/// Batches by their number.
struct Listed {
    reader: FileReader<SeekFile>,
    next: u64,
}

impl Batches for Listed {
    fn place(&self) -> u64 {
        self.next
    }

    fn go_to(&mut self, place: u64) -> Result<bool, ArrowError> {
        if place < self.reader.num_batches() as u64 {
            self.reader.set_index(place as usize)?;
        }
        self.next = place;
        Ok(true)
    }

    fn next(&mut self) -> Result<Option<RecordBatch>, ArrowError> {
        if self.next >= self.reader.num_batches() as u64 {
            return Ok(None);
        }
        self.next += 1;
        self.reader.next().transpose()
    }
}

/// Batches by the byte at which they begin.
struct Stream {
    reader: StreamReader<SeekFile>,
    progress: Arc<Progress>,
}

impl Batches for Stream {
    fn place(&self) -> u64 {
        self.progress.offset()
    }

    fn go_to(&mut self, place: u64) -> Result<bool, ArrowError> {
        // Dictionaries are written once, before the batches that need them.
        if has_dictionary(&self.reader.schema()) {
            return Ok(false);
        }
        if place > self.reader.get_ref().size() {
            return Err(ArrowError::IpcError("it is shorter than it was".to_string()));
        }
        self.reader.get_mut().seek(SeekFrom::Start(place))?;
        Ok(true)
    }

    fn next(&mut self) -> Result<Option<RecordBatch>, ArrowError> {
        let batch = self.reader.next().transpose()?;
        if batch.is_none() && self.progress.at_end() {
            let reason = "it ends without the mark that ends a stream";
            return Err(ArrowError::IpcError(reason.to_string()));
        }
        Ok(batch)
    }
}

fn has_dictionary(schema: &Schema) -> bool {
    fn within(dtype: &DataType) -> bool {
        match dtype {
            DataType::Dictionary(..) => true,
            DataType::List(field) | DataType::LargeList(field) => within(field.data_type()),
            DataType::FixedSizeList(field, _) => within(field.data_type()),
            DataType::Struct(fields) => fields.iter().any(|field| within(field.data_type())),
            _ => false,
        }
    }
    schema.fields().iter().any(|field| within(field.data_type()))
}

/// Reads row by row.
struct ArrowRows {
    path: Path,
    options: Arc<RowOptions>,
    batches: Box<dyn Batches>,
    batch: Option<Arc<Rows>>,
    /// `bytes` is the place of the batch, `within` the number of its rows already read.
    position: RecordPosition,
    checked: bool,
}

impl ArrowRows {
    /// Opens the file at a position that a reader returned, or at its beginning.
    fn open_at(
        path: &Path,
        options: Arc<RowOptions>,
        position: RecordPosition,
    ) -> Result<Self, DataError> {
        let start = RecordPosition::default();
        let batches = open_batches(path)?;
        let (path, batch) = (path.clone(), None);
        let mut rows = Self { path, options, batches, batch, position: start, checked: false };
        if position != start {
            rows.resume(position)?;
        }
        Ok(rows)
    }

    fn resume(&mut self, position: RecordPosition) -> Result<(), DataError> {
        let found = self.batches.go_to(position.bytes);
        if !found.map_err(|error| not_arrow(&self.path, &error))? {
            return self.skip(position.records);
        }
        let before = position.records - position.within;
        self.position = RecordPosition { records: before, within: 0, ..position };
        self.skip(position.within)?;
        match self.position.records == position.records {
            true => Ok(()),
            false => Err(shorter(&self.path)),
        }
    }

    /// Continues with the next batch; `false` at the end.
    fn next_batch(&mut self) -> Result<bool, DataError> {
        let path = self.path.clone();
        decoded(&path, || self.decode_batch())
    }

    fn decode_batch(&mut self) -> Result<bool, DataError> {
        let place = self.batches.place();
        let damaged = |error: &ArrowError| {
            let row = self.position.records + 1;
            file_error(&self.path, format!("batch at row {row}: {error}; is it complete?"))
        };
        let Some(batch) = self.batches.next().map_err(|error| damaged(&error))? else {
            self.batch = None;
            return Ok(false);
        };
        let rows = Rows::new(&batch, &self.options).map_err(|why| file_error(&self.path, why))?;
        if !self.checked {
            let checked = self.options.check(self.path.as_str(), &rows.kinds());
            checked.map_err(|reason| file_error(&self.path, reason))?;
            self.checked = true;
        }
        self.position = RecordPosition { bytes: place, within: 0, ..self.position };
        self.batch = Some(Arc::new(rows));
        Ok(true)
    }
}

impl RecordReader for ArrowRows {
    fn next_record(&mut self) -> Result<Option<Body>, DataError> {
        loop {
            let index = self.position.within as usize;
            if let Some(batch) = &self.batch
                && index < batch.len
            {
                let body = Body::Row { batch: batch.clone(), index };
                self.position.records += 1;
                self.position.within += 1;
                return Ok(Some(body));
            }
            if !self.next_batch()? {
                return Ok(None);
            }
        }
    }

    fn position(&self) -> RecordPosition {
        self.position
    }
}
