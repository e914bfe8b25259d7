//! Statistics of the elements of arrays, and the distance between two arrays.

use half::{bf16, f16};

use super::array::{Array, DType};

/// Number of elements that are converted to float64 at a time.
const WIDENED: usize = 1 << 14;

/// Sums over the finite elements of an array, and the number of other elements.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Statistics {
    /// The number of elements.
    pub count: u64,
    /// Number of elements that are NaN.
    pub num_nan: u64,
    /// Number of infinite elements.
    pub num_infinite: u64,
    /// The smallest finite element; infinity if there is none.
    pub min: f64,
    /// The largest finite element; negative infinity if there is none.
    pub max: f64,
    sum: f64,
    sum_of_squares: f64,
}

impl Default for Statistics {
    fn default() -> Self {
        let (min, max) = (f64::INFINITY, f64::NEG_INFINITY);
        Self { count: 0, num_nan: 0, num_infinite: 0, min, max, sum: 0.0, sum_of_squares: 0.0 }
    }
}

impl Statistics {
    /// Adds the elements of an array, or of a part of an array.
    pub fn add(&mut self, array: &Array) {
        for value in widened(array).flatten() {
            self.count += 1;
            if value.is_nan() {
                self.num_nan += 1;
            } else if value.is_infinite() {
                self.num_infinite += 1;
            } else {
                self.min = self.min.min(value);
                self.max = self.max.max(value);
                self.sum += value;
                self.sum_of_squares += value * value;
            }
        }
    }

    /// Adds the sums of other statistics.
    pub fn merge(&mut self, other: &Self) {
        self.count += other.count;
        self.num_nan += other.num_nan;
        self.num_infinite += other.num_infinite;
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
        self.sum += other.sum;
        self.sum_of_squares += other.sum_of_squares;
    }

    /// The square root of the sum of squares of the finite elements.
    pub fn norm(&self) -> f64 {
        self.sum_of_squares.sqrt()
    }

    /// The mean of the finite elements; NaN if there is none.
    pub fn mean(&self) -> f64 {
        self.sum / (self.count - self.num_nan - self.num_infinite) as f64
    }
}

/// The difference between two elements that counts as none; either bound is sufficient.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Tolerance {
    /// Bound of the absolute difference.
    pub absolute: f64,
    /// Bound of the difference relative to the larger element.
    pub relative: f64,
}

/// The distance between the elements of two arrays of the same shape. Two NaNs, and two infinities
/// of the same sign, do not differ; a NaN and a number are infinitely far apart.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Distance {
    /// The number of elements of each array.
    pub count: u64,
    /// Number of elements that differ by more than the tolerance.
    pub num_different: u64,
    /// The largest absolute difference.
    pub max_absolute: f64,
    /// The largest difference relative to the larger of both elements.
    pub max_relative: f64,
    sum_of_squares: f64,
}

impl Distance {
    /// Adds two arrays, or the same part of both; panics if their shapes differ.
    pub fn add(&mut self, one: &Array, other: &Array, tolerance: Tolerance) {
        assert_eq!(one.shape, other.shape, "only arrays of one shape are compared");
        if one == other {
            self.count += one.shape.iter().product::<usize>() as u64;
            return;
        }
        let is_long = |array: &Array| matches!(array.dtype, DType::I64 | DType::U64);
        if (is_long(one) || is_long(other)) && !one.dtype.is_float() && !other.dtype.is_float() {
            // Beyond 2^53, float64 cannot distinguish neighbouring integers.
            for (a, b) in integers(one).zip(integers(other)) {
                let largest = a.unsigned_abs().max(b.unsigned_abs());
                self.add_difference(a.abs_diff(b) as f64, largest as f64, tolerance);
            }
            return;
        }
        for (ones, others) in widened(one).zip(widened(other)) {
            for (a, b) in ones.into_iter().zip(others) {
                self.add_pair(a, b, tolerance);
            }
        }
    }

    /// The square root of the sum of squared differences.
    pub fn norm(&self) -> f64 {
        self.sum_of_squares.sqrt()
    }

    fn add_pair(&mut self, a: f64, b: f64, tolerance: Tolerance) {
        let is_equal = a == b || (a.is_nan() && b.is_nan());
        let difference = if is_equal { 0.0 } else { (a - b).abs() };
        self.add_difference(difference, a.abs().max(b.abs()), tolerance);
    }

    fn add_difference(&mut self, difference: f64, largest: f64, tolerance: Tolerance) {
        self.count += 1;
        if difference == 0.0 {
            return;
        }
        let (absolute, relative) = match difference.is_finite() {
            true => (difference, difference / largest),
            false => (f64::INFINITY, f64::INFINITY),
        };
        self.max_absolute = self.max_absolute.max(absolute);
        self.max_relative = self.max_relative.max(relative);
        self.sum_of_squares += absolute * absolute;
        if absolute > tolerance.absolute && relative > tolerance.relative {
            self.num_different += 1;
        }
    }
}

/// The elements of an array of integers or booleans.
fn integers(array: &Array) -> impl Iterator<Item = i128> {
    let is_signed = matches!(array.dtype, DType::I8 | DType::I16 | DType::I32 | DType::I64);
    array.data.chunks_exact(array.dtype.size()).map(move |bytes| {
        let is_negative = is_signed && bytes.last().is_some_and(|high| high & 0x80 != 0);
        let mut wide = [if is_negative { 0xff } else { 0 }; 16];
        wide[..bytes.len()].copy_from_slice(bytes);
        i128::from_le_bytes(wide)
    })
}

/// The elements as float64, some thousands at a time.
fn widened(array: &Array) -> impl Iterator<Item = Vec<f64>> {
    array.data.chunks(WIDENED * array.dtype.size()).map(|bytes| widen(bytes, array.dtype))
}

fn widen(bytes: &[u8], dtype: DType) -> Vec<f64> {
    match dtype {
        DType::Bool | DType::U8 => each(bytes, |[byte]| f64::from(byte)),
        DType::I8 => each(bytes, |bytes| i8::from_le_bytes(bytes).into()),
        DType::U16 => each(bytes, |bytes| u16::from_le_bytes(bytes).into()),
        DType::I16 => each(bytes, |bytes| i16::from_le_bytes(bytes).into()),
        DType::U64 => each(bytes, |bytes| u64::from_le_bytes(bytes) as f64),
        DType::U32 => each(bytes, |bytes| u32::from_le_bytes(bytes).into()),
        DType::I32 => each(bytes, |bytes| i32::from_le_bytes(bytes).into()),
        DType::I64 => each(bytes, |bytes| i64::from_le_bytes(bytes) as f64),
        DType::Bf16 => each(bytes, |bytes| bf16::from_le_bytes(bytes).to_f64()),
        DType::F16 => each(bytes, |bytes| f16::from_le_bytes(bytes).to_f64()),
        DType::F32 => each(bytes, |bytes| f32::from_le_bytes(bytes).into()),
        DType::F64 => each(bytes, f64::from_le_bytes),
    }
}

fn each<const N: usize>(bytes: &[u8], value: impl Fn([u8; N]) -> f64) -> Vec<f64> {
    bytes.as_chunks::<N>().0.iter().map(|bytes| value(*bytes)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_finite_elements_are_summed_and_the_others_are_counted() {
        let mut statistics = Statistics::default();
        statistics.add(&Array::from_f32(&[4], &[3.0, f32::NAN, -4.0, f32::INFINITY]));
        statistics.add(&Array::scalar_i32(7));
        assert_eq!((statistics.count, statistics.num_nan, statistics.num_infinite), (5, 1, 1));
        assert_eq!((statistics.min, statistics.max, statistics.mean()), (-4.0, 7.0, 2.0));
        assert_eq!(statistics.norm(), 74f64.sqrt());
    }

    #[test]
    fn statistics_of_parts_are_those_of_the_whole() {
        let values: Vec<f32> = (0..40_000u16).map(|i| f32::from(i) - 100.0).collect();
        let array = Array::from_f32(&[40_000], &values);
        let (mut whole, mut merged) = (Statistics::default(), Statistics::default());
        whole.add(&array);
        for part in [0..100, 100..40_000] {
            let mut one = Statistics::default();
            one.add(&array.part(&[part]));
            merged.merge(&one);
        }
        assert_eq!(merged, whole);
        assert_eq!((whole.count, whole.min, whole.max), (40_000, -100.0, 39_899.0));
    }

    #[test]
    fn distances_are_the_largest_of_all_elements() {
        let mut distance = Distance::default();
        let one = Array::from_f32(&[4], &[1.0, 2.0, f32::NAN, f32::INFINITY]);
        let other = Array::from_f32(&[4], &[1.5, 1.0, f32::NAN, f32::INFINITY]);
        let tolerance = Tolerance { absolute: 0.6, relative: 0.0 };
        distance.add(&one, &other, tolerance);
        assert_eq!((distance.count, distance.num_different), (4, 1));
        assert_eq!((distance.max_absolute, distance.max_relative), (1.0, 0.5));
        assert_eq!(distance.norm(), 1.25f64.sqrt());
        let (nan, number) = (Array::from_f32(&[1], &[f32::NAN]), Array::from_f32(&[1], &[0.0]));
        distance.add(&nan, &number, tolerance);
        assert_eq!((distance.max_absolute, distance.num_different), (f64::INFINITY, 2));
    }

    #[test]
    fn long_integers_are_compared_exactly() {
        let long = |value: i64| Array {
            dtype: DType::I64,
            shape: vec![1],
            data: value.to_le_bytes().to_vec(),
        };
        let mut distance = Distance::default();
        distance.add(&long(1 << 53), &long((1 << 53) + 1), Tolerance::default());
        assert_eq!((distance.num_different, distance.max_absolute), (1, 1.0));
        let short = Array { dtype: DType::I8, shape: vec![1], data: vec![0xfd] };
        distance.add(&long(-3), &short, Tolerance::default());
        distance.add(&long(-1), &short, Tolerance::default());
        assert_eq!((distance.count, distance.num_different, distance.max_absolute), (3, 2, 2.0));
    }
}
