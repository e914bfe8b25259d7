//! The values of given rows, on the host.

use super::error::GivenRowsError;
use super::open_array::OpenArray;
use super::spec::GivenRows;
use crate::telemetry;
use crate::vocab::VocabularySpec;

/// The values of the first rows of a parameter.
#[derive(Clone, Debug, PartialEq)]
pub struct FirstRows {
    /// Number of rows.
    pub count: usize,
    /// Their values, one row after another.
    pub values: Vec<f32>,
}

/// Returns one of the numbers of a sequence, which seed a draw.
type Draws<'a> = &'a dyn Fn(u64) -> u64;

impl GivenRows {
    /// Finds an array or a text that does not fit rows of that number and width. The elements of arrays are not read.
    ///
    /// # Errors
    /// The array is missing or has another shape, or the text cannot be encoded.
    pub fn check(&self, shape: [usize; 2]) -> Result<(), GivenRowsError> {
        let array = self.array().open()?;
        self.check_shape(&array, shape)?;
        self.ids(shape[0], array.shape[0]).map(drop)
    }

    /// Reads the values. `draws` gives as many random numbers as there are rows, each by its number.
    ///
    /// # Errors
    /// See [`GivenRows::check`].
    pub fn read(&self, shape: [usize; 2], draws: Draws<'_>) -> Result<FirstRows, GivenRowsError> {
        let array = self.array().open()?;
        self.check_shape(&array, shape)?;
        let ids = match self {
            Self::Array(_) => (0..shape[0]).map(|row| vec![row]).collect(),
            Self::Sample { population_size, .. } => {
                let sampled = sample(shape[0], population(*population_size, &array), draws);
                sampled.into_iter().map(|id| vec![id]).collect()
            }
            Self::Texts { .. } | Self::Text { .. } => self.ids(shape[0], array.shape[0])?,
        };
        means(&array, &ids)
    }

    fn check_shape(&self, array: &OpenArray, shape: [usize; 2]) -> Result<(), GivenRowsError> {
        let (found, [length, width]) = (&array.shape[..], shape);
        let unfit = |expected: String| {
            Err(GivenRowsError::Unfit(format!("{} has shape {found:?}, {expected}", array.name)))
        };
        let parameter = self.array().parameter();
        match (self, found) {
            (Self::Array(_), [rows, columns]) if *columns == width && *rows != length => {
                unfit(format!(
                    "expected {shape:?}, since prompts.Prompt.length is {length}: set PROMPT_LENGTH to {rows}, or {parameter} \
                     to another prompt"
                ))
            }
            (Self::Array(_), [rows, columns]) if [*rows, *columns] == shape => Ok(()),
            (Self::Array(_), _) => unfit(format!(
                "expected {shape:?}, the length of the prompt and the width of the model (EMBED_DIM): set {parameter} to a \
                 prompt of this model"
            )),
            (Self::Sample { population_size: Some(0), .. }, _) => Err(GivenRowsError::Unfit(
                "prompts.from_sample_of_embeddings.population_size is 0, expected at least 1, or None for all rows"
                    .to_string(),
            )),
            (_, [rows, columns]) if *columns == width && *rows > 0 => Ok(()),
            _ => unfit(format!(
                "expected rows of {width} numbers, the width of the model (EMBED_DIM): set {parameter} to the embedding of \
                 this model"
            )),
        }
    }

    /// The rows of the embedding of which each row is the mean, for texts.
    fn ids(&self, length: usize, num_rows: usize) -> Result<Vec<Vec<usize>>, GivenRowsError> {
        match self {
            Self::Array(_) | Self::Sample { .. } => Ok(Vec::new()),
            Self::Texts { vocab, texts, .. } => {
                if texts.len() > length {
                    telemetry::warn_once(&format!(
                        "the prompt has {length} rows, and prompts.from_embedded_list.texts {} texts: rows begin as the first \
                         {length}, and {:?} are left out",
                        texts.len(),
                        &texts[length..]
                    ));
                }
                let texts = texts.iter().take(length);
                texts.map(|text| encoded(vocab, text, num_rows)).collect()
            }
            Self::Text { vocab, text, .. } => {
                let ids = encoded(vocab, text, num_rows)?;
                if ids.len() > length {
                    telemetry::warn_once(&format!(
                        "the prompt has {length} rows, and prompts.from_embedded_string.text {} pieces: rows begin as the first \
                         {length}, and the others are left out",
                        ids.len()
                    ));
                }
                Ok(ids.into_iter().take(length).map(|id| vec![id]).collect())
            }
        }
    }
}

/// Returns the number of rows from which a sample is drawn.
fn population(asked: Option<usize>, array: &OpenArray) -> usize {
    let rows = array.shape[0];
    let asked = asked.unwrap_or(rows);
    if asked > rows {
        telemetry::warn_once(&format!(
            "prompts.from_sample_of_embeddings.population_size is {asked}, and {} has {rows} rows: all of them can be drawn",
            array.name
        ));
    }
    asked.min(rows)
}

/// Draws so many of the first `population` numbers: each at most once, unless there are too few.
fn sample(count: usize, population: usize, draws: Draws<'_>) -> Vec<usize> {
    // The bias of multiplying instead of rejecting is population / 2^64.
    let below =
        |draw: usize, most: usize| ((u128::from(draws(draw as u64)) * most as u128) >> 64) as usize;
    if count > population {
        telemetry::warn_once(&format!(
            "the prompt has {count} rows, and {population} rows of the embedding can be drawn: some are drawn more than once"
        ));
        return (0..count).map(|draw| below(draw, population)).collect();
    }
    let mut numbers: Vec<usize> = (0..population).collect();
    for place in 0..count {
        numbers.swap(place, place + below(place, population - place));
    }
    numbers.truncate(count);
    numbers
}

/// Returns the rows of the embedding for the pieces of a text.
fn encoded(
    vocab: &VocabularySpec,
    text: &str,
    num_rows: usize,
) -> Result<Vec<usize>, GivenRowsError> {
    let vocabulary = vocab.build()?;
    let ids = match vocabulary.takes_ids() {
        true => Vec::new(),
        false => vocabulary.encode(text),
    };
    if ids.is_empty() {
        return Err(GivenRowsError::Unfit(format!(
            "'{text}' has no pieces in {}, expected a text with at least one: set CLASS_LABELS, or VOCABULARY",
            vocabulary.name()
        )));
    }
    let row = |id: i32| usize::try_from(id).ok().filter(|id| *id < num_rows).ok_or(id);
    let rows: Result<Vec<usize>, i32> = ids.into_iter().map(row).collect();
    rows.map_err(|id| {
        GivenRowsError::Unfit(format!(
            "'{text}' has the id {id} in {}, and the embedding has {num_rows} rows, expected the vocabulary of the model that \
             the embedding is from: set VOCABULARY",
            vocabulary.name()
        ))
    })
}

/// Reads, for each list, the mean of those rows of the array.
fn means(array: &OpenArray, ids: &[Vec<usize>]) -> Result<FirstRows, GivenRowsError> {
    let width = array.shape[1];
    let first = ids.iter().flatten().min().copied().unwrap_or(0);
    let end = ids.iter().flatten().max().map_or(first, |last| last + 1);
    // One part with all of them: rows of checkpoints lie together in chunks, which are read as a whole.
    let part = array.read(first..end)?;
    let row = |id: &usize| &part[(id - first) * width..][..width];
    let mut values = Vec::with_capacity(ids.len() * width);
    for ids in ids {
        let mean = |column: usize| {
            let sum: f64 = ids.iter().map(|id| f64::from(row(id)[column])).sum();
            (sum / ids.len() as f64) as f32
        };
        values.extend((0..width).map(mean));
    }
    Ok(FirstRows { count: ids.len(), values })
}

#[cfg(test)]
mod tests {
    use super::super::array::{NpLoad, StoredArray, T5xLoad};
    use super::*;
    use crate::checkpoint::{Array, Writer, npy_bytes};
    use crate::storage::Path;
    use crate::vocab::{ByteVocabulary, VocabularySpec};

    /// A folder with a file of numpy's and a checkpoint, each with an embedding of six rows: row `r` is `[r, 10 r]`.
    fn folder() -> (tempfile::TempDir, StoredArray, StoredArray) {
        let folder = tempfile::tempdir().unwrap();
        let path = Path::try_from(folder.path()).unwrap();
        let numbers: Vec<f32> =
            (0..300u16).flat_map(|row| [row, 10 * row]).map(f32::from).collect();
        let array = Array::from_f32(&[300, 2], &numbers);
        let file = path.join("embedding.npy");
        file.write_atomic(&npy_bytes(array.view())).unwrap();
        let writer = Writer::create(&path, 7, None).unwrap();
        writer.array("target/token_embedder/embedding", array.view()).unwrap();
        writer.array("state/step", Array::scalar_i32(7).view()).unwrap();
        let checkpoint_path = writer.commit().unwrap().to_string();
        let variable_path = "token_embedder/embedding".to_string();
        let npy = StoredArray::NpLoad(NpLoad { path: file.to_string() });
        (folder, npy, StoredArray::T5xLoad(T5xLoad { checkpoint_path, variable_path }))
    }

    fn bytes() -> VocabularySpec {
        VocabularySpec::Byte(ByteVocabulary { extra_ids: 0, tokenizer_config: None })
    }

    fn draws(number: u64) -> u64 {
        (number + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15)
    }

    fn error(given: &GivenRows, shape: [usize; 2]) -> String {
        given.check(shape).unwrap_err().to_string()
    }

    #[test]
    fn a_sample_has_each_row_once_and_depends_on_the_seed_alone() {
        let (_folder, npy, stored) = folder();
        let rows = |embeddings: &StoredArray, size| {
            let embeddings = embeddings.clone();
            let given = GivenRows::Sample { embeddings, population_size: Some(size) };
            given.read([5, 2], &draws).unwrap()
        };
        let sampled = rows(&npy, 6);
        assert_eq!(sampled, rows(&stored, 6));
        let mut firsts: Vec<f32> = sampled.values.iter().step_by(2).copied().collect();
        firsts.sort_by(f32::total_cmp);
        firsts.dedup();
        assert_eq!((firsts.len(), sampled.count), (5, 5));
        assert!(firsts.iter().all(|first| *first < 6.0), "{firsts:?}");
        assert!(rows(&npy, 2).values.iter().step_by(2).all(|first| *first < 2.0));
        let other = GivenRows::Sample { embeddings: npy, population_size: None };
        let other = other.read([5, 2], &|number| draws(number + 9)).unwrap();
        assert_ne!(other, sampled);
    }

    #[test]
    fn labels_are_means_of_their_pieces_and_too_many_are_left_out() {
        let (_folder, npy, _) = folder();
        // The ids of bytes begin at 3.
        let (a, b) = (f32::from(b'a' + 3), f32::from(b'b' + 3));
        let texts = ["ab".to_string(), "b".to_string()].to_vec();
        let labels = GivenRows::Texts { embeddings: npy.clone(), vocab: bytes(), texts };
        let mean = (a + b) / 2.0;
        let expected = FirstRows { count: 2, values: vec![mean, 10.0 * mean, b, 10.0 * b] };
        assert_eq!(labels.read([3, 2], &draws).unwrap(), expected);
        assert_eq!(labels.read([1, 2], &draws).unwrap().values, [mean, 10.0 * mean]);
        let text = GivenRows::Text { embeddings: npy, vocab: bytes(), text: "ab".to_string() };
        let expected = FirstRows { count: 2, values: vec![a, 10.0 * a, b, 10.0 * b] };
        assert_eq!(text.read([9, 2], &draws).unwrap(), expected);
    }

    #[test]
    fn arrays_of_another_shape_are_refused_with_the_remedy() {
        let (_folder, npy, stored) = folder();
        let array = GivenRows::Array(npy.clone());
        assert_eq!(array.read([300, 2], &draws).unwrap().values[..4], [0.0, 0.0, 1.0, 10.0]);
        let length = error(&array, [20, 2]);
        assert!(length.contains("has shape [300, 2], expected [20, 2]"), "{length}");
        assert!(length.contains("set PROMPT_LENGTH to 300"), "{length}");
        assert!(error(&array, [300, 3]).contains("EMBED_DIM"));
        let sample = GivenRows::Sample { embeddings: stored, population_size: None };
        let width = error(&sample, [20, 3]);
        assert!(width.contains("expected rows of 3 numbers"), "{width}");
        let empty = GivenRows::Sample { embeddings: npy, population_size: Some(0) };
        assert!(error(&empty, [20, 2]).contains("population_size is 0"));
    }

    #[test]
    fn missing_arrays_and_texts_without_pieces_are_named() {
        let (_folder, npy, stored) = folder();
        let StoredArray::T5xLoad(load) = stored else { unreachable!("it is one of a checkpoint") };
        let named = |variable_path: &str| {
            let variable_path = variable_path.to_string();
            GivenRows::Array(StoredArray::T5xLoad(T5xLoad { variable_path, ..load.clone() }))
        };
        assert!(named("target/token_embedder/embedding").check([300, 2]).is_ok());
        assert!(named("/token_embedder/embedding").check([300, 2]).is_ok());
        let missing = error(&named("token_embeder/embedding"), [300, 2]);
        assert!(missing.contains("did you mean `token_embedder/embedding`"), "{missing}");
        let texts = vec![String::new()];
        let empty = GivenRows::Texts { embeddings: npy, vocab: bytes(), texts };
        assert!(error(&empty, [3, 2]).contains("no pieces"));
    }
}
