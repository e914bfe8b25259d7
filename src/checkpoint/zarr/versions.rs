//! Distinguishes the versions of zarr by the names of their files.

use super::metadata::{Metadata, Refusal};
use super::{v2, v3};

impl Metadata {
    /// The metadata files, one for each version of zarr.
    pub const FILES: [&'static str; 2] = [v2::FILE_NAME, v3::FILE_NAME];

    /// Parses the text of the file with this name.
    pub fn parse(file: &str, text: &[u8]) -> Result<Self, Refusal> {
        let parsed = if file == v2::FILE_NAME { v2::parse(text) } else { v3::parse(text) };
        let metadata = parsed.map_err(|refusal| match refusal {
            Refusal::Damaged(reason) => Refusal::Damaged(format!("`{file}` {reason}")),
            Refusal::Unsupported(what) => Refusal::Unsupported(format!("zarr array with {what}")),
        })?;
        metadata.check(file)?;
        Ok(metadata)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Metadata {
        /// Returns the reason for refusing a text in which `from` is replaced by `to`.
        pub fn refusal(file: &str, text: &str, from: &str, to: &str) -> String {
            match Self::parse(file, text.replace(from, to).as_bytes()) {
                Err(Refusal::Damaged(reason) | Refusal::Unsupported(reason)) => reason,
                Ok(_) => panic!("{to} was read"),
            }
        }
    }
}
