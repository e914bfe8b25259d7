//! CRC-32, as in gzip files, of texts and of texts in parts; Adler-32, as in zlib streams.

use flate2::Crc;

/// The CRC-32 of some bytes.
pub(super) fn crc_of(bytes: &[u8]) -> u32 {
    let mut crc = Crc::new();
    crc.update(bytes);
    crc.sum()
}

/// The contribution of a text's CRC-32 to that of the text followed by `bytes` more bytes: the CRC
/// times x^(8 bytes), as polynomials modulo CRC-32's, whose highest power is the lowest bit.
pub(super) fn crc_before(crc: u32, bytes: u64) -> u32 {
    let (mut product, mut power, mut left) = (crc, 1 << (31 - 8), bytes);
    while left > 0 {
        if left & 1 == 1 {
            product = times(product, power);
        }
        power = times(power, power);
        left >>= 1;
    }
    product
}

/// The product of two polynomials modulo that of CRC-32.
fn times(one: u32, mut other: u32) -> u32 {
    let mut product = 0;
    for power in (0..32).rev() {
        if one >> power & 1 == 1 {
            product ^= other;
        }
        // Times x.
        other = (other >> 1) ^ if other & 1 == 1 { 0xedb8_8320 } else { 0 };
    }
    product
}

/// The Adler-32 of a text followed by these bytes; that of an empty text is 1 (RFC 1950).
pub(super) fn adler_behind(sum: u32, bytes: &[u8]) -> u32 {
    const MODULUS: u32 = 65521;
    let (mut low, mut high) = (sum & 0xffff, sum >> 16);
    // The largest number of bytes whose sums fit in 32 bits.
    for part in bytes.chunks(5552) {
        for byte in part {
            low += u32::from(*byte);
            high += low;
        }
        (low, high) = (low % MODULUS, high % MODULUS);
    }
    high << 16 | low
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn adler_is_that_of_zlib() {
        // The last four bytes of `flate2`'s output, highest first.
        for text in [vec![], b"Wikipedia".to_vec(), vec![0xff; 100_000]] {
            let mut zlib = Vec::new();
            let compression = flate2::Compression::fast();
            let mut encoder = flate2::read::ZlibEncoder::new(&text[..], compression);
            std::io::Read::read_to_end(&mut encoder, &mut zlib).unwrap();
            let written = zlib.last_chunk().copied().map(u32::from_be_bytes);
            let (first, second) = text.split_at(text.len() / 3);
            assert_eq!(Some(adler_behind(adler_behind(1, first), second)), written);
        }
    }

    proptest! {
        #[test]
        fn crcs_of_parts_make_that_of_the_whole(
            one in prop::collection::vec(any::<u8>(), 0..50),
            other in prop::collection::vec(any::<u8>(), 0..400),
        ) {
            let joined = crc_before(crc_of(&one), other.len() as u64) ^ crc_of(&other);
            prop_assert_eq!(joined, crc_of(&[one, other].concat()));
        }
    }
}
