//! Checksums that a store has of its files, and sends with their bytes.

use object_store::client::HttpResponse;

use super::failure::Failure;

/// The CRC-32C of a whole file, according to the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Crc32c(u32);

impl Crc32c {
    /// Reads the checksum that Google's stores send with every answer for a file: `x-goog-hash:
    /// crc32c=n03x6A==`, which is big-endian in Base64. If the store decompresses a file on the
    /// way, the checksum does not match the received bytes and is ignored.
    pub(super) fn of_response(response: &HttpResponse) -> Option<Self> {
        let headers = response.headers();
        let encoding = headers.get("x-goog-stored-content-encoding");
        if encoding.is_some_and(|encoding| encoding != "identity") {
            return None;
        }
        let hashes = headers.get_all("x-goog-hash").into_iter();
        let hashes = hashes.filter_map(|value| value.to_str().ok());
        let mut hashes = hashes.flat_map(|value| value.split(',')).map(str::trim);
        hashes.find_map(|hash| decode(hash.strip_prefix("crc32c=")?)).map(Self)
    }
}

/// Decodes four bytes in Base64 as a big-endian number.
fn decode(text: &str) -> Option<u32> {
    const DIGITS: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let digits = text.strip_suffix("==").filter(|digits| digits.len() == 6)?;
    let add = |sum: u64, digit| Some(sum << 6 | DIGITS.find(digit)? as u64);
    // 36 bits, of which 32 are used.
    digits.chars().try_fold(0, add).map(|bits| (bits >> 4) as u32)
}

/// The running checksum of a file that is read from its first byte to its last.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Running {
    expected: Crc32c,
    sum: u32,
    count: u64,
}

impl Running {
    /// Starts before the first byte.
    pub(crate) fn new(expected: Crc32c) -> Self {
        Self { expected, sum: 0, count: 0 }
    }

    /// Adds the next bytes.
    pub(crate) fn add(&mut self, bytes: &[u8]) {
        self.sum = crc32c::crc32c_append(self.sum, bytes);
        self.count += bytes.len() as u64;
    }

    /// Compares the checksum after the last byte.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        let Self { expected: Crc32c(expected), sum, count } = *self;
        if sum == expected {
            return Ok(());
        }
        Err(Failure::Damaged(format!(
            "the CRC-32C of its {count} bytes is {sum:08x}, and the store says {expected:08x}: they were \
             damaged on the way or in the store; read the file again, or if that fails, upload it again"
        )))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_read_from_base64() {
        // The example of Google's documentation of `x-goog-hash`.
        assert_eq!(decode("n03x6A=="), Some(0x9f4d_f1e8));
        assert_eq!(decode("AAAAAA=="), Some(0));
        for odd in ["n03x6A=", "n03x6A", "n03x6!==", "n03x6AAA"] {
            assert_eq!(decode(odd), None, "{odd}");
        }
    }
}
