//! The positions of a stack that a position of its own attends to.

/// The positions of its own stack that a position attends to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// All that the mask allows.
    All,
    /// Neighbours (LongT5).
    Local {
        /// Positions before and after it.
        radius: usize,
    },
    /// Neighbours, and tokens beside the sequence, each of which stands for a block of positions. A layer makes them of the
    /// normalized sums of its inputs (LongT5).
    TransientGlobal {
        /// Positions before and after it.
        radius: usize,
        /// Positions of a block.
        tokens_per_block: usize,
    },
    /// Those of some blocks, which a layout of its layer lists (BigBird).
    Layout {
        /// Their mean number in rows of the greatest length.
        mean_keys: usize,
    },
}

impl Reach {
    /// Positions that each token beside the sequence stands for, if there are such tokens.
    pub fn tokens_per_block(self) -> Option<usize> {
        match self {
            Self::All | Self::Local { .. } | Self::Layout { .. } => None,
            Self::TransientGlobal { tokens_per_block, .. } => Some(tokens_per_block),
        }
    }

    /// Positions that a position attends to on either side; `None` if these are no neighbours alone.
    pub fn radius(self) -> Option<usize> {
        match self {
            Self::All | Self::Layout { .. } => None,
            Self::Local { radius } | Self::TransientGlobal { radius, .. } => Some(radius),
        }
    }

    /// Tokens beside a sequence of that length.
    pub fn num_beside(self, length: f64) -> f64 {
        self.tokens_per_block().map_or(0.0, |tokens| (length / tokens as f64).floor())
    }

    /// Keys of a query in a sequence of that length.
    pub fn num_keys(self, length: f64) -> f64 {
        let most = match self {
            Self::All => None,
            Self::Local { radius } | Self::TransientGlobal { radius, .. } => Some(2 * radius + 1),
            Self::Layout { mean_keys } => Some(mean_keys),
        };
        most.map_or(length, |most| length.min(most as f64)) + self.num_beside(length)
    }
}
