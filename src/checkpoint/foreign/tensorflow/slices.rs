//! Variables that are stored in slices, such as the partitioned variables of `tf.compat.v1`: the
//! entry of the name lists the slices, and each slice has a separate entry under a key of the name
//! and the slice.

use std::collections::BTreeSet;
use std::ops::Range;

use prost::Message;

use crate::array::num_elements;
use crate::zarr::indices;

/// Maximum number of slices of a variable: a partitioned variable has one for each machine that
/// held it.
pub(super) const MAX_SLICES: usize = 4096;

/// First byte of the keys of slices; no name begins with this byte.
pub(super) const SLICE: u8 = 0;

/// `tensorflow.TensorSliceProto`: the region of a variable that a slice holds.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Slice {
    #[prost(message, repeated, tag = "1")]
    extent: Vec<Extent>,
}

/// The range in one dimension; without a length, the whole dimension.
#[derive(Clone, PartialEq, Message)]
struct Extent {
    #[prost(int64, tag = "1")]
    start: i64,
    #[prost(int64, optional, tag = "2")]
    length: Option<i64>,
}

impl Slice {
    /// The key of the slice's entry, in TensorFlow's order-preserving code. Source:
    /// `EncodeTensorNameSlice` of `core/util/saved_tensor_slice_util.cc`,
    /// `core/lib/strings/ordered_code.cc`.
    pub(super) fn key(&self, name: &[u8]) -> Vec<u8> {
        let mut key = vec![SLICE];
        for byte in name {
            match byte {
                0 => key.extend([0, 0xff]),
                0xff => key.extend([0xff, 0]),
                byte => key.push(*byte),
            }
        }
        key.extend([0, 1]);
        let rank = (self.extent.len() as u64).to_be_bytes();
        let rank = &rank[rank.iter().take_while(|byte| **byte == 0).count()..];
        key.push(rank.len() as u8);
        key.extend(rank);
        for Extent { start, length } in &self.extent {
            push_signed(*start, &mut key);
            push_signed(length.unwrap_or(-1), &mut key);
        }
        key
    }

    /// The region of the variable that the slice holds; `None` when it lies outside the variable.
    pub(super) fn region(&self, shape: &[usize]) -> Option<Vec<Range<usize>>> {
        let range = |(extent, size): (&Extent, &usize)| {
            let Some(length) = extent.length else { return Some(0..*size) };
            let start = usize::try_from(extent.start).ok()?;
            let end = start.checked_add(usize::try_from(length).ok()?)?;
            (end <= *size).then_some(start..end)
        };
        let has_rank = self.extent.len() == shape.len();
        has_rank.then(|| self.extent.iter().zip(shape).map(range).collect())?
    }
}

/// Appends a number in as few bytes as possible, seven bits each. As many one bits as there are
/// bytes come first, or zero bits for a negative number.
fn push_signed(number: i64, out: &mut Vec<u8>) {
    let magnitude = if number < 0 { !number } else { number };
    let bits = (64 - magnitude.leading_zeros()) as usize;
    let length = bits / 7 + 1;
    let mut bytes = [if number < 0 { 0xff } else { 0 }; 10];
    bytes[2..].copy_from_slice(&number.to_be_bytes());
    let marks = (0xffff_u16 << (16 - length)).to_be_bytes();
    let encoded = &mut bytes[10 - length..];
    encoded.iter_mut().zip(marks).for_each(|(byte, mark)| *byte ^= mark);
    out.extend_from_slice(encoded);
}

/// Checks that parts of a variable cover it, each element in exactly one part. No part is empty.
///
/// # Errors
/// Description of the gap or overlap.
pub(super) fn check_cover(parts: &[&[Range<usize>]], shape: &[usize]) -> Result<(), String> {
    // Along the dimension with the most distinct starts, only neighbours can overlap.
    let starts = |axis: &usize| parts.iter().map(|part| part[*axis].start).collect::<BTreeSet<_>>();
    let axis = (0..shape.len()).max_by_key(|axis| starts(axis).len());
    let along = |part: &[Range<usize>]| axis.map_or(0..1, |axis| part[axis].clone());
    let mut sorted = parts.to_vec();
    sorted.sort_by_key(|part| along(part).start);
    let volume = |part: &[Range<usize>]| part.iter().map(Range::len).product::<usize>();
    for (i, one) in sorted.iter().enumerate() {
        let shares = |other: &&&[Range<usize>]| {
            one.iter()
                .zip(**other)
                .all(|(one, other)| one.start.max(other.start) < one.end.min(other.end))
        };
        let near = |other: &&&[Range<usize>]| along(other).start < along(one).end;
        if let Some(other) = sorted[i + 1..].iter().take_while(near).find(shares) {
            return Err(format!("its slices {one:?} and {other:?} hold the same elements"));
        }
    }
    let (held, all) = (parts.iter().map(|part| volume(part)).sum::<usize>(), num_elements(shape));
    match held == all {
        true => Ok(()),
        false => Err(format!("its slices hold {held} of its {all} elements")),
    }
}

/// Copies the elements of a non-empty part of a tensor, in C order, to their positions in `into`; `size` is the size of
/// an element in bytes, and `into` may hold only the first rows of the tensor.
pub(super) fn place(
    bytes: &[u8],
    region: &[Range<usize>],
    shape: &[usize],
    size: usize,
    into: &mut [u8],
) {
    // Inner dimensions that the part spans completely form one run, together with the next outer
    // dimension.
    let is_whole = |at: &usize| region[*at].len() == shape[*at];
    let inner = (1..shape.len()).rev().take_while(is_whole).count();
    let outer = shape.len() - 1 - inner;
    let run = region[outer..].iter().map(Range::len).product::<usize>() * size;
    let starts = indices(region[..outer].to_vec()).map(|index| {
        let first = index.iter().copied().chain(region[outer..].iter().map(|range| range.start));
        first.zip(shape).fold(0, |start, (at, extent)| start * extent + at) * size
    });
    for (start, bytes) in starts.zip(bytes.chunks(run)) {
        into[start..start + run].copy_from_slice(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_coded_as_tensorflow_does() {
        // Expected bytes follow the unit tests and rules of
        // `OrderedCode::WriteSignedNumIncreasing`.
        for (number, expected) in [
            (0, &[0x80][..]),
            (-1, &[0x7f]),
            (63, &[0xbf]),
            (-64, &[0x40]),
            (64, &[0xc0, 0x40]),
            (-65, &[0x3f, 0xbf]),
            (8192, &[0xe0, 0x20, 0x00]),
        ] {
            let mut found = Vec::new();
            push_signed(number, &mut found);
            assert_eq!(found, expected, "{number}");
        }
    }

    #[test]
    fn elements_come_to_their_places() {
        let shape = [3, 4, 2];
        let all: Vec<u8> = (0..24).collect();
        for parts in [
            [[0..3, 0..1, 0..2], [0..3, 1..4, 0..2]],
            [[0..3, 0..4, 0..1], [0..3, 0..4, 1..2]],
            [[0..2, 0..4, 0..2], [2..3, 0..4, 0..2]],
        ] {
            let mut found = vec![0xff; 24];
            for part in &parts {
                let at = |index: Vec<usize>| all[(index[0] * 4 + index[1]) * 2 + index[2]];
                let bytes: Vec<u8> = indices(part.to_vec()).map(at).collect();
                place(&bytes, part, &shape, 1, &mut found);
            }
            assert_eq!(found, all, "{parts:?}");
        }
    }

    #[test]
    fn slices_make_up_a_variable_or_are_refused() {
        let check = |parts: &[&[Range<usize>]], expected: &str| match check_cover(parts, &[4, 6]) {
            Ok(()) => assert_eq!(expected, "", "{parts:?}"),
            Err(reason) => assert!(!expected.is_empty() && reason.contains(expected), "{reason}"),
        };
        check(&[&[0..4, 0..6]], "");
        check(&[&[0..1, 0..6], &[1..4, 0..2], &[1..4, 2..6]], "");
        check(&[&[0..2, 0..6], &[3..4, 0..6]], "its slices hold 18 of its 24 elements");
        check(&[&[0..3, 0..6], &[2..4, 0..6]], "hold the same elements");
        check(&[&[0..4, 2..6], &[0..3, 0..2], &[3..4, 0..3]], "hold the same elements");
        // Parts laid like bricks, first along one dimension and then along the other.
        let bricks = |flip: bool| {
            let wall = [[0..1, 0..3], [0..1, 3..6], [1..4, 0..2], [1..4, 2..5], [1..4, 5..6]];
            wall.map(|[row, column]| if flip { vec![column, row] } else { vec![row, column] })
        };
        for (flip, shape) in [(false, [4, 6]), (true, [6, 4])] {
            let mut bricks = bricks(flip);
            let found = |bricks: &[Vec<Range<usize>>]| {
                check_cover(&bricks.iter().map(Vec::as_slice).collect::<Vec<_>>(), &shape)
            };
            assert_eq!(found(&bricks), Ok(()));
            bricks.reverse();
            assert_eq!(found(&bricks), Ok(()));
            bricks[1] = bricks[0].clone();
            assert!(found(&bricks).unwrap_err().contains("hold the same elements"));
        }
        assert!(check_cover(&[&[], &[]], &[]).unwrap_err().contains("hold the same elements"));
    }
}
