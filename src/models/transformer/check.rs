//! Mistakes in the dimensions of a network, found before anything is built.

use super::spec::TransformerSpec;

/// The greatest number of layers in a stack. More are a typing error, and each takes memory before
/// it is counted.
const MAX_LAYERS: usize = 10_000;

/// The greatest number of elements of one parameter; with more, sizes in bytes would exceed 64
/// bits.
const MAX_ELEMENTS: f64 = 1e17;

impl TransformerSpec {
    /// Finds dimensions with which no network can be made. `config` names the configurable that sets
    /// them, and `layers` its numbers of layers.
    ///
    /// # Errors
    /// The first such dimension.
    pub fn check(&self, config: &str, layers: &[(&str, usize)]) -> Result<(), String> {
        let dims = &self.decoder.dims;
        let extents = [
            ("vocab_size", self.vocab_size),
            ("emb_dim", dims.emb_dim),
            ("num_heads", dims.num_heads),
            ("head_dim", dims.head_dim),
            ("mlp_dim", dims.mlp_dim),
            ("mlp_activations", dims.mlp_activations.len()),
            ("adapter_dim", dims.adapter_dim.unwrap_or(1)),
        ];
        if let Some((name, _)) = extents.iter().find(|(_, extent)| *extent == 0) {
            return Err(format!("{config}.{name} is 0 or empty, expected at least 1"));
        }
        if let Some((name, count)) = layers.iter().find(|(_, count)| *count > MAX_LAYERS) {
            return Err(format!("{config}.{name} is {count}, expected at most {MAX_LAYERS}"));
        }
        let product =
            |extents: [usize; 2]| extents.map(|extent| extent as f64).iter().product::<f64>();
        let widths = dims.feed_forwards().into_iter().map(|block| block.dim as f64);
        let inner = widths.fold(product([dims.num_heads, dims.head_dim]), f64::max);
        let widest = (self.vocab_size as f64).max(inner) * dims.emb_dim as f64;
        if widest > MAX_ELEMENTS {
            return Err(format!(
                "a parameter of the model has {widest:.0e} elements, more than any machine holds: lower \
                 {config}'s dimensions"
            ));
        }
        Ok(())
    }

    /// Finds a dropout with which no training can succeed; `config` names the configurable that sets it.
    ///
    /// # Errors
    /// The dropout rate is no probability below 1.
    pub fn check_dropout(&self, config: &str) -> Result<(), String> {
        let rate = self.dropout_rate;
        match (0.0..1.0).contains(&rate) {
            true => Ok(()),
            false => {
                Err(format!("{config}.dropout_rate is {rate}, expected 0 or more and below 1"))
            }
        }
    }
}
