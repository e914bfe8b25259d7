//! The state from which reading continues in the middle of a frame, as saved in positions.

use serde::{Deserialize, Serialize};

/// The state of a frame between two of its blocks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(in super::super) struct Pause {
    /// The window descriptor in the frame's header.
    pub descriptor: u8,
    pub has_checksum: bool,
    /// The codes and offsets that blocks may refer to, and the last bytes. Saved compressed, in
    /// hexadecimal digits.
    #[serde(with = "packed")]
    pub dictionary: Vec<u8>,
}

/// A dictionary as text in a saved position: compression reduces it to a third, hexadecimal digits
/// double that.
mod packed {
    use std::io::Read;

    use serde::de::Error as _;
    use serde::{Deserializer, Serializer};

    use super::super::LARGEST_WINDOW;
    use crate::source::read::digits;

    /// Codes and offsets take less than a kilobyte.
    const LARGEST: u64 = LARGEST_WINDOW + (1 << 10);

    pub(super) fn serialize<S: Serializer>(
        dictionary: &[u8],
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        let packed = zstd::bulk::compress(dictionary, 1).expect("memory is compressed");
        serializer.serialize_str(&digits::of(&packed))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Vec<u8>, D::Error> {
        let packed = digits::read(deserializer)?;
        let unpacked = zstd::stream::read::Decoder::new(&packed[..]).map_err(D::Error::custom)?;
        let mut dictionary = Vec::new();
        let read = unpacked.take(LARGEST + 1).read_to_end(&mut dictionary);
        match read.map_err(D::Error::custom)? as u64 {
            0..=LARGEST => Ok(dictionary),
            _ => Err(D::Error::custom("the window is longer than 8 MiB")),
        }
    }
}
