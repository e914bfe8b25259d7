//! The layout of blocks with which t5-experiments trained a model, as its checkpoints hold it.

use crate::checkpoint::{CheckpointError, DType, Stored};

/// The end of the names of DeepSpeed's layouts, one for each layer. Source: DeepSpeed 0.9.5
/// `ops/sparse_attention/sparse_self_attention.py`.
const LAYOUT: &str = "master_layout";

/// A layout of blocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrainedLayout {
    /// Attention heads.
    pub num_heads: usize,
    /// For each block of queries of each head the blocks of keys that it reads: the characters 1, and 0 for others. Of one
    /// head, if all are the same.
    pub rows: Vec<String>,
}

/// Returns the layout of the first layer, `[heads, blocks, blocks]`, with which t5-experiments computes all layers; `None` if
/// the checkpoint has no layout.
///
/// # Errors
/// The array cannot be read, or is not a layout.
pub fn trained_layout(stored: &dyn Stored) -> Result<Option<TrainedLayout>, CheckpointError> {
    let leaves = stored.leaves();
    let layouts = leaves.iter().filter(|leaf| leaf.name.ends_with(LAYOUT));
    // Names that differ in the number of the layer alone.
    let Some(first) = layouts.min_by_key(|leaf| (leaf.name.len(), leaf.name)) else {
        return Ok(None);
    };
    let refused = |reason: String| CheckpointError::Unsupported {
        path: stored.path().to_string(),
        reason: format!("`{}` {reason}", first.name),
    };
    let (num_heads, num_blocks) = match *first.shape {
        [heads, blocks, columns]
            if blocks == columns && heads * blocks > 0 && first.dtype == DType::I64 =>
        {
            (heads, blocks)
        }
        _ => {
            return Err(refused(format!(
                "is {} of the shape {:?}, expected int64 of [heads, blocks, blocks]",
                first.dtype, first.shape
            )));
        }
    };
    let array = stored.read(first.name)?;
    let digit = |number: &[u8; 8]| match i64::from_le_bytes(*number) {
        0 => Ok('0'),
        1 => Ok('1'),
        other => Err(refused(format!("has the number {other}, expected 0 and 1"))),
    };
    let digits = array.data.as_chunks().0.iter().map(digit).collect::<Result<Vec<char>, _>>()?;
    let rows: Vec<String> = digits.chunks(num_blocks).map(|row| row.iter().collect()).collect();
    let first_head = &rows[..num_blocks];
    let is_same = rows.chunks(num_blocks).all(|head| head == first_head);
    let rows = if is_same { first_head.to_vec() } else { rows };
    Ok(Some(TrainedLayout { num_heads, rows }))
}
