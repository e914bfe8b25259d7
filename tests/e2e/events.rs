//! The numbers that TensorBoard would show for a folder of event files.

use std::collections::BTreeMap;
use std::path::Path;

use protobuf::Message;
use tensorboard_proto::event::Event;

/// Tag to step to number.
pub type Scalars = BTreeMap<String, BTreeMap<i64, f64>>;

/// Returns every number below `folder`, from the later file if several have the same step. Steps
/// that a restarted run did not reach again are dropped, as in TensorBoard.
pub fn read_scalars(folder: &Path) -> Scalars {
    let entries = std::fs::read_dir(folder).expect("the run has written events");
    let mut files: Vec<_> = entries.map(|entry| entry.expect("is readable").path()).collect();
    files.retain(|file| file.to_string_lossy().contains("tfevents"));
    files.sort();
    let mut scalars = Scalars::new();
    for file in files {
        for event in read_records(&std::fs::read(&file).expect("is readable")) {
            add(&mut scalars, &event);
        }
    }
    scalars
}

fn add(scalars: &mut Scalars, event: &Event) {
    let step = event.get_step();
    if event.has_session_log() {
        scalars.values_mut().for_each(|points| {
            points.split_off(&step);
        });
    }
    for value in event.get_summary().get_value() {
        if value.has_simple_value() {
            let points = scalars.entry(value.get_tag().to_string()).or_default();
            points.insert(step, f64::from(value.get_simple_value()));
        }
    }
}

/// Returns the events of a file up to its end, or to an incomplete record of a killed process. Each
/// record is its length, the checksum of that, the event, and the checksum of that.
fn read_records(mut bytes: &[u8]) -> Vec<Event> {
    const FRAME: usize = 8 + 4 + 4;
    let mut events = Vec::new();
    while bytes.len() >= FRAME {
        let length = u64::from_le_bytes(bytes[..8].try_into().expect("eight bytes")) as usize;
        if bytes.len() < length + FRAME {
            break;
        }
        let data = &bytes[12..12 + length];
        assert_eq!(bytes[8..12], masked_checksum(&bytes[..8]), "of a record's length");
        assert_eq!(bytes[12 + length..][..4], masked_checksum(data), "of a record");
        events.push(Event::parse_from_bytes(data).expect("records are events"));
        bytes = &bytes[length + FRAME..];
    }
    events
}

fn masked_checksum(bytes: &[u8]) -> [u8; 4] {
    crc32c::crc32c(bytes).rotate_right(15).wrapping_add(0xa282_ead8).to_le_bytes()
}
