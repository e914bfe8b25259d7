//! Computes the positions of chunks in an array.

use std::ops::Range;

/// T5X's desired size of a chunk in bytes.
const CHUNK_BYTES: usize = 64 << 20;

/// Returns the chunk shape that T5X chooses: it divides the shape evenly and holds at most 64 MiB.
/// Source: `_choose_chunk_shape` of T5X's `checkpoints.py`.
pub fn choose_chunks(shape: &[usize], element_bytes: usize) -> Vec<usize> {
    divide(shape, CHUNK_BYTES / element_bytes)
}

/// Returns the chunk shape for an array of uneven parts, which divides a part evenly: T5X's, unless that cuts a part
/// whose size has no suitable divisor into tiny pieces; then a chunk is a part.
pub fn choose_uneven_chunks(part: &[usize], element_bytes: usize) -> Vec<usize> {
    let chunks = choose_chunks(part, element_bytes);
    let is_tiny = chunks.iter().product::<usize>() * element_bytes < CHUNK_BYTES / 4;
    if is_tiny { part.iter().map(|&size| size.max(1)).collect() } else { chunks }
}

/// Replaces the largest dimension (the first if several are equal) by its next smaller divisor,
/// until the chunk is small enough.
fn divide(shape: &[usize], max_elements: usize) -> Vec<usize> {
    // An empty dimension has no divisor, but zarr needs chunks that are not empty.
    let mut chunks: Vec<usize> = shape.iter().map(|&size| size.max(1)).collect();
    let num_elements =
        |chunks: &[usize]| chunks.iter().fold(1, |n: usize, &size| n.saturating_mul(size));
    while num_elements(&chunks) > max_elements {
        let largest = *chunks.iter().max().expect("an empty shape holds one element");
        let at = chunks.iter().position(|&size| size == largest).expect("the largest is there");
        chunks[at] = smaller_divisor(shape[at], largest);
    }
    chunks
}

/// The largest divisor of `number` that is less than `than`.
fn smaller_divisor(number: usize, than: usize) -> usize {
    let small = (1..=number.isqrt()).filter(|divisor| number.is_multiple_of(*divisor));
    let all = small.flat_map(|divisor| [divisor, number / divisor]);
    all.filter(|divisor| *divisor < than).max().expect("one divides everything")
}

/// A contiguous run of elements that a part of an array and a chunk share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// The first element in the part.
    pub in_part: usize,
    /// The first element in the chunk.
    pub in_chunk: usize,
    /// The number of elements.
    pub length: usize,
}

/// Returns every index of a box of indices, in C order; a box without dimensions has one index.
pub fn indices(ranges: Vec<Range<usize>>) -> impl Iterator<Item = Vec<usize>> + Send {
    let first = ranges.iter().map(|range| range.start).collect();
    let next = (!ranges.iter().any(Range::is_empty)).then_some(first);
    std::iter::successors(next, move |index: &Vec<usize>| {
        let mut index = index.clone();
        for (at, range) in ranges.iter().enumerate().rev() {
            index[at] += 1;
            if index[at] < range.end {
                return Some(index);
            }
            index[at] = range.start;
        }
        None
    })
}

/// Returns the parts of an array that its chunks hold, in C order; chunks at the edges end with the
/// array.
pub fn parts(shape: &[usize], chunks: &[usize]) -> Vec<Vec<Range<usize>>> {
    let range =
        |((i, chunk), size): ((usize, &usize), &usize)| i * chunk..((i + 1) * chunk).min(*size);
    let part = |index: Vec<usize>| index.into_iter().zip(chunks).zip(shape).map(range).collect();
    let all: Vec<Range<usize>> = shape.iter().map(|&size| 0..size).collect();
    indices(chunks_of(&all, chunks)).map(part).collect()
}

/// The indices of the chunks that share elements with a part of an array.
pub fn chunks_of(part: &[Range<usize>], chunks: &[usize]) -> Vec<Range<usize>> {
    let of = |(range, chunk): (&Range<usize>, &usize)| {
        range.start / chunk..if range.is_empty() { 0 } else { range.end.div_ceil(*chunk) }
    };
    part.iter().zip(chunks).map(of).collect()
}

/// Returns the runs that one chunk and a part of the array share, in C order and as long as
/// possible: a single run for a chunk that is a slab.
pub fn runs(part: &[Range<usize>], chunks: &[usize], index: &[usize]) -> impl Iterator<Item = Run> {
    let rank = part.len();
    let sizes: Vec<usize> = part.iter().map(Range::len).collect();
    let chunks = chunks.to_vec();
    let starts: Vec<usize> = (0..rank).map(|d| index[d] * chunks[d]).collect();
    // The shared range, counted from the start of the array.
    let shared: Vec<Range<usize>> = (0..rank)
        .map(|d| part[d].start.max(starts[d])..part[d].end.min(starts[d] + chunks[d]))
        .collect();
    let (in_part, in_chunk): (Vec<usize>, Vec<usize>) =
        (0..rank).map(|d| (shared[d].start - part[d].start, shared[d].start - starts[d])).unzip();
    // Inner dimensions that the part and the chunk both span completely form one run.
    let is_whole = |d: &usize| shared[*d].len() == sizes[*d] && shared[*d].len() == chunks[*d];
    let inner = (0..rank).rev().take_while(is_whole).count();
    let split = (rank - inner).saturating_sub(1);
    let length: usize = shared[split.min(rank)..].iter().map(Range::len).product();
    let outer = shared[..split].iter().map(|range| 0..range.len()).collect();
    indices(outer).map(move |outer| {
        let at = |d: usize| outer.get(d).copied().unwrap_or(0);
        let place = |first: &[usize], extents: &[usize]| {
            (0..rank).fold(0, |sum, d| sum * extents[d] + first[d] + at(d))
        };
        Run { in_part: place(&in_part, &sizes), in_chunk: place(&in_chunk, &chunks), length }
    })
}

/// Writes the fill value into a run whose chunk is missing.
pub(super) fn fill_run(run: Run, fill: &[u8], data: &mut [u8]) {
    let start = run.in_part * fill.len();
    let place = &mut data[start..start + run.length * fill.len()];
    place.chunks_exact_mut(fill.len()).for_each(|bytes| bytes.copy_from_slice(fill));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_follow_the_rule_of_t5x() {
        // Expected values from T5X's own `_choose_chunk_shape`.
        for (shape, max_elements, expected) in [
            (&[10, 12][..], 120, &[10, 12][..]),
            (&[10, 12], 60, &[10, 6]),
            (&[10, 12], 30, &[5, 6]),
            (&[7, 7], 7, &[1, 7]),
            (&[], 1, &[]),
            (&[32128, 768], 16 << 20, &[16064, 768]),
            // A prime number of rows, for which counting down would take hours.
            (&[1_099_511_627_689], 1 << 20, &[1]),
        ] {
            assert_eq!(divide(shape, max_elements), expected, "{shape:?}");
        }
    }

    #[test]
    fn chunks_of_uneven_parts_are_not_tiny() {
        assert_eq!(choose_uneven_chunks(&[193, 16], 4), [193, 16]);
        // A prime number of rows, of 16 kB each.
        assert_eq!(choose_uneven_chunks(&[83_371, 4096], 4), [83_371, 4096]);
        assert_eq!(choose_uneven_chunks(&[10_710, 4096], 4), [3570, 4096]);
    }

    fn all(shape: &[usize]) -> Vec<Range<usize>> {
        shape.iter().map(|&size| 0..size).collect()
    }

    fn check_cover(part: &[Range<usize>], chunks: &[usize]) {
        let mut seen = vec![0; part.iter().map(Range::len).product()];
        for index in indices(chunks_of(part, chunks)) {
            for run in runs(part, chunks, &index) {
                seen[run.in_part..run.in_part + run.length].iter_mut().for_each(|n| *n += 1);
                assert!(run.in_chunk + run.length <= chunks.iter().product());
            }
        }
        assert!(seen.iter().all(|count| *count == 1), "{part:?} {chunks:?}");
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
            check_cover(&all(shape), chunks);
        }
        check_cover(&[1..4, 2..7], &[2, 3]);
        check_cover(&[3..4, 6..7], &[2, 3]);
        check_cover(&[2..2, 0..7], &[2, 3]);
    }

    #[test]
    fn a_slab_is_one_run() {
        let slab = |shape: &[usize], chunks: &[usize], index: &[usize]| -> Vec<Run> {
            runs(&all(shape), chunks, index).collect()
        };
        let expected = [Run { in_part: 12, in_chunk: 0, length: 12 }];
        assert_eq!(slab(&[4, 6], &[2, 6], &[1, 0]), expected);
        assert_eq!(slab(&[], &[], &[]), [Run { in_part: 0, in_chunk: 0, length: 1 }]);
    }
}
