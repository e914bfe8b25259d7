//! Where chunks lie in an array.

use std::ops::Range;

/// T5X's desired size of a chunk in bytes.
const CHUNK_BYTES: usize = 64 << 20;

/// The chunk shape that T5X chooses: it divides the shape evenly and holds at most 64 MiB.
/// Source: `_choose_chunk_shape` of T5X's `checkpoints.py`.
pub fn choose_chunks(shape: &[usize], element_bytes: usize) -> Vec<usize> {
    divide(shape, CHUNK_BYTES / element_bytes)
}

/// Steps the largest dimension, the first of equals, down to its next smaller divisor until the
/// chunk is small enough.
fn divide(shape: &[usize], max_elements: usize) -> Vec<usize> {
    // An empty dimension has no divisor, and zarr no empty chunk.
    let mut chunks: Vec<usize> = shape.iter().map(|&size| size.max(1)).collect();
    while chunks.iter().product::<usize>() > max_elements {
        let largest = *chunks.iter().max().expect("an empty shape holds one element");
        let at = chunks.iter().position(|&size| size == largest).expect("the largest is there");
        let smaller = (1..largest).rev().find(|size| shape[at].is_multiple_of(*size));
        chunks[at] = smaller.expect("one divides everything");
    }
    chunks
}

/// One contiguous run of elements that an array and a chunk share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// The first element in the array.
    pub in_array: usize,
    /// The first element in the chunk.
    pub in_chunk: usize,
    /// The number of elements.
    pub length: usize,
}

/// The indices of every chunk, in C order; a chunk of a scalar has no index.
pub fn indices(shape: &[usize], chunks: &[usize]) -> Vec<Vec<usize>> {
    let counts = shape.iter().zip(chunks).map(|(size, chunk)| size.div_ceil(*chunk));
    counts.fold(vec![Vec::new()], |all, count| {
        let extended = all.iter().flat_map(|index: &Vec<usize>| {
            (0..count).map(move |i| index.iter().copied().chain([i]).collect())
        });
        extended.collect()
    })
}

/// The parts of an array that its chunks hold, in C order; those at the edges end with the array.
pub fn parts(shape: &[usize], chunks: &[usize]) -> Vec<Vec<Range<usize>>> {
    let range =
        |((i, chunk), size): ((usize, &usize), &usize)| i * chunk..((i + 1) * chunk).min(*size);
    let part = |index: Vec<usize>| index.into_iter().zip(chunks).zip(shape).map(range).collect();
    indices(shape, chunks).into_iter().map(part).collect()
}

/// The runs of one chunk in C order, as long as can be: one for a chunk that is a slab.
pub fn runs(shape: &[usize], chunks: &[usize], index: &[usize]) -> Vec<Run> {
    let start: Vec<usize> = index.iter().zip(chunks).map(|(i, chunk)| i * chunk).collect();
    let extent: Vec<usize> = (0..shape.len()).map(|d| chunks[d].min(shape[d] - start[d])).collect();
    // Inner dimensions that array and chunk both span entirely are one run.
    let whole = |d: &usize| extent[*d] == shape[*d] && extent[*d] == chunks[*d];
    let inner = (0..shape.len()).rev().take_while(whole).count();
    let split = (shape.len() - inner).saturating_sub(1);
    let length: usize = extent[split.min(shape.len())..].iter().product();
    indices(&extent[..split], &vec![1; split])
        .iter()
        .map(|outer| {
            let at = |d: usize| if d < split { outer[d] } else { 0 };
            let in_array = (0..shape.len()).fold(0, |sum, d| sum * shape[d] + start[d] + at(d));
            let in_chunk = (0..shape.len()).fold(0, |sum, d| sum * chunks[d] + at(d));
            Run { in_array, in_chunk, length }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_follow_the_rule_of_t5x() {
        // From T5X's own `_choose_chunk_shape`.
        for (shape, max_elements, expected) in [
            (&[10, 12][..], 120, &[10, 12][..]),
            (&[10, 12], 60, &[10, 6]),
            (&[10, 12], 30, &[5, 6]),
            (&[7, 7], 7, &[1, 7]),
            (&[], 1, &[]),
            (&[32128, 768], 16 << 20, &[16064, 768]),
        ] {
            assert_eq!(divide(shape, max_elements), expected, "{shape:?}");
        }
    }

    #[test]
    fn runs_cover_every_element_once() {
        for (shape, chunks) in [
            (&[5, 7][..], &[2, 3][..]),
            (&[4, 3, 5], &[4, 2, 5]),
            (&[4, 3, 5], &[2, 3, 5]),
            (&[6], &[4]),
            (&[], &[]),
            (&[3, 0], &[1, 1]),
            (&[2, 3], &[4, 3]),
        ] {
            let mut seen = vec![0; shape.iter().product()];
            for index in indices(shape, chunks) {
                for run in runs(shape, chunks, &index) {
                    seen[run.in_array..run.in_array + run.length].iter_mut().for_each(|n| *n += 1);
                    assert!(run.in_chunk + run.length <= chunks.iter().product());
                }
            }
            assert!(seen.iter().all(|count| *count == 1), "{shape:?} {chunks:?}");
        }
    }

    #[test]
    fn a_slab_is_one_run() {
        assert_eq!(
            runs(&[4, 6], &[2, 6], &[1, 0]),
            [Run { in_array: 12, in_chunk: 0, length: 12 }]
        );
        assert_eq!(runs(&[], &[], &[]), [Run { in_array: 0, in_chunk: 0, length: 1 }]);
    }
}
