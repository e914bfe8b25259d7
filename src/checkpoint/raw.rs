//! Tensors as a file of another program describes them.

use std::collections::BTreeMap;

use super::array::{DType, is_plausible, num_elements};

/// The type and shape of a tensor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RawInfo {
    /// The type of the elements.
    pub dtype: DType,
    /// Its dimensions.
    pub shape: Vec<usize>,
}

impl RawInfo {
    /// Number of bytes; `None` when no machine could hold them.
    pub fn num_bytes(&self) -> Option<u64> {
        let is_plausible = is_plausible(&self.shape, self.dtype);
        is_plausible.then(|| (num_elements(&self.shape) * self.dtype.size()) as u64)
    }

    /// Number of bytes of a row, which is one index of the first dimension.
    pub fn row_bytes(&self) -> usize {
        num_elements(self.shape.get(1..).unwrap_or_default()) * self.dtype.size()
    }
}

/// Tensors by name.
pub(super) type RawInfos = BTreeMap<String, RawInfo>;
