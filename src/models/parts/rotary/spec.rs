//! The description of rotary positions.

/// The angles by which queries and keys are turned.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rotary {
    /// Numbers of each head that are turned, the first ones; even.
    pub dim: usize,
    /// The greatest wavelength over 2 pi, in positions.
    pub base: f64,
}
