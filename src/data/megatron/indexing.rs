//! Texts of JSON lines to `.bin` files of token ids. Source: `megatron/preprocess_data.py`.

use std::io::BufRead;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use serde_json::Value;

use super::index_writer::{IndexFormat, IndexWriter};
use super::punkt::Punkt;
use crate::error::DataError;
use crate::source::open_text;
use gimlet_storage::{Path, StorageError};

/// Lines that a thread takes at once.
const LINES_AT_ONCE: usize = 100;
/// Parts that wait for each thread, and behind it.
const PARTS_AHEAD: usize = 2;

/// The conversion of texts to `.bin` files.
#[derive(Clone, Copy)]
pub struct Indexing<'a> {
    /// The keys of the objects whose texts are converted, each to files of its own.
    pub keys: &'a [String],
    /// Divides texts into sentences; without it a text is one sentence.
    pub punkt: Option<&'a Punkt>,
    /// The ids of a sentence.
    pub encode: &'a (dyn Fn(&str) -> Vec<i32> + Sync),
    /// The id after each document.
    pub end: Option<i32>,
    /// Number of ids of the vocabulary.
    pub vocab_size: usize,
    /// The format of the index.
    pub format: IndexFormat,
    /// Number of threads that convert.
    pub num_threads: usize,
}

/// The sentences of a document, for each key.
type Document = Vec<Vec<Vec<i32>>>;

/// A line of a file, with the file and its number from 1.
struct Line {
    file: String,
    number: u64,
    text: String,
}

/// Some lines, and the result of each.
type Lines = Vec<Line>;
type Converted = Result<Vec<(u64, Document)>, DataError>;

/// Converts the objects of the files, each on a line of its own, in their order. For each key writes
/// `PREFIX_KEY_sentence.bin` and `.idx`, or with `document` in place of `sentence` if texts are not divided; they appear when
/// all is converted. `progress` is told the number of documents and of their bytes after some lines.
///
/// # Errors
/// A file cannot be read or written; a line is not an object with texts, or lists of texts, under the keys; no text of a key
/// has tokens.
pub fn write_indexes(
    files: &[Path],
    output_prefix: &str,
    indexing: Indexing<'_>,
    mut progress: impl FnMut(u64, u64),
) -> Result<(), DataError> {
    let level = if indexing.punkt.is_some() { "sentence" } else { "document" };
    let create = |key: &String| {
        let prefix = Path::parse(&format!("{output_prefix}_{key}_{level}"))?;
        IndexWriter::create(&prefix, indexing.format, indexing.vocab_size)
    };
    let mut writers = indexing.keys.iter().map(create).collect::<Result<Vec<_>, _>>()?;
    let (mut num_documents, mut num_bytes) = (0, 0);
    std::thread::scope(|scope| {
        let mut sources = Vec::new();
        let results: Vec<Receiver<Converted>> = (0..indexing.num_threads.max(1))
            .map(|_| {
                let (source, parts) = sync_channel::<Result<Lines, DataError>>(PARTS_AHEAD);
                let (sink, results) = sync_channel(PARTS_AHEAD);
                sources.push(source);
                scope.spawn(move || convert_parts(&parts, &sink, indexing));
                results
            })
            .collect();
        scope.spawn(move || read_parts(files, &sources));
        // Each thread has every n-th part, and one that has ended has no part after it.
        for part in results.iter().cycle().map_while(|results| results.recv().ok()) {
            for (size, document) in part? {
                for (writer, sentences) in writers.iter_mut().zip(&document) {
                    writer.add_document(sentences)?;
                }
                num_documents += 1;
                num_bytes += size;
                progress(num_documents, num_bytes);
            }
        }
        Ok::<_, DataError>(())
    })?;
    let keys = indexing.keys.iter().zip(&writers);
    if let Some((key, _)) = keys.into_iter().find(|(_, writer)| writer.is_empty()) {
        let (first, count) = (files.first().map_or("", Path::as_str), files.len());
        return Err(DataError::Config(format!(
            "none of {num_documents} documents has tokens under '{key}', expected texts; they are those of {count} files from \
             `{first}` on"
        )));
    }
    writers.into_iter().try_for_each(IndexWriter::finish)
}

/// Deals the lines of the files out to threads, until they have ended or one of the threads has stopped.
fn read_parts(files: &[Path], sources: &[SyncSender<Result<Lines, DataError>>]) {
    let mut sources = sources.iter().cycle();
    let mut send = |part| sources.next().is_some_and(|source| source.send(part).is_ok());
    let mut part = Vec::new();
    for line in files.iter().flat_map(lines) {
        match line {
            Ok(line) => part.push(line),
            Err(error) => {
                send(Err(error));
                return;
            }
        }
        if part.len() == LINES_AT_ONCE && !send(Ok(std::mem::take(&mut part))) {
            return;
        }
    }
    send(Ok(part));
}

/// The lines of a file, or the error of opening it.
fn lines(file: &Path) -> Box<dyn Iterator<Item = Result<Line, DataError>> + '_> {
    let opened = match open_text(file) {
        Ok(opened) => opened,
        Err(error) => return Box::new(std::iter::once(Err(error))),
    };
    Box::new((1..).zip(opened.lines()).map(|(number, text)| match text {
        Ok(text) => Ok(Line { file: file.to_string(), number, text }),
        Err(error) => Err(StorageError::new("read", file, error).into()),
    }))
}

/// Converts parts until there are no more, or nobody takes them.
fn convert_parts(
    parts: &Receiver<Result<Lines, DataError>>,
    sink: &SyncSender<Converted>,
    indexing: Indexing<'_>,
) {
    for part in parts {
        let convert = |line: Line| {
            let size = line.text.len() as u64 + 1;
            Ok((size, indexing.document(&line)?))
        };
        let converted = part.and_then(|part| {
            let lines = part.into_iter().filter(|line| !line.text.trim().is_empty());
            lines.map(convert).collect()
        });
        if sink.send(converted).is_err() {
            return;
        }
    }
}

impl Indexing<'_> {
    fn document(&self, line: &Line) -> Result<Document, DataError> {
        let bad = |reason: String| DataError::Record {
            place: format!("{}:{}", line.file, line.number),
            reason,
        };
        let object: Value =
            serde_json::from_str(&line.text).map_err(|error| bad(error.to_string()))?;
        let sentences = |key: &String| match &object[key] {
            Value::String(text) => self.sentences(text).map_err(bad),
            Value::Array(items) => {
                let texts = items.iter().map(Value::as_str).collect::<Option<Vec<_>>>();
                let texts = texts
                    .ok_or_else(|| bad(format!("'{key}' is a list of other things than texts")))?;
                Ok(self.listed(&texts))
            }
            Value::Null => Err(bad(format!("it has no '{key}'"))),
            _ => Err(bad(format!("'{key}' is neither a text nor a list of texts"))),
        };
        self.keys.iter().map(sentences).collect()
    }

    /// The sentences of a list, which is one of sentences if texts are divided, and otherwise one text in pieces.
    fn listed(&self, texts: &[&str]) -> Vec<Vec<i32>> {
        match self.punkt {
            Some(_) => self.encoded(texts),
            None => self.encoded(&[&texts.concat()]),
        }
    }

    fn sentences(&self, text: &str) -> Result<Vec<Vec<i32>>, String> {
        Ok(match self.punkt {
            Some(punkt) => self.encoded(&punkt.sentences(text)?),
            None => self.encoded(&[text]),
        })
    }

    /// The ids of sentences that have any.
    fn encoded(&self, sentences: &[&str]) -> Vec<Vec<i32>> {
        let ids = sentences.iter().map(|sentence| (self.encode)(sentence));
        let mut encoded: Vec<Vec<i32>> = ids.filter(|ids| !ids.is_empty()).collect();
        if let Some(last) = encoded.last_mut() {
            last.extend(self.end);
        }
        encoded
    }
}
