//! The file of a mapping beside its data: an array of NumPy, `[samples, 3]` of u32.
//!
//! Upstream's file is named after some of the settings, so that a file of other data or of another `use_nsp` has the same
//! name. Ours has a checksum of the sentences and of all settings in its name too. Upstream's is read if it is there and
//! its samples are possible ones of these data.

use md5::{Digest, Md5};

use super::index::Index;
use super::mapping::{MappingOptions, SampleRow, build_mapping};
use crate::error::{DataError, file_error};
use gimlet_storage::Path;

const MAGIC: &[u8] = b"\x93NUMPY\x01\x00";
/// NumPy aligns an array's beginning in its file.
const ALIGNMENT: usize = 64;

/// Sentences of an index, as samples are drawn from them.
struct Sentences {
    documents: Vec<u64>,
    lengths: Vec<u32>,
}

impl Sentences {
    fn read(index: &Index) -> Result<Self, DataError> {
        if index.num_sentences > u32::MAX.into() {
            let reason = format!(
                "it has {} sentences, and samples are drawn from at most {}: divide the data",
                index.num_sentences,
                u32::MAX
            );
            return Err(file_error(index.path(), reason));
        }
        let documents = index.documents(0..index.num_documents)?;
        Ok(Self { documents, lengths: index.lengths(0..index.num_sentences)? })
    }

    /// A checksum of the sentences and of the settings that upstream's name lacks, in hexadecimal.
    fn checksum(&self, options: &MappingOptions) -> String {
        let mut sum = Md5::new();
        sum.update(options.min_sentences.to_le_bytes());
        sum.update(options.short_ratio().to_le_bytes());
        self.documents.iter().for_each(|first| sum.update(first.to_le_bytes()));
        self.lengths.iter().for_each(|length| sum.update(length.to_le_bytes()));
        sum.finalize()[..8].iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Whether each sample is a run of sentences of one document, as long as the settings say.
    fn allow(&self, rows: &[SampleRow], options: &MappingOptions) -> bool {
        rows.iter().all(|&[first, behind, target]| {
            let (first, behind) = (u64::from(first), u64::from(behind));
            let document = self.documents.partition_point(|start| *start <= first);
            let end = self.documents.get(document).copied().unwrap_or(0);
            first + options.min_sentences <= behind
                && behind <= end
                && (2..=options.max_length).contains(&target)
        })
    }
}

/// The samples of the files with this prefix, from the mapping's file if there is one; else they are drawn, and written for
/// the next time. `name` is a part of the file's name.
///
/// # Errors
/// The index cannot be read. A folder in which no file can be written is only noted.
pub(super) fn samples_of(
    prefix: &Path,
    index: &Index,
    name: &str,
    options: &MappingOptions,
) -> Result<Vec<SampleRow>, DataError> {
    let sentences = Sentences::read(index)?;
    let stem = stem(name, options);
    let own = prefix.suffixed(&format!("{stem}_{}.npy", sentences.checksum(options)));
    let read = |path: &Path| -> Result<Option<Vec<SampleRow>>, DataError> {
        let rows = from_npy(&path.read()?).filter(|rows| sentences.allow(rows, options));
        if rows.is_none() {
            gimlet_telemetry::notice_once(&format!(
                "`{path}` has samples of other data or settings, and is not used"
            ));
        }
        Ok(rows)
    };
    let upstream = prefix.suffixed(&format!("{stem}.npy"));
    for path in [&own, &upstream] {
        if is_there(path)
            && let Some(rows) = read(path)?
        {
            if path == &upstream {
                gimlet_telemetry::notice_once(&format!(
                    "the samples of `{prefix}` are those of `{upstream}`, which t5-experiments wrote"
                ));
            }
            return Ok(rows);
        }
    }
    let rows = build_mapping(&sentences.documents, &sentences.lengths, options);
    if let Err(error) = own.write_atomic(&to_npy(&rows)) {
        gimlet_telemetry::notice_once(&format!(
            "the samples of `{prefix}` are drawn again at each start: {error}"
        ));
    }
    Ok(rows)
}

/// Whether a file is there that need not be: one that cannot be looked for counts as absent.
fn is_there(path: &Path) -> bool {
    path.exists().unwrap_or_else(|error| {
        gimlet_telemetry::notice_once(&format!("`{path}` is not used: {error}"));
        false
    })
}

/// The part of the names of a mapping's files after the prefix. Source: `get_samples_mapping` of
/// `megatron/data/dataset_utils.py`.
fn stem(name: &str, options: &MappingOptions) -> String {
    let MappingOptions { num_epochs, num_samples, max_length, short_seq_prob, seed, .. } = options;
    let epochs = num_epochs.map_or(String::new(), |count| format!("_{count}ep"));
    let samples = num_samples.map_or(String::new(), |count| format!("_{count}mns"));
    format!("_{name}_indexmap{epochs}{samples}_{max_length}msl_{short_seq_prob:.2}ssp_{seed}s")
}

/// The bytes that `numpy.save` writes.
fn to_npy(rows: &[SampleRow]) -> Vec<u8> {
    let mut header =
        format!("{{'descr': '<u4', 'fortran_order': False, 'shape': ({}, 3), }}", rows.len());
    let before = MAGIC.len() + 2;
    let padded = (before + header.len() + 1).next_multiple_of(ALIGNMENT) - before - 1;
    header = format!("{header:padded$}\n");
    let mut bytes = MAGIC.to_vec();
    bytes.extend((header.len() as u16).to_le_bytes());
    bytes.extend(header.as_bytes());
    bytes.extend(rows.as_flattened().iter().flat_map(|number| number.to_le_bytes()));
    bytes
}

/// The samples of an array; `None` if it is not one of samples.
fn from_npy(bytes: &[u8]) -> Option<Vec<SampleRow>> {
    let (length, rest) = bytes.strip_prefix(MAGIC)?.split_first_chunk::<2>()?;
    let (header, numbers) = rest.split_at_checked(u16::from_le_bytes(*length).into())?;
    let header = std::str::from_utf8(header).ok()?;
    let (count, _) = header.split_once("'shape': (")?.1.split_once(", 3)")?;
    let count: usize = count.parse().ok()?;
    let is_plain = header.contains("'<u4'") && header.contains("'fortran_order': False");
    if !is_plain || Some(numbers.len()) != count.checked_mul(size_of::<SampleRow>()) {
        return None;
    }
    let (numbers, _) = numbers.as_chunks::<4>();
    let (rows, _) = numbers.as_chunks::<3>();
    Some(rows.iter().map(|row| row.map(u32::from_le_bytes)).collect())
}
