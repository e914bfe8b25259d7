//! Swaps the axes of matrices.

use std::ops::Range;

use super::array::Array;

/// Number of rows and columns of a tile, which fits in the cache.
const TILE: usize = 32;

/// Writes some columns of a `[rows, columns]` matrix as rows of `out`, each at offset `place.0` of
/// a row of `place.1` elements. Elements have `size` bytes.
pub(super) fn transpose(
    matrix: &[u8],
    (rows, columns): (usize, usize),
    taken: &Range<usize>,
    out: &mut [u8],
    place: (usize, usize),
    size: usize,
) {
    assert_eq!(matrix.len(), rows * columns * size, "the matrix has other bytes than its shape");
    match size {
        2 => tiles::<2>(matrix, (rows, columns), taken, out, place),
        4 => tiles::<4>(matrix, (rows, columns), taken, out, place),
        8 => tiles::<8>(matrix, (rows, columns), taken, out, place),
        _ => tiles::<1>(matrix, (rows, columns), taken, out, place),
    }
}

/// Returns a matrix with its axes swapped.
pub(super) fn transposed(matrix: Array) -> Array {
    let [rows, columns] = matrix.shape[..] else { panic!("a matrix has two axes") };
    let mut data = vec![0; matrix.data.len()];
    let size = matrix.dtype.size();
    transpose(&matrix.data, (rows, columns), &(0..columns), &mut data, (0, rows), size);
    Array { dtype: matrix.dtype, shape: vec![columns, rows], data }
}

/// [`transpose`] for elements of `N` bytes, tile by tile: otherwise each element would need a cache
/// line.
fn tiles<const N: usize>(
    matrix: &[u8],
    (rows, columns): (usize, usize),
    taken: &Range<usize>,
    out: &mut [u8],
    (offset, width): (usize, usize),
) {
    let (matrix, _) = matrix.as_chunks::<N>();
    let (out, _) = out.as_chunks_mut::<N>();
    for top in (0..rows).step_by(TILE) {
        for left in taken.clone().step_by(TILE) {
            for column in left..(left + TILE).min(taken.end) {
                let line = &mut out[(column - taken.start) * width + offset..][..rows];
                for row in top..(top + TILE).min(rows) {
                    line[row] = matrix[row * columns + column];
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check<const N: usize>(rows: usize, columns: usize, taken: Range<usize>) {
        let element = |at: usize| (at as u64).to_le_bytes();
        let matrix: Vec<u8> =
            (0..rows * columns).flat_map(|at| element(at)[..N].to_vec()).collect();
        let mut out = vec![0; taken.len() * rows * N];
        transpose(&matrix, (rows, columns), &taken, &mut out, (0, rows), N);
        let expected: Vec<u8> = taken
            .flat_map(|column| (0..rows).map(move |row| row * columns + column))
            .flat_map(|at| element(at)[..N].to_vec())
            .collect();
        assert_eq!(out, expected, "{rows} x {columns}, {N} bytes");
    }

    #[test]
    fn columns_become_rows() {
        check::<4>(70, 45, 0..45);
        check::<2>(3, 100, 33..98);
        check::<1>(1, 9, 0..9);
        check::<8>(33, 1, 0..1);
        check::<4>(5, 4, 2..2);
    }
}
