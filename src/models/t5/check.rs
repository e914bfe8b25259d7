//! Mistakes in the dimensions of a network, found before anything is built.

use super::spec::T5Config;

/// The greatest number of layers in a stack. More are a typing error, and each takes memory before
/// it is counted.
const MAX_LAYERS: usize = 10_000;

/// The greatest number of elements of one parameter; with more, sizes in bytes would exceed 64
/// bits.
const MAX_ELEMENTS: f64 = 1e17;

impl T5Config {
    /// Finds dimensions with which no network can be made.
    ///
    /// # Errors
    /// The first such dimension.
    pub fn check(&self) -> Result<(), String> {
        let extents = [
            ("vocab_size", self.vocab_size),
            ("emb_dim", self.emb_dim),
            ("num_heads", self.num_heads),
            ("head_dim", self.head_dim),
            ("mlp_dim", self.mlp_dim),
            ("mlp_activations", self.mlp_activations.len()),
        ];
        if let Some((name, _)) = extents.iter().find(|(_, extent)| *extent == 0) {
            return Err(format!("network.T5Config.{name} is 0 or empty, expected at least 1"));
        }
        let layers = [
            ("num_encoder_layers", self.num_encoder_layers),
            ("num_decoder_layers", self.num_decoder_layers),
        ];
        if let Some((name, count)) = layers.iter().find(|(_, count)| *count > MAX_LAYERS) {
            return Err(format!(
                "network.T5Config.{name} is {count}, expected at most {MAX_LAYERS}"
            ));
        }
        let product =
            |extents: [usize; 2]| extents.map(|extent| extent as f64).iter().product::<f64>();
        let inner = product([self.num_heads, self.head_dim]).max(self.mlp_dim as f64);
        let widest = (self.vocab_size as f64).max(inner) * self.emb_dim as f64;
        if widest > MAX_ELEMENTS {
            return Err(format!(
                "a parameter of the model has {widest:.0e} elements, more than any machine holds: lower \
                 network.T5Config's dimensions"
            ));
        }
        Ok(())
    }
}
