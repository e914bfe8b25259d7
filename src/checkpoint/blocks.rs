//! Cuts arrays of any size into blocks that fit in memory.

use std::ops::Range;

use super::array::{ArrayInfo, num_elements};
use super::zarr::{self, choose_chunks};

/// Maximum bytes of a block: the size of T5X's chunks, so that no chunk is read twice.
pub(super) const BLOCK_BYTES: usize = 64 << 20;

/// The ranges of a part of an array, one for each dimension.
pub type Region = Vec<Range<usize>>;

/// Parts that cover an array: the chunks into which T5X would cut it, unless these are tiny.
pub(super) fn blocks(array: ArrayInfo<'_>) -> Vec<Region> {
    let (shape, size) = (array.shape, array.dtype.size());
    let chunks = choose_chunks(shape, size);
    let is_tiny = num_elements(&chunks) * size < BLOCK_BYTES / 4;
    if is_tiny && num_elements(shape) * size > BLOCK_BYTES {
        return slabs(array);
    }
    zarr::parts(shape, &chunks)
}

/// Parts that cover an array in C order: their bytes, one part after the other, are the array's
/// bytes.
pub(super) fn slabs(array: ArrayInfo<'_>) -> Vec<Region> {
    let (shape, size) = (array.shape, array.dtype.size());
    let row_bytes = |axis: usize| num_elements(&shape[axis + 1..]) * size;
    let Some(axis) = (0..shape.len()).find(|axis| row_bytes(*axis) <= BLOCK_BYTES) else {
        return vec![Vec::new()];
    };
    let steps: Vec<usize> = (0..shape.len())
        .map(|other| match other.cmp(&axis) {
            std::cmp::Ordering::Less => 1,
            std::cmp::Ordering::Equal => rows(shape[axis], row_bytes(axis)),
            std::cmp::Ordering::Greater => shape[other].max(1),
        })
        .collect();
    zarr::parts(shape, &steps)
}

/// Parts that cover a matrix column by column: rows of the transposed matrix.
pub(super) fn columns(array: ArrayInfo<'_>) -> Vec<Region> {
    let [height, width] = *array.shape else { panic!("only matrices are transposed") };
    let step = rows(width, height * array.dtype.size());
    zarr::parts(array.shape, &[height.max(1), step])
}

/// Number of rows in a block: a divisor of `count`, as T5X chooses, unless the divisor is much
/// smaller than the number of rows that fit.
fn rows(count: usize, row_bytes: usize) -> usize {
    let fitting = (BLOCK_BYTES / row_bytes.max(1)).clamp(1, count.max(1));
    let divisor = (1..=fitting).rev().find(|rows| count.is_multiple_of(*rows));
    divisor.filter(|rows| *rows > fitting / 4).unwrap_or(fitting)
}

#[cfg(test)]
mod tests {
    use super::super::array::DType;
    use super::*;

    fn info(shape: &[usize]) -> ArrayInfo<'_> {
        ArrayInfo { name: "x", dtype: DType::F32, shape }
    }

    #[test]
    fn a_small_array_is_one_block() {
        for shape in [&[][..], &[5], &[3, 4]] {
            let whole: Region = shape.iter().map(|size| 0..*size).collect();
            assert_eq!(blocks(info(shape)), std::slice::from_ref(&whole));
            assert_eq!(slabs(info(shape)), [whole]);
        }
    }

    #[test]
    fn large_arrays_are_cut_and_no_block_is_too_large() {
        // The last array has a prime number of rows, which T5X would write one by one.
        for shape in [&[250_112, 1024][..], &[3, 5_000, 3_000], &[1_000_003, 300]] {
            for parts in [blocks(info(shape)), slabs(info(shape))] {
                let elements = |part: &Region| part.iter().map(Range::len).product::<usize>();
                assert_eq!(parts.iter().map(elements).sum::<usize>(), num_elements(shape));
                assert!(parts.iter().all(|part| elements(part) * 4 <= BLOCK_BYTES));
                assert!(parts.len() < 40, "{shape:?}: {}", parts.len());
            }
        }
    }

    #[test]
    fn slabs_follow_each_other_in_c_order() {
        let shape = [2, 3, 9_000_000];
        let parts = slabs(info(&shape));
        let starts: Vec<usize> = parts
            .iter()
            .map(|part| part.iter().zip(shape).fold(0, |at, (range, size)| at * size + range.start))
            .collect();
        assert!(starts.is_sorted() && starts.len() == 6, "{starts:?}");
    }

    #[test]
    fn columns_are_those_of_the_chunks() {
        let parts = columns(info(&[1024, 250_112]));
        assert_eq!(parts.len(), 250_112 / 15_632);
        assert_eq!(parts[1], [0..1024, 15_632..31_264]);
    }
}
