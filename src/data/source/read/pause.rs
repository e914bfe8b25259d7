//! The state from which decompression continues, as saved in positions.

use serde::{Deserialize, Serialize};

/// The state of a deflate stream between two of its symbols.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Pause {
    /// The window to which the stream may refer: the last 32 KiB. Saved deflated, in hexadecimal
    /// digits.
    #[serde(with = "packed")]
    pub window: Vec<u8>,
    /// Within a block, the lengths of its codes for literals and for distances.
    pub codes: Option<(Vec<u8>, Vec<u8>)>,
    pub in_last_block: bool,
}

/// A window as text in a saved position: deflate reduces it to a third, hexadecimal digits double
/// that.
mod packed {
    use std::io::Read;

    use flate2::Compression;
    use flate2::read::{DeflateDecoder, DeflateEncoder};
    use serde::de::Error as _;
    use serde::{Deserializer, Serializer};

    use super::super::{digits, inflate::WINDOW};

    pub(super) fn serialize<S: Serializer>(
        window: &[u8],
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        let mut deflated = Vec::new();
        let packed = DeflateEncoder::new(window, Compression::default()).read_to_end(&mut deflated);
        packed.expect("memory is readable");
        serializer.serialize_str(&digits::of(&deflated))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Vec<u8>, D::Error> {
        let deflated = digits::read(deserializer)?;
        let mut window = Vec::new();
        let mut bytes = DeflateDecoder::new(&deflated[..]).take(WINDOW as u64 + 1);
        bytes.read_to_end(&mut window).map_err(D::Error::custom)?;
        match window.len() {
            0..=WINDOW => Ok(window),
            _ => Err(D::Error::custom("the window is longer than 32 KiB")),
        }
    }
}
