//! Tests of every format through [`open_records`]: whole, resumed, partial and damaged files.

#![cfg(test)]

use std::sync::Arc;

use super::super::file::CsvOptions;
use super::super::row_options::RowOptions;
use super::testing::*;
use super::*;

fn reference(name: &str) -> Path {
    let folder =
        concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/pipeline/data/reference/sources");
    Path::parse(folder).unwrap().join(name)
}

fn show(body: Body) -> String {
    match body {
        Body::Row { batch, index } => format!("{:?}", batch.example(index).unwrap()),
        Body::Tokens { bytes, dtype } => format!("{:?}", dtype.ids(&bytes).unwrap()),
        body => text(body),
    }
}

/// Reads the file from every position that a reader returns, and reads a part of it.
#[track_caller]
fn check(path: Path, format: Format, count: usize) {
    let file = SourceFile::new(path, format);
    let all = rest(&mut *open_records(&file, RecordPosition::default()).unwrap(), show);
    assert_eq!(all.len(), count);
    let mut whole = open_records(&file, RecordPosition::default()).unwrap();
    for left in 0..=count {
        assert_eq!(whole.position().records, left as u64);
        let mut resumed = open_records(&file, whole.position()).unwrap();
        assert_eq!(rest(&mut *resumed, show), all[left..], "from {left} on");
        assert!(whole.next_record().unwrap().is_none() == (left == count));
    }
    let part = SourceFile { records: Some(1..count as u64 - 1), ..file };
    let mut whole = open_records(&part, RecordPosition::default()).unwrap();
    for left in 1..count {
        let mut resumed = open_records(&part, whole.position()).unwrap();
        assert_eq!(rest(&mut *resumed, show), all[left..count - 1], "part from {left} on");
        whole.next_record().unwrap();
    }
}

fn rows() -> Arc<RowOptions> {
    Arc::new(RowOptions::new(None))
}

#[test]
fn every_format_resumes_at_any_record() {
    for name in ["examples.tfrecord", "examples_gzip.tfrecord", "examples_zlib.tfrecord"] {
        // The bytes are not text, so their lengths are compared.
        let file = SourceFile::new(reference(name), Format::TfRecord);
        let mut whole = open_records(&file, RecordPosition::default()).unwrap();
        let length = |body| match body {
            Body::Bytes(bytes) => bytes.len().to_string(),
            _ => unreachable!("TFRecords hold bytes"),
        };
        let all = rest(&mut *open_records(&file, whole.position()).unwrap(), length);
        for left in 0..=5 {
            let mut resumed = open_records(&file, whole.position()).unwrap();
            assert_eq!(rest(&mut *resumed, length), all[left..], "{name}");
            whole.next_record().unwrap();
        }
    }
    check(reference("rows.parquet"), Format::Parquet(rows()), 11);
    check(reference("rows.arrow"), Format::Arrow(rows()), 11);
    check(reference("rows.stream"), Format::Arrow(rows()), 11);
    check(reference("array.json"), Format::Json { field: None }, 4);
    check(reference("field.json"), Format::Json { field: Some("data".to_string()) }, 4);
    let csv = CsvOptions {
        delimiter: b',',
        quote: Some(b'"'),
        column_names: None,
        skip: 0,
        typed: Vec::new(),
    };
    // The record with the names counts.
    let file = SourceFile::new(reference("table.csv"), Format::Csv(Arc::new(csv)));
    let mut whole = open_records(&file, RecordPosition::default()).unwrap();
    for left in (0..=4).rev() {
        let mut resumed = open_records(&file, whole.position()).unwrap();
        assert_eq!(rest(&mut *resumed, text).len(), left);
        whole.next_record().unwrap();
    }
}

/// A `.bin` file with its `.idx` file, for documents of one or two sequences.
fn megatron(documents: &[&[&[u16]]]) -> (tempfile::TempDir, Path) {
    let sequences: Vec<&[u16]> = documents.concat();
    let (mut bin, mut sizes, mut pointers) = (Vec::new(), Vec::new(), Vec::new());
    for sequence in &sequences {
        pointers.extend((bin.len() as u64).to_le_bytes());
        sizes.extend((sequence.len() as u32).to_le_bytes());
        sequence.iter().for_each(|id| bin.extend(id.to_le_bytes()));
    }
    let mut firsts = 0_u64.to_le_bytes().to_vec();
    let mut first = 0;
    for document in documents {
        first += document.len() as u64;
        firsts.extend(first.to_le_bytes());
    }
    let counts = [sequences.len() as u64, documents.len() as u64 + 1].map(u64::to_le_bytes);
    let index = [
        b"MMIDIDX\0\0",
        &1_u64.to_le_bytes()[..],
        &[8],
        &counts.concat(),
        &sizes,
        &pointers,
        &firsts,
    ];
    let dir = tempfile::tempdir().unwrap();
    let path = Path::try_from(dir.path()).unwrap();
    path.join("x_text_document.bin").write_atomic(&bin).unwrap();
    path.join("x_text_document.idx").write_atomic(&index.concat()).unwrap();
    (dir, path.join("x_text_document.bin"))
}

#[test]
fn documents_of_megatron_are_read_and_resumed() {
    let (_dir, path) = megatron(&[&[&[5, 60000]], &[&[1], &[2, 3]], &[], &[&[9]]]);
    check(path.clone(), Format::Megatron, 4);
    let file = SourceFile::new(path, Format::Megatron);
    let all = rest(&mut *open_records(&file, RecordPosition::default()).unwrap(), show);
    assert_eq!(all, ["[5, 60000]", "[1, 2, 3]", "[]", "[9]"]);
}

#[test]
fn a_cut_megatron_file_is_named() {
    let (_dir, path) = megatron(&[&[&[5, 6]], &[&[7, 8]]]);
    path.set_size(7).unwrap();
    let file = SourceFile::new(path.clone(), Format::Megatron);
    let error = error_of(open_records(&file, RecordPosition::default()));
    assert!(error.contains("document 2 should lie at bytes 4 to 8 of 7"), "{error}");
    let index = Path::parse(&path.as_str().replace(".bin", ".idx")).unwrap();
    index.set_size(40).unwrap();
    let error = error_of(open_records(&file, RecordPosition::default()));
    assert!(error.contains("it has 40 bytes, which do not fit 2 sequences"), "{error}");
}

/// Reads every row of a damaged file until an error.
fn error_of_rows(file: &SourceFile) -> Option<String> {
    let mut reader = match open_records(file, RecordPosition::default()) {
        Ok(reader) => reader,
        Err(error) => return Some(error.to_string()),
    };
    loop {
        match reader.next_record() {
            // A mistake in one row is reported with the row's place.
            Ok(Some(Body::Row { batch, index })) => drop(batch.example(index)),
            Ok(_) => return None,
            Err(error) => return Some(error.to_string()),
        }
    }
}

#[test]
fn damaged_columnar_files_are_named() {
    let mut panics = 0;
    for (name, format) in [
        ("rows.parquet", Format::Parquet(rows())),
        ("rows.arrow", Format::Arrow(rows())),
        ("rows.stream", Format::Arrow(rows())),
    ] {
        let whole = reference(name).read().unwrap();
        let (_dir, path) = file(&whole);
        let file = SourceFile::new(path.clone(), format);
        let mut errors = 0;
        // A step without a common divisor reaches every field of repeated structures.
        for at in (0..whole.len()).step_by(11) {
            let mut bytes = whole.clone();
            // Changes the sign of a number and its low bits in turn.
            bytes[at] ^= [0x80, 0xff, 0x01, 0x10][at % 4];
            std::fs::write(path.local().unwrap(), &bytes).unwrap();
            if let Some(error) = error_of_rows(&file) {
                assert!(error.contains(path.as_str()), "byte {at} of {name}: {error}");
                errors += 1;
                panics += usize::from(error.contains("it is damaged ("));
            }
        }
        assert!(errors > 50, "{name}: {errors}");
    }
    assert!(panics > 0, "no decoder panicked, so nothing is said of panics");
}

/// `num_batches` batches of five rows, as a file or as a stream.
fn arrow(num_batches: usize, is_file: bool) -> Vec<u8> {
    let ids = arrow_array::Int32Array::from(vec![1, 2, 3, 4, 5]);
    let columns = vec![("ids", Arc::new(ids) as arrow_array::ArrayRef)];
    let batch = arrow_array::RecordBatch::try_from_iter(columns).unwrap();
    let (schema, mut bytes) = (batch.schema(), Vec::new());
    if is_file {
        let mut writer = ::arrow_ipc::writer::FileWriter::try_new(&mut bytes, &schema).unwrap();
        (0..num_batches).for_each(|_| writer.write(&batch).unwrap());
        writer.finish().unwrap();
    } else {
        let mut writer = ::arrow_ipc::writer::StreamWriter::try_new(&mut bytes, &schema).unwrap();
        (0..num_batches).for_each(|_| writer.write(&batch).unwrap());
        writer.finish().unwrap();
    }
    bytes
}

#[test]
fn arrow_tells_its_rows_ahead_of_reading_them() {
    for name in ["rows.arrow", "rows.stream"] {
        assert_eq!(about_num_rows(&reference(name)).unwrap(), 11, "{name}");
    }
    for is_file in [true, false] {
        for num_batches in [0, 1, 63] {
            let (_dir, path) = file(&arrow(num_batches, is_file));
            assert_eq!(about_num_rows(&path).unwrap(), 5 * num_batches as u64);
        }
        if !is_file {
            // A stream need not have an end mark.
            let bytes = arrow(63, false);
            let (_dir, path) = file(&bytes[..bytes.len() - 8]);
            assert_eq!(about_num_rows(&path).unwrap(), 5 * 63);
        }
        // Estimated from the first batches; a file also has a list of its batches.
        let bytes = arrow(300, is_file);
        let (_dir, path) = file(&bytes);
        let rows = about_num_rows(&path).unwrap();
        assert!(rows.abs_diff(1500) < 200, "{rows}");
        for left in [3, 100, 2000] {
            let (_dir, path) = file(&bytes[..left]);
            let error = about_num_rows(&path).unwrap_err().to_string();
            assert!(error.ends_with("is it a whole Arrow file or stream?"), "{error}");
        }
    }
}

#[test]
fn a_file_with_fewer_records_than_it_is_to_have_is_named() {
    let whole = reference("examples.tfrecord").read().unwrap();
    for (bytes, range, found) in [(&whole[..], 0..6, 5), (&whole, 5..6, 5), (b"", 0..1, 0)] {
        let (_dir, path) = file(bytes);
        let expected = format!("/file`: it ends after {found} of at least {} rec", range.end);
        let part = SourceFile { records: Some(range), ..SourceFile::new(path, Format::TfRecord) };
        let error = error_of(open_records(&part, RecordPosition::default()));
        assert!(error.contains(&expected), "{error}");
    }
}

#[test]
fn cut_columnar_files_are_named() {
    for (name, format, expected) in [
        ("rows.parquet", Format::Parquet(rows()), "is it a whole Parquet file?"),
        ("rows.arrow", Format::Arrow(rows()), "is it a whole Arrow file or stream?"),
        ("rows.stream", Format::Arrow(rows()), "is it complete?"),
    ] {
        let bytes = reference(name).read().unwrap();
        // A stream without its end mark counts as cut, too.
        for left in [bytes.len() - 8, bytes.len() * 3 / 5] {
            let (_dir, path) = file(&bytes[..left]);
            let error = error_of(open_records(
                &SourceFile::new(path, format.clone()),
                RecordPosition::default(),
            ));
            assert!(error.contains("/file`: ") && error.contains(expected), "{error}");
        }
    }
}
