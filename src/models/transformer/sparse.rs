//! Layers of a stack with experts, and their places among those without. Source: flaxformer
//! `architectures/moe/moe_architecture.py`.

use crate::gin::Configurable;
use crate::models::parts::FeedForwardSpec;

/// The layers with experts.
#[derive(Clone, Debug, PartialEq)]
pub struct SparseLayers {
    /// Their number, as it is asked for.
    pub num_layers: usize,
    /// Their places.
    pub layout: LayerLayout,
    /// Their feed-forward blocks, in order.
    pub blocks: Vec<FeedForwardSpec>,
}

/// The places of layers with experts. Source: flaxformer `architectures/moe/moe_enums.py`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Configurable)]
pub enum LayerLayout {
    /// They are the first.
    Bottom,
    /// They are in the middle.
    Middle,
    /// They are every n-th one, so that the last one has experts.
    Mixed,
    /// They are the last.
    Top,
}

impl SparseLayers {
    /// Whether the layer number `index` of `num_layers` has experts.
    pub fn has(&self, index: usize, num_layers: usize) -> bool {
        let sparse = self.num_layers;
        match self.layout {
            LayerLayout::Bottom => index < sparse,
            LayerLayout::Middle => {
                num_layers <= 2 * index + sparse && 2 * index < num_layers + sparse
            }
            LayerLayout::Mixed => num_layers
                .checked_div(sparse)
                .is_some_and(|every| every > 0 && index % every == every - 1),
            LayerLayout::Top => index + sparse >= num_layers,
        }
    }

    /// Number of layers with experts among so many.
    pub fn count(&self, num_layers: usize) -> usize {
        (0..num_layers).filter(|index| self.has(*index, num_layers)).count()
    }

    /// Finds a number of layers that the layout does not allow; `config` names the configurable that sets it.
    ///
    /// # Errors
    /// More layers than there are, or for 'mixed' not every n-th one.
    pub fn check(&self, config: &str, num_layers: usize) -> Result<(), String> {
        let sparse = self.num_layers;
        let is_mixed = self.layout == LayerLayout::Mixed && sparse > 0;
        if sparse > num_layers || (is_mixed && !num_layers.is_multiple_of(sparse)) {
            let expected = match is_mixed {
                true => "a divisor of",
                false => "at most",
            };
            return Err(format!(
                "{config}.num_sparse_layers is {sparse}, expected {expected} num_layers, which is {num_layers}"
            ));
        }
        Ok(())
    }

    /// The same layers as one of `count` processes computes them that divide feed-forward blocks.
    pub fn share(&self, count: usize) -> Self {
        let part =
            |block: &FeedForwardSpec| FeedForwardSpec { dim: block.dim / count, ..block.clone() };
        Self { blocks: self.blocks.iter().map(part).collect(), ..*self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(layout: LayerLayout, sparse: usize, num_layers: usize, expected: &[usize]) {
        let layers = SparseLayers { num_layers: sparse, layout, blocks: Vec::new() };
        assert_eq!(layers.check("SparseEncoder", num_layers), Ok(()));
        let found: Vec<usize> =
            (0..num_layers).filter(|index| layers.has(*index, num_layers)).collect();
        assert_eq!(found, expected, "{layout:?}");
    }

    /// Places of flaxformer's `_is_sparse_layer`.
    #[test]
    fn layers_with_experts_are_where_flaxformer_has_them() {
        check(LayerLayout::Bottom, 2, 6, &[0, 1]);
        check(LayerLayout::Middle, 2, 6, &[2, 3]);
        check(LayerLayout::Middle, 1, 6, &[3]);
        check(LayerLayout::Middle, 3, 8, &[3, 4, 5]);
        check(LayerLayout::Mixed, 3, 12, &[3, 7, 11]);
        check(LayerLayout::Mixed, 6, 6, &[0, 1, 2, 3, 4, 5]);
        check(LayerLayout::Mixed, 0, 6, &[]);
        check(LayerLayout::Top, 2, 6, &[4, 5]);
    }

    #[test]
    fn numbers_without_places_are_refused() {
        let layers = |num_layers, layout| SparseLayers { num_layers, layout, blocks: Vec::new() };
        let mixed = layers(4, LayerLayout::Mixed).check("SparseEncoder", 6).unwrap_err();
        let expected =
            "SparseEncoder.num_sparse_layers is 4, expected a divisor of num_layers, which is 6";
        assert_eq!(mixed, expected);
        assert!(layers(7, LayerLayout::Top).check("SparseEncoder", 6).is_err());
    }
}
