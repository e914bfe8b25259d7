//! The file of a mapping beside its data: an array of NumPy, `[samples, 3]` of u32.
//!
//! Upstream's file is named after some of the settings, so that a file of other data or of another `use_nsp` has the same
//! name. Ours has a checksum of the sentences and of all settings in its name too. Upstream's is read if it is there and
//! its samples are possible ones of these data.

use std::ops::Range;

use md5::{Digest, Md5};

use super::hexadecimal;
use super::index::Index;
use super::mapping::{MappingOptions, SampleRow, build_mapping};
use super::sample_rows::{RowFile, SampleRows, write_rows};
use crate::error::{DataError, file_error};
use gimlet_storage::Path;

/// Entries of a table that are read at once.
const ENTRIES_AT_ONCE: u64 = 1 << 18;

/// A checksum of the sentences and of the settings that upstream's name lacks, in hexadecimal.
fn checksum(index: &Index, options: &MappingOptions) -> Result<String, DataError> {
    let mut sum = Md5::new();
    sum.update(options.min_sentences.to_le_bytes());
    sum.update(options.short_ratio().to_le_bytes());
    for documents in parts_of(index.num_documents) {
        let firsts = index.documents(documents)?;
        let (_, firsts) = firsts.split_last().expect("it has the end");
        firsts.iter().for_each(|first| sum.update(first.to_le_bytes()));
    }
    let end = index.documents(index.num_documents..index.num_documents)?;
    sum.update(end[0].to_le_bytes());
    for sentences in parts_of(index.num_sentences) {
        let lengths = index.lengths(sentences)?;
        lengths.iter().for_each(|length| sum.update(length.to_le_bytes()));
    }
    Ok(hexadecimal(sum))
}

/// The entries of a table in parts.
fn parts_of(count: u64) -> impl Iterator<Item = Range<u64>> {
    let part = move |begin| begin..count.min(begin + ENTRIES_AT_ONCE);
    (0..count).step_by(ENTRIES_AT_ONCE as usize).map(part)
}

/// Whether each sample is a run of sentences of one document, as long as the settings say.
fn are_possible(
    rows: &RowFile,
    index: &Index,
    options: &MappingOptions,
) -> Result<bool, DataError> {
    let documents = index.documents(0..index.num_documents)?;
    rows.all(|&[first, behind, target]: &SampleRow| {
        let (first, behind) = (u64::from(first), u64::from(behind));
        let document = documents.partition_point(|start| *start <= first);
        let end = documents.get(document).copied().unwrap_or(0);
        first + options.min_sentences <= behind
            && behind <= end
            && (2..=options.max_length).contains(&target)
    })
}

/// Draws the samples of documents, whose sentences are read in parts.
fn drawn(index: &Index, options: &MappingOptions) -> Result<Vec<SampleRow>, DataError> {
    let mut read = (0..0, Vec::new(), Vec::new());
    build_mapping(options, |each| {
        for part in parts_of(index.num_documents) {
            // Small data are read once for all passes.
            if read.0 != part {
                let firsts = index.documents(part.clone())?;
                let lengths = index.lengths(firsts[0]..firsts[firsts.len() - 1])?;
                read = (part, firsts, lengths);
            }
            let (_, firsts, lengths) = &read;
            for document in firsts.windows(2) {
                let [begin, end] = [document[0], document[1]].map(|at| (at - firsts[0]) as usize);
                each(document[0], &lengths[begin..end]);
            }
        }
        Ok(())
    })
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
) -> Result<SampleRows, DataError> {
    if index.num_sentences > u32::MAX.into() {
        let reason = format!(
            "it has {} sentences, and samples are drawn from at most {}: divide the data",
            index.num_sentences,
            u32::MAX
        );
        return Err(file_error(index.path(), reason));
    }
    let stem = stem(name, options);
    let own = prefix.suffixed(&format!("{stem}_{}.npy", checksum(index, options)?));
    let upstream = prefix.suffixed(&format!("{stem}.npy"));
    for path in [&own, &upstream] {
        if !is_there(path) {
            continue;
        }
        let is_own = path == &own;
        // The name of an own file says that its samples are those of these data.
        match RowFile::open(path)? {
            Some(rows) if is_own || are_possible(&rows, index, options)? => {
                if !is_own {
                    gimlet_telemetry::notice_once(&format!(
                        "the samples of `{prefix}` are those of `{path}`, which t5-experiments wrote"
                    ));
                }
                return Ok(SampleRows::Filed(rows));
            }
            _ => gimlet_telemetry::notice_once(&format!(
                "`{path}` has samples of other data or settings, and is not used"
            )),
        }
    }
    let rows = drawn(index, options)?;
    match write_rows(&own, &rows) {
        Ok(()) => {
            if let Some(rows) = RowFile::open(&own)? {
                return Ok(SampleRows::Filed(rows));
            }
        }
        Err(error) => gimlet_telemetry::notice_once(&format!(
            "the samples of `{prefix}` are drawn again at each start: {error}"
        )),
    }
    Ok(SampleRows::Drawn(rows))
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
