//! The parameters of a model: named float32 leaves of the autograd graph.

use std::collections::BTreeMap;

use tch::{Device, Kind, Tensor};

use super::init::draw;
use super::spec::ParamSpec;

/// Parameters by name, in the order of flax (sorted).
#[derive(Debug, Default)]
pub struct Params {
    tensors: BTreeMap<String, Tensor>,
}

impl Clone for Params {
    /// Other handles of the same tensors.
    fn clone(&self) -> Self {
        let tensors = self.tensors.iter().map(|(name, t)| (name.clone(), t.shallow_clone()));
        Self { tensors: tensors.collect() }
    }
}

impl Params {
    /// Fresh values for every spec. Each tensor's draw depends on `seed`, its name, its shape and the
    /// kind of device alone, so a model that gains a layer keeps the values of the others.
    pub fn init(specs: &[ParamSpec], seed: u64, device: Device) -> Self {
        Self::from_tensors(specs.iter().map(|spec| (spec.name.clone(), draw(spec, seed, device))))
    }

    /// Parameters with the given values; the tensors become leaves that require gradients.
    pub fn from_tensors(tensors: impl IntoIterator<Item = (String, Tensor)>) -> Self {
        let leaf = |tensor: Tensor| tensor.detach().set_requires_grad(true);
        Self { tensors: tensors.into_iter().map(|(name, tensor)| (name, leaf(tensor))).collect() }
    }

    /// The parameter of that name. A model asks for names of its own tree only, so a missing one is
    /// our bug and panics.
    pub fn get(&self, name: &str) -> &Tensor {
        self.tensors.get(name).unwrap_or_else(|| panic!("no parameter is named `{name}`"))
    }

    /// Every parameter with its name, sorted by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Tensor)> {
        self.tensors.iter().map(|(name, tensor)| (name.as_str(), tensor))
    }

    /// Number of tensors.
    pub fn len(&self) -> usize {
        self.tensors.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.tensors.is_empty()
    }

    /// Gradients of `loss` in the order of [`Params::iter`], float32; zeros where `loss` does not
    /// depend on a parameter. Frees the graph and leaves no state in the parameters.
    pub fn gradients(&self, loss: &Tensor) -> Vec<Tensor> {
        let leaves: Vec<&Tensor> = self.tensors.values().collect();
        let gradients = Tensor::run_backward(&[loss], &leaves, false, false);
        let filled = gradients.into_iter().zip(leaves);
        filled.map(|(g, leaf)| if g.defined() { g } else { leaf.zeros_like() }).collect()
    }

    /// Those below `prefix`, under their whole names: other handles of the same tensors.
    pub fn under(&self, prefix: &str) -> Self {
        let prefix = format!("{prefix}/");
        let from = self.tensors.range(prefix.clone()..);
        let below = from.take_while(|(name, _)| name.starts_with(&prefix));
        Self { tensors: below.map(|(name, t)| (name.clone(), t.shallow_clone())).collect() }
    }

    /// The parameter in the compute dtype, as part of the graph.
    pub fn cast(&self, name: &str, kind: Kind) -> Tensor {
        self.get(name).to_kind(kind)
    }
}
