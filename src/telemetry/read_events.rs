//! Reads the numbers in TensorBoard's event files, as they are found in the folders of runs: written by Gimlet, by T5X,
//! or still being written.

use std::io::{self, Read};

use prost::Message;

/// The greatest length of an event in bytes; a damaged length must not fill the memory.
const MAX_EVENT: u64 = 64 << 20;

/// An entry of an event file.
#[derive(Clone, Debug, PartialEq)]
pub enum Logged {
    /// A process began to write: what an earlier one wrote for this step and later ones does not count.
    Restart {
        /// The first step that is written again.
        step: i64,
    },
    /// A number.
    Scalar {
        /// The step.
        step: i64,
        /// The name of the metric.
        tag: String,
        /// Its value.
        value: f64,
    },
}

/// The way in which a file ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// After a whole event.
    Whole,
    /// Within an event, as in a file that is being written.
    CutOff,
    /// At an event whose checksum is wrong: the rest of the file cannot be read.
    Damaged {
        /// Byte at which the event begins.
        at: u64,
    },
}

/// `tensorflow.Event`, as far as it is read here, with the messages in it.
#[derive(Clone, PartialEq, Message)]
struct Event {
    #[prost(int64, tag = "2")]
    step: i64,
    #[prost(message, optional, tag = "5")]
    summary: Option<Summary>,
    #[prost(message, optional, tag = "7")]
    session_log: Option<SessionLog>,
}

#[derive(Clone, PartialEq, Message)]
struct SessionLog {
    #[prost(int32, tag = "1")]
    status: i32,
}

#[derive(Clone, PartialEq, Message)]
struct Summary {
    #[prost(message, repeated, tag = "1")]
    values: Vec<SummaryValue>,
}

#[derive(Clone, PartialEq, Message)]
struct SummaryValue {
    #[prost(string, tag = "1")]
    tag: String,
    #[prost(float, optional, tag = "2")]
    simple_value: Option<f32>,
    #[prost(message, optional, tag = "8")]
    tensor: Option<TensorOfEvent>,
}

#[derive(Clone, PartialEq, Message)]
struct TensorOfEvent {
    #[prost(int32, tag = "1")]
    dtype: i32,
    #[prost(bytes = "vec", tag = "4")]
    content: Vec<u8>,
    #[prost(float, repeated, tag = "5")]
    floats: Vec<f32>,
}

/// The status of a session that begins.
const START: i32 = 1;

/// TensorFlow's number of float32.
const FLOAT: i32 = 1;

/// Passes the entries of an event file to `each`, and says how the file ended.
///
/// # Errors
/// The file cannot be read.
pub fn read_events(mut file: impl Read, mut each: impl FnMut(Logged)) -> io::Result<Ending> {
    let mut at = 0;
    loop {
        let mut header = [0; 12];
        match filled(&mut file, &mut header)? {
            0 => return Ok(Ending::Whole),
            12 => {}
            _ => return Ok(Ending::CutOff),
        }
        let (length, sum) = header.split_at(8);
        let size = u64::from_le_bytes(length.try_into().expect("it has eight bytes"));
        if masked(length) != sum || size > MAX_EVENT {
            return Ok(Ending::Damaged { at });
        }
        let mut bytes = vec![0; size as usize + 4];
        if filled(&mut file, &mut bytes)? < bytes.len() {
            return Ok(Ending::CutOff);
        }
        let (data, sum) = bytes.split_at(size as usize);
        match Event::decode(data) {
            Ok(event) if masked(data) == sum => pass(&event, &mut each),
            _ => return Ok(Ending::Damaged { at }),
        }
        at += header.len() as u64 + bytes.len() as u64;
    }
}

/// Fills the buffer as far as the file goes, and returns the number of bytes.
fn filled(file: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut count = 0;
    while count < buffer.len() {
        match file.read(&mut buffer[count..]) {
            Ok(0) => break,
            Ok(read) => count += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(count)
}

/// The checksum of TFRecord files.
fn masked(bytes: &[u8]) -> [u8; 4] {
    crc32c::crc32c(bytes).rotate_right(15).wrapping_add(0xa282_ead8).to_le_bytes()
}

fn pass(event: &Event, each: &mut impl FnMut(Logged)) {
    let step = event.step;
    if event.session_log.as_ref().is_some_and(|log| log.status == START) {
        each(Logged::Restart { step });
    }
    for value in event.summary.iter().flat_map(|summary| &summary.values) {
        if let Some(number) = number(value) {
            each(Logged::Scalar { step, tag: value.tag.clone(), value: number });
        }
    }
}

/// Returns the number of a value. T5X writes a tensor with one element, Gimlet a plain number.
fn number(value: &SummaryValue) -> Option<f64> {
    let of_tensor = || {
        let tensor = value.tensor.as_ref().filter(|tensor| tensor.dtype == FLOAT)?;
        let content = || Some(f32::from_le_bytes(tensor.content[..].try_into().ok()?));
        tensor.floats.first().copied().or_else(content)
    };
    value.simple_value.or_else(of_tensor).map(f64::from)
}

#[cfg(test)]
mod tests {
    use super::super::events::EventWriter;
    use super::*;
    use gimlet_storage::Path;

    /// Returns the bytes of a file with a number at two steps.
    fn file() -> Vec<u8> {
        let dir = tempfile::tempdir().unwrap();
        let folder = Path::try_from(dir.path()).unwrap();
        let mut writer = EventWriter::new(folder.clone(), Some(10));
        writer.scalars(20, [("loss", 2.5)]);
        writer.text(20, "config", "x = 1");
        writer.scalars(30, [("loss", f64::NAN)]);
        drop(writer);
        folder.list().unwrap()[0].read().unwrap()
    }

    fn read(bytes: &[u8]) -> (Vec<Logged>, Ending) {
        let mut found = Vec::new();
        let ending = read_events(bytes, |logged| found.push(logged)).unwrap();
        (found, ending)
    }

    #[test]
    fn numbers_are_read_as_they_were_written() {
        let (found, ending) = read(&file());
        assert_eq!(found[..2], [Logged::Restart { step: 11 }, Logged::Restart { step: 11 }]);
        let loss = Logged::Scalar { step: 20, tag: "loss".to_string(), value: 2.5 };
        assert_eq!(found[2], loss);
        let is_nan =
            |logged: &Logged| matches!(logged, Logged::Scalar { value, .. } if value.is_nan());
        assert!(is_nan(&found[3]) && found.len() == 4);
        assert_eq!(ending, Ending::Whole);
    }

    #[test]
    fn a_file_ends_where_it_is_cut_off_or_damaged() {
        let whole = file();
        let (found, ending) = read(&whole[..whole.len() - 3]);
        assert_eq!((found.len(), ending), (3, Ending::CutOff));
        let mut damaged = whole.clone();
        *damaged.last_mut().unwrap() ^= 1;
        let (found, ending) = read(&damaged);
        assert!(matches!(ending, Ending::Damaged { at } if at > 0) && found.len() == 3);
        damaged[3] = 0xff;
        assert_eq!(read(&damaged), (Vec::new(), Ending::Damaged { at: 0 }));
    }

    #[test]
    fn a_tensor_of_t5x_is_a_number() {
        let content = 0.5f32.to_le_bytes().to_vec();
        let tensor = TensorOfEvent { dtype: FLOAT, content, floats: Vec::new() };
        let mut value = SummaryValue { tensor: Some(tensor), ..SummaryValue::default() };
        assert_eq!(number(&value), Some(0.5));
        value.tensor.as_mut().unwrap().dtype = 7;
        assert_eq!(number(&value), None);
    }
}
