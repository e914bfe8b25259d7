//! Texts of JSON lines to `.bin` files of token ids. Source: `megatron/preprocess_data.py`.

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::checksum;
use super::index_writer::{IndexFormat, IndexParts, IndexWriter};
use super::punkt::Punkt;
use super::unfinished::{InputPlace, Progress, Settings, Unfinished};
use crate::error::DataError;
use crate::source::{Body, Format, RecordPosition, SourceFile, open_records};
use gimlet_storage::Path;

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
    /// Settings on which the files depend, by names for messages: a run that was killed is continued with the same ones only.
    pub settings: &'a BTreeMap<String, String>,
    /// Small files on whose contents the files depend: those of the tokenizer, and of the sentences' ends.
    pub settings_files: &'a [Path],
    /// Time between two records of what is durable.
    pub record_period: Duration,
}

/// The sentences of a document, for each key.
type Document = Vec<Vec<Vec<i32>>>;

/// A line of a file, and the position before it.
struct Line {
    file: String,
    position: RecordPosition,
    text: Vec<u8>,
}

/// Some lines, and the place after them.
struct LinesPart {
    lines: Vec<Line>,
    end: InputPlace,
}

/// The documents of a part with their sizes in bytes, and the place after them.
struct ConvertedPart {
    documents: Vec<(u64, Document)>,
    end: InputPlace,
}

type Converted = Result<ConvertedPart, DataError>;

/// Numbers of documents that are converted.
#[derive(Clone, Copy, Debug, Default)]
pub struct Conversions {
    /// All documents so far, also those of an earlier run that was killed.
    pub documents: u64,
    /// Those of this run.
    pub new_documents: u64,
    /// The bytes of those of this run.
    pub new_bytes: u64,
}

/// Converts the objects of the files, each on a line of its own, in their order. For each key writes
/// `PREFIX_KEY_sentence.bin` and `.idx`, or with `document` in place of `sentence` if texts are not divided; they appear when
/// all is converted. Until then the work is in a folder `PREFIX.unfinished`, from which the same conversion is continued if
/// the process is killed. `report` is told the numbers of documents after each.
///
/// # Errors
/// A file cannot be read or written; another process writes files of this prefix; a line is not an object with texts, or
/// lists of texts, under the keys; no text of a key has tokens. A mistake in the texts leaves no folder to continue.
pub fn write_indexes(
    files: &[Path],
    output_prefix: &str,
    indexing: Indexing<'_>,
    report: impl FnMut(Conversions),
) -> Result<(), DataError> {
    let settings = indexing.all_settings(files)?;
    let level = if indexing.punkt.is_some() { "sentence" } else { "document" };
    let unfinished = Unfinished::open(output_prefix)?;
    let parts = |(number, key): (usize, &String)| {
        let prefix = Path::parse(&format!("{output_prefix}_{key}_{level}"))?;
        Ok(unfinished.parts(number, prefix))
    };
    let parts = indexing.keys.iter().enumerate().map(parts);
    let parts = parts.collect::<Result<Vec<_>, DataError>>()?;
    let progress = unfinished.progress(settings, &parts)?;
    if !progress.is_converted
        && let Err(error) = write_parts(files, &unfinished, &parts, progress, indexing, report)
    {
        if !matches!(error, DataError::Storage(_)) && error.is_users() {
            unfinished.remove()?;
        }
        return Err(error);
    }
    parts.iter().try_for_each(IndexParts::publish)?;
    unfinished.remove()
}

/// Converts all that is left, and records the end.
fn write_parts(
    files: &[Path],
    unfinished: &Unfinished,
    parts: &[IndexParts],
    mut progress: Progress,
    indexing: Indexing<'_>,
    report: impl FnMut(Conversions),
) -> Result<(), DataError> {
    for path in parts.iter().map(|parts| parts.prefix.suffixed(".bin")) {
        if path.exists()? {
            gimlet_telemetry::notice(&format!(
                "`{path}` is there, and is replaced when all is converted"
            ));
        }
    }
    let open =
        |(parts, written)| IndexWriter::open(parts, written, indexing.format, indexing.vocab_size);
    let written = progress.written.iter().copied();
    let mut writers = parts.iter().zip(written).map(open).collect::<Result<Vec<_>, _>>()?;
    convert(files, unfinished, &mut writers, &mut progress, indexing, report)?;
    let mut keys = indexing.keys.iter().zip(&writers);
    if let Some((key, _)) = keys.find(|(_, writer)| writer.written().sentences == 0) {
        let (first, count) = (files.first().map_or("", Path::as_str), files.len());
        return Err(DataError::Config(format!(
            "none of {} documents has tokens under '{key}', expected texts; they are those of {count} files from `{first}` on",
            progress.documents
        )));
    }
    writers.into_iter().try_for_each(IndexWriter::finish)?;
    progress.is_converted = true;
    unfinished.record(&progress)
}

/// Converts the documents after the place of the progress, and records it now and then.
fn convert(
    files: &[Path],
    unfinished: &Unfinished,
    writers: &mut [IndexWriter],
    progress: &mut Progress,
    indexing: Indexing<'_>,
    mut report: impl FnMut(Conversions),
) -> Result<(), DataError> {
    let mut counts = Conversions { documents: progress.documents, ..Conversions::default() };
    let (begin, mut recorded) = (progress.place, Instant::now());
    std::thread::scope(|scope| {
        let mut sources = Vec::new();
        let results: Vec<Receiver<Converted>> = (0..indexing.num_threads.max(1))
            .map(|_| {
                let (source, parts) = sync_channel::<Result<LinesPart, DataError>>(PARTS_AHEAD);
                let (sink, results) = sync_channel(PARTS_AHEAD);
                sources.push(source);
                scope.spawn(move || convert_parts(&parts, &sink, indexing));
                results
            })
            .collect();
        scope.spawn(move || deal_parts(files, begin, &sources));
        // Each thread has every n-th part, and one that has ended has no part after it.
        for part in results.iter().cycle().map_while(|results| results.recv().ok()) {
            let part = part?;
            for (size, document) in part.documents {
                for (writer, sentences) in writers.iter_mut().zip(&document) {
                    writer.add_document(sentences)?;
                }
                counts.documents += 1;
                counts.new_documents += 1;
                counts.new_bytes += size;
                report(counts);
            }
            (progress.place, progress.documents) = (part.end, counts.documents);
            if recorded.elapsed() >= indexing.record_period {
                let written = writers.iter_mut().map(IndexWriter::sync);
                progress.written = written.collect::<Result<_, _>>()?;
                unfinished.record(progress)?;
                recorded = Instant::now();
            }
        }
        Ok(())
    })
}

/// Deals the lines of the files out to threads, until they have ended or one of the threads has stopped.
fn deal_parts(
    files: &[Path],
    begin: InputPlace,
    sources: &[SyncSender<Result<LinesPart, DataError>>],
) {
    let mut sources = sources.iter().cycle();
    let mut send = |part| sources.next().is_some_and(|source| source.send(part).is_ok());
    if let Err(error) = read_parts(files, begin, |part| send(Ok(part))) {
        send(Err(error));
    }
}

/// Cuts the lines of the files from a place on into parts, until `send` takes no more.
fn read_parts(
    files: &[Path],
    begin: InputPlace,
    mut send: impl FnMut(LinesPart) -> bool,
) -> Result<(), DataError> {
    let (mut lines, mut end) = (Vec::new(), begin);
    for (number, path) in files.iter().enumerate().skip(begin.file) {
        if number > begin.file {
            end = InputPlace { file: number, position: RecordPosition::default() };
        }
        let mut reader = open_records(&SourceFile::new(path.clone(), Format::Text), end.position)?;
        while let Some(Body::Bytes(text)) = reader.next_record()? {
            lines.push(Line { file: path.to_string(), position: end.position, text });
            end.position = reader.position();
            let is_full = lines.len() == LINES_AT_ONCE;
            if is_full && !send(LinesPart { lines: std::mem::take(&mut lines), end }) {
                return Ok(());
            }
        }
    }
    send(LinesPart { lines, end });
    Ok(())
}

/// Converts parts until there are no more, or nobody takes them.
fn convert_parts(
    parts: &Receiver<Result<LinesPart, DataError>>,
    sink: &SyncSender<Converted>,
    indexing: Indexing<'_>,
) {
    for part in parts {
        let convert = |line: Line| {
            let size = line.text.len() as u64 + 1;
            Ok((size, indexing.document(&line)?))
        };
        let converted = part.and_then(|LinesPart { lines, end }| {
            let lines = lines.into_iter().filter(|line| !line.text.trim_ascii().is_empty());
            let documents = lines.map(convert).collect::<Result<_, DataError>>()?;
            Ok(ConvertedPart { documents, end })
        });
        if sink.send(converted).is_err() {
            return;
        }
    }
}

impl Indexing<'_> {
    /// All settings, with checksums of the small files, and of the names and sizes of the input's.
    fn all_settings(&self, files: &[Path]) -> Result<Settings, DataError> {
        let mut settings = self.settings.clone();
        for path in self.settings_files {
            settings.insert(format!("the checksum of `{path}`"), checksum([&path.read()?[..]]));
        }
        let input = |path: &Path| Ok(format!("{path}\n{}\n", path.size()?));
        let input = files.iter().map(input).collect::<Result<Vec<_>, DataError>>()?;
        let sum = checksum(input.iter().map(String::as_bytes));
        settings.insert("the checksum of the input's names and sizes".to_string(), sum);
        Ok(settings)
    }

    fn document(&self, line: &Line) -> Result<Document, DataError> {
        let RecordPosition { records, bytes, .. } = line.position;
        let (file, number) = (&line.file, records + 1);
        let bad = |reason: String| DataError::Record { place: format!("{file}:{number}"), reason };
        let text = std::str::from_utf8(&line.text).map_err(|error| DataError::NotUtf8 {
            file: file.clone(),
            line: number,
            offset: bytes + error.valid_up_to() as u64,
        })?;
        let object: Value = serde_json::from_str(text).map_err(|error| bad(error.to_string()))?;
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
