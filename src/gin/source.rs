//! Sources of gin text: files with their include chain, and places within them.
//!
//! L0 knows no storage: its caller supplies a [`Source`] that finds text by path.

use std::sync::OnceLock;

/// Index of a text in a [`SourceMap`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FileId(pub u32);

/// A range of bytes in one text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Span {
    /// The text.
    pub file: FileId,
    /// First byte.
    pub start: usize,
    /// One past the last byte.
    pub end: usize,
}

impl Span {
    /// The place of values that stand in no text.
    pub const NOWHERE: Span = Span { file: FileId(u32::MAX), start: 0, end: 0 };

    /// The smallest span that covers both; they must lie in one file.
    pub fn to(self, other: Span) -> Span {
        assert_eq!(self.file, other.file, "a span lies in one file");
        Span { file: self.file, start: self.start.min(other.start), end: self.end.max(other.end) }
    }
}

/// One parsed text.
#[derive(Clone, Debug)]
pub struct SourceFile {
    /// The name in errors: a path, or the flag that gave the text (`--gin.BATCH_SIZE`).
    pub name: String,
    /// Its whole text.
    pub text: String,
    /// The `include` or `import` that loaded it, if any.
    pub included_from: Option<Span>,
}

/// All texts of one configuration.
#[derive(Clone, Debug, Default)]
pub struct SourceMap {
    files: Vec<SourceFile>,
    /// Offsets at which each file's lines start, computed on first use.
    line_starts: Vec<OnceLock<Vec<usize>>>,
}

impl SourceMap {
    /// Adds a text and returns its id.
    pub fn add(&mut self, file: SourceFile) -> FileId {
        let id = FileId(u32::try_from(self.files.len()).expect("fewer than 2^32 gin files"));
        self.files.push(file);
        self.line_starts.push(OnceLock::new());
        id
    }

    /// The file behind an id of this map.
    pub fn file(&self, id: FileId) -> &SourceFile {
        &self.files[id.0 as usize]
    }

    /// Every text with its id, in the order added.
    pub fn files(&self) -> impl Iterator<Item = (FileId, &SourceFile)> {
        (0..).map(FileId).zip(&self.files)
    }

    /// Returns the text of a span.
    pub fn text(&self, span: Span) -> &str {
        &self.file(span.file).text[span.start..span.end]
    }

    /// The place of a span for people: `runs/small.gin:12`, or the flag that gave the text.
    pub fn place(&self, span: Span) -> String {
        let name = &self.file(span.file).name;
        match name.starts_with("--") {
            true => name.clone(),
            false => format!("{name}:{}", self.line_column(span).0),
        }
    }

    /// One-based line and column (in characters) of a span's start.
    pub fn line_column(&self, span: Span) -> (usize, usize) {
        let text = &self.file(span.file).text;
        let starts = self.line_starts[span.file.0 as usize].get_or_init(|| {
            let after_breaks = text.match_indices('\n').map(|(at, _)| at + 1);
            std::iter::once(0).chain(after_breaks).collect()
        });
        let line = starts.partition_point(|start| *start <= span.start);
        let start = starts[line - 1];
        (line, text[start..span.start].chars().count() + 1)
    }
}

/// Finds gin text by path. Implemented by `run/` over the disk, the embedded library and mapped
/// buckets.
pub trait Source {
    /// Returns the text at `path`, or `None` if there is no file; an unreadable file is an error.
    fn read(&self, path: &str) -> std::io::Result<Option<String>>;

    /// Paths that exist and are spelled like `path`, for "did you mean".
    fn similar(&self, path: &str) -> Vec<String>;
}
