//! Presents a checkpoint to a model with more tokens: its tables of tokens have new rows, and every old token keeps its row.

use std::collections::BTreeMap;
use std::ops::Range;

use super::array::{Array, ArrayInfo, DType, num_elements};
use super::blocks::Region;
use super::error::CheckpointError;
use super::format::{Format, Without};
use super::names::trainer::slot_and_parameter;
use super::stored::{Stored, for_each_block};
use super::t5x_tree::TARGET;
use gimlet_storage::Path;

/// The ends of the names of arrays with a row, or a column, for each token, and the axis of tokens.
const TABLES: [(&str, usize); 4] = [
    ("token_embedder/embedding", 0),
    ("logits_dense/kernel", 1),
    ("logits_dense/bias", 0),
    ("masked_tokens/bias", 0),
];

/// The greatest number of rows of which published models' tables are a multiple. Source: `vocab_size` in T5X's gin files.
const MAX_PADDING: u32 = 128;

/// Tokens that come into a vocabulary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MoreTokens {
    /// The id of the first new token. The old ones from there on, such as sentinels, follow the new ones.
    pub first: usize,
    /// Number of new tokens.
    pub count: usize,
    /// Number of ids before.
    pub vocab_size: usize,
    /// The old id whose row new tokens get; `None` gives them the mean of the rows of all old ids.
    pub like: Option<usize>,
}

impl MoreTokens {
    /// Number of ids with the new tokens.
    pub fn ids(&self) -> usize {
        self.vocab_size + self.count
    }

    /// Returns the number of rows of a table that had `rows`: as many if the padding has room for the new tokens, else the next
    /// multiple of the number of which `rows` is one: 128 in T5's tables, 1 in one without padding.
    pub fn rows(&self, rows: usize) -> usize {
        if self.ids() <= rows {
            return rows;
        }
        let divisor = 1 << rows.trailing_zeros().min(MAX_PADDING.trailing_zeros());
        let is_padded = rows > self.vocab_size || divisor == MAX_PADDING as usize;
        self.ids().next_multiple_of(if is_padded { divisor } else { 1 })
    }

    /// Returns the new rows in order, as ranges with the place from which each comes.
    fn segments(&self, old_rows: usize) -> Vec<(Range<usize>, Origin)> {
        let &Self { first, count, vocab_size, .. } = self;
        let kept = old_rows.max(self.ids());
        [
            (0..first, Origin::Old(0)),
            (first..first + count, Origin::Token),
            (first + count..vocab_size + count, Origin::Old(first)),
            (vocab_size + count..kept, Origin::Old(vocab_size + count)),
            (kept..self.rows(old_rows), Origin::Padding),
        ]
        .into_iter()
        .filter(|(rows, _)| !rows.is_empty())
        .collect()
    }
}

/// The place from which rows come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Origin {
    /// The old rows from this one on.
    Old(usize),
    /// The row of new tokens.
    Token,
    /// The row of new padding.
    Padding,
}

/// An array with more rows.
#[derive(Debug)]
struct Table {
    axis: usize,
    shape: Vec<usize>,
    segments: Vec<(Range<usize>, Origin)>,
    /// The row of each new token, and of new padding: one row along the axis.
    token: Array,
    padding: Array,
}

/// A checkpoint with more tokens.
#[derive(Debug)]
struct WithMoreTokens {
    from: Box<dyn Stored>,
    tables: BTreeMap<String, Table>,
}

/// Returns the checkpoint with rows for more tokens, and the numbers of rows before and now. Rows of new tokens in the optimizer's state are
/// zero, and so is their padding; new padding of parameters is the mean of the rows of old ids, so that no logit of it is the
/// greatest. Old padding stays where no id takes its place.
///
/// # Errors
/// It has no table of tokens, or one with fewer rows than ids; arrays that cannot be read.
pub fn with_more_tokens(
    from: Box<dyn Stored>,
    more: &MoreTokens,
) -> Result<(Box<dyn Stored>, [usize; 2]), CheckpointError> {
    let refused =
        |reason: String| CheckpointError::Export { path: from.path().to_string(), reason };
    let leaves = from.leaves();
    let parameters: BTreeMap<&str, (ArrayInfo<'_>, usize)> = leaves
        .iter()
        .filter_map(|leaf| Some((leaf.name, (*leaf, axis_of_tokens(leaf)?))))
        .collect();
    let sizes = parameters.values().map(|(leaf, axis)| (leaf.shape[*axis], leaf.name));
    let Some((old_rows, name)) = sizes.clone().min() else {
        return Err(refused(
            "it has no embedding of tokens (`token_embedder/embedding`)".to_string(),
        ));
    };
    if let Some((more_rows, other)) = sizes.max().filter(|(rows, _)| *rows != old_rows) {
        return Err(refused(format!(
            "`{name}` has {old_rows} rows and `{other}` {more_rows}, expected the same number"
        )));
    }
    if old_rows < more.vocab_size {
        return Err(refused(format!(
            "its vocabulary has {} ids and `{name}` {old_rows} rows; expected the vocabulary with which the model was trained",
            more.vocab_size
        )));
    }
    let mut tables = BTreeMap::new();
    for (name, (leaf, axis)) in &parameters {
        let padding = mean_row(&*from, *leaf, *axis, more.vocab_size)?;
        let token = match more.like {
            Some(id) => from.read_part(name, &at_row(leaf.shape, *axis, id..id + 1))?,
            None => padding.clone(),
        };
        tables.insert(name.to_string(), Table::new(leaf, *axis, more, token, padding));
    }
    for leaf in &leaves {
        if let Some(axis) = axis_of_slot(leaf, &parameters).map_err(refused)? {
            let zeros = zero_row(leaf, axis);
            tables
                .insert(leaf.name.to_string(), Table::new(leaf, axis, more, zeros.clone(), zeros));
        }
    }
    drop((leaves, parameters));
    Ok((Box::new(WithMoreTokens { from, tables }), [old_rows, more.rows(old_rows)]))
}

/// Returns the axis of tokens of a parameter; `None` for other arrays.
fn axis_of_tokens(leaf: &ArrayInfo<'_>) -> Option<usize> {
    let name = leaf.name.strip_prefix(TARGET)?;
    let (_, axis) = TABLES.iter().find(|(end, _)| name.ends_with(end))?;
    (leaf.shape.len() <= 2 && *axis < leaf.shape.len()).then_some(*axis)
}

/// Returns the axis of tokens in the optimizer's state of such a parameter, which has the parameter's shape or one of its
/// dimensions.
///
/// # Errors
/// Both dimensions of the parameter have that size.
fn axis_of_slot(
    leaf: &ArrayInfo<'_>,
    parameters: &BTreeMap<&str, (ArrayInfo<'_>, usize)>,
) -> Result<Option<usize>, String> {
    let found = slot_and_parameter(leaf.name)
        .and_then(|(_, parameter)| parameters.get(&format!("{TARGET}{parameter}")[..]));
    let Some((parameter, axis)) = found else { return Ok(None) };
    let rows = parameter.shape[*axis];
    match leaf.shape {
        shape if shape == parameter.shape => Ok(Some(*axis)),
        [size] if *size == rows && parameter.shape.iter().all(|size| *size == rows) => {
            Err(format!(
                "`{}` may be of the rows or of the columns of `{}` {:?}; expected a width other than the number of rows: \
                 write the parameters alone, by `gimlet checkpoint convert --to hugging_face`, and add tokens there",
                leaf.name, parameter.name, parameter.shape
            ))
        }
        [size] if *size == rows => Ok(Some(0)),
        _ => Ok(None),
    }
}

impl Table {
    fn new(
        leaf: &ArrayInfo<'_>,
        axis: usize,
        more: &MoreTokens,
        token: Array,
        padding: Array,
    ) -> Self {
        let old_rows = leaf.shape[axis];
        let mut shape = leaf.shape.to_vec();
        shape[axis] = more.rows(old_rows);
        Self { axis, shape, segments: more.segments(old_rows), token, padding }
    }

    /// Reads a part, whose rows come from several places.
    fn read(
        &self,
        from: &dyn Stored,
        name: &str,
        part: &[Range<usize>],
    ) -> Result<Array, CheckpointError> {
        let wanted = &part[self.axis];
        let mut parts = Vec::new();
        for (rows, origin) in &self.segments {
            let found = rows.start.max(wanted.start)..rows.end.min(wanted.end);
            if found.is_empty() {
                continue;
            }
            let at = |rows: Range<usize>| {
                let mut region = part.to_vec();
                region[self.axis] = rows;
                region
            };
            parts.push(match origin {
                Origin::Old(first) => {
                    let start = first + (found.start - rows.start);
                    from.read_part(name, &at(start..start + found.len()))?
                }
                Origin::Token => repeated(self.token.part(&at(0..1)), self.axis, found.len()),
                Origin::Padding => repeated(self.padding.part(&at(0..1)), self.axis, found.len()),
            });
        }
        let shape: Vec<usize> = part.iter().map(Range::len).collect();
        Ok(joined(parts, self.axis, (self.token.dtype, shape)))
    }
}

/// Returns the region of some rows of an array.
fn at_row(shape: &[usize], axis: usize, rows: Range<usize>) -> Region {
    let mut region: Region = shape.iter().map(|size| 0..*size).collect();
    region[axis] = rows;
    region
}

/// Returns the mean of the first `count` rows of an array of one or two dimensions, in its type.
fn mean_row(
    from: &dyn Stored,
    leaf: ArrayInfo<'_>,
    axis: usize,
    count: usize,
) -> Result<Array, CheckpointError> {
    let mut shape = leaf.shape.to_vec();
    shape[axis] = 1;
    let mut sums = vec![0.0f64; num_elements(&shape)];
    for_each_block(from, leaf, &mut |block, region| {
        let values = block.to_f32().ok_or_else(|| CheckpointError::Unsupported {
            path: from.path().to_string(),
            reason: format!("`{}` is of type {}, expected floats", leaf.name, leaf.dtype),
        })?;
        // Of the other dimension, if there is one, either those before the axis or those behind it are more than one.
        let first = region.iter().enumerate().find(|(other, _)| *other != axis);
        let first = first.map_or(0, |(_, range)| range.start);
        let (rows, inner) = (region[axis].len(), num_elements(&block.shape[axis + 1..]));
        for (place, value) in values.into_iter().enumerate() {
            let (before, row, behind) =
                (place / (rows * inner), place / inner % rows, place % inner);
            if region[axis].start + row < count {
                sums[first + before + behind] += f64::from(value);
            }
        }
        Ok(())
    })?;
    let means: Vec<f32> = sums.iter().map(|sum| (sum / count.max(1) as f64) as f32).collect();
    Ok(Array::from_f32(&shape, &means).cast(leaf.dtype))
}

fn zero_row(leaf: &ArrayInfo<'_>, axis: usize) -> Array {
    let mut shape = leaf.shape.to_vec();
    shape[axis] = 1;
    let data = vec![0; num_elements(&shape) * leaf.dtype.size()];
    Array { dtype: leaf.dtype, shape, data }
}

/// Repeats the only row of an array along an axis.
fn repeated(row: Array, axis: usize, count: usize) -> Array {
    let mut shape = row.shape;
    let width = (num_elements(&shape[axis + 1..]) * row.dtype.size()).max(1);
    shape[axis] = count;
    let data = row.data.chunks_exact(width).flat_map(|one| one.repeat(count)).collect();
    Array { dtype: row.dtype, shape, data }
}

/// Joins arrays along an axis, into one of that type and shape.
fn joined(parts: Vec<Array>, axis: usize, (dtype, shape): (DType, Vec<usize>)) -> Array {
    let before = num_elements(&shape[..axis]);
    let mut data = Vec::with_capacity(num_elements(&shape) * dtype.size());
    for place in 0..before {
        for part in &parts {
            let width = part.data.len() / before;
            data.extend_from_slice(&part.data[place * width..(place + 1) * width]);
        }
    }
    Array { dtype, shape, data }
}

impl Stored for WithMoreTokens {
    fn path(&self) -> &Path {
        self.from.path()
    }

    fn format(&self) -> Format {
        self.from.format()
    }

    fn without(&self) -> Without {
        self.from.without()
    }

    fn step(&self) -> Result<u64, CheckpointError> {
        self.from.step()
    }

    fn leaves(&self) -> Vec<ArrayInfo<'_>> {
        let mut leaves = self.from.leaves();
        for leaf in &mut leaves {
            if let Some(table) = self.tables.get(leaf.name) {
                leaf.shape = &table.shape;
            }
        }
        leaves
    }

    fn read(&self, name: &str) -> Result<Array, CheckpointError> {
        match self.tables.get(name) {
            Some(table) => {
                let whole: Region = table.shape.iter().map(|size| 0..*size).collect();
                table.read(&*self.from, name, &whole)
            }
            None => self.from.read(name),
        }
    }

    fn read_part(&self, name: &str, part: &[Range<usize>]) -> Result<Array, CheckpointError> {
        match self.tables.get(name) {
            Some(table) => table.read(&*self.from, name, part),
            None => self.from.read_part(name, part),
        }
    }

    fn extra(&self, relative: &str) -> Result<Option<Vec<u8>>, CheckpointError> {
        self.from.extra(relative)
    }

    fn extras(&self) -> Result<Vec<String>, CheckpointError> {
        self.from.extras()
    }

    fn empty_nodes(&self) -> Vec<&str> {
        self.from.empty_nodes()
    }

    fn others(&self) -> Vec<(&str, &rmpv::Value)> {
        self.from.others()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Writer, open};

    /// Rows of one number each: 0 pads, 1 to 3 are pieces, 4 and 5 sentinels, the last two padding.
    const OLD: [f32; 8] = [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 60.0, 70.0];
    const MORE: MoreTokens = MoreTokens { first: 4, count: 1, vocab_size: 6, like: None };

    /// Compares the embedding, the head, and the optimizer's state of the embedding with more tokens.
    fn check(more: MoreTokens, expected: &[f32], expected_state: &[f32]) {
        let dir = tempfile::tempdir().unwrap();
        let folder = Path::try_from(dir.path()).unwrap();
        let writer = Writer::create(&folder, 3, None).unwrap();
        let twice: Vec<f32> = OLD.iter().flat_map(|value| [*value, 10.0 * value]).collect();
        let columns: Vec<f32> = [OLD, OLD.map(|value| 10.0 * value)].concat();
        for (name, shape, values) in [
            ("target/token_embedder/embedding", vec![8, 2], &twice[..]),
            ("target/decoder/logits_dense/kernel", vec![2, 8], &columns),
            ("target/decoder/norm/scale", vec![8], &OLD),
            ("state/param_states/token_embedder/embedding/v_col", vec![8], &OLD),
            ("state/param_states/token_embedder/embedding/v_row", vec![2], &OLD[..2]),
            ("state/param_states/0/mu/token_embedder/embedding", vec![8, 2], &twice),
        ] {
            writer.array(name, Array::from_f32(&shape, values).view()).unwrap();
        }
        writer.array("state/step", Array::scalar_i32(3).view()).unwrap();
        let old = open(&writer.commit().unwrap(), &[]).unwrap();
        let (new, [_, rows]) = with_more_tokens(old, &more).unwrap();
        assert_eq!(rows, expected.len());
        let read = |name: &str| new.read(name).unwrap();
        let twice = |values: &[f32]| -> Vec<f32> {
            values.iter().flat_map(|value| [*value, 10.0 * value]).collect()
        };
        let embedding = read("target/token_embedder/embedding");
        assert_eq!(embedding, Array::from_f32(&[rows, 2], &twice(expected)));
        let tenfold: Vec<f32> = expected.iter().map(|value| 10.0 * value).collect();
        let head = Array::from_f32(&[2, rows], &[expected, &tenfold].concat());
        assert_eq!(read("target/decoder/logits_dense/kernel"), head);
        let part = [1..2, 3..rows - 1];
        let name = "target/decoder/logits_dense/kernel";
        assert_eq!(new.read_part(name, &part).unwrap(), head.part(&part));
        let states = "state/param_states/";
        let column = read(&format!("{states}token_embedder/embedding/v_col"));
        assert_eq!(column, Array::from_f32(&[rows], expected_state));
        let moment = read(&format!("{states}0/mu/token_embedder/embedding"));
        assert_eq!(moment, Array::from_f32(&[rows, 2], &twice(expected_state)));
        let row = read(&format!("{states}token_embedder/embedding/v_row"));
        assert_eq!(row, Array::from_f32(&[2], &OLD[..2]));
        assert_eq!(read("target/decoder/norm/scale"), Array::from_f32(&[8], &OLD));
    }

    #[test]
    fn new_tokens_get_the_mean_and_old_ones_keep_their_rows() {
        check(
            MORE,
            &[0.0, 1.0, 2.0, 3.0, 2.5, 4.0, 5.0, 70.0],
            &[0.0, 1.0, 2.0, 3.0, 0.0, 4.0, 5.0, 70.0],
        );
    }

    #[test]
    fn a_table_without_room_grows_by_its_padding() {
        let more = MoreTokens { count: 3, like: Some(2), ..MORE };
        let [token, padding] = [2.0, 2.5];
        check(
            more,
            &[
                0.0, 1.0, 2.0, 3.0, token, token, token, 4.0, 5.0, padding, padding, padding,
                padding, padding, padding, padding,
            ],
            &[0.0, 1.0, 2.0, 3.0, 0.0, 0.0, 0.0, 4.0, 5.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0],
        );
    }

    #[test]
    fn tables_have_the_padding_that_they_had() {
        let rows = |vocab_size, count, rows| {
            MoreTokens { first: vocab_size, count, vocab_size, like: None }.rows(rows)
        };
        assert_eq!(rows(32_100, 28, 32_128), 32_128);
        assert_eq!(rows(32_100, 29, 32_128), 32_256);
        // ByT5's table is full and has T5's padding; BERT's has none.
        assert_eq!(rows(384, 1, 384), 512);
        assert_eq!(rows(30_522, 3, 30_522), 30_525);
    }
}
