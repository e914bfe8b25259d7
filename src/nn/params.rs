//! The parameters of a model: named float32 leaves of the autograd graph.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tch::{Device, Kind, Tensor};

use super::division::Division;
use super::fp8::{Fp8Product, Fp8Scaling};
use super::init::draw;
use super::portion::{Gathering, Portion};
use super::shard::Shard;
use super::spec::{ParamSpec, TransformerEngineConfig};

/// Parameters on their way to where they are whole: see [`Params::begin_gather`].
#[derive(Debug)]
#[must_use = "the parameters arrive when this is finished"]
pub struct ParamsUnderWay {
    parts: Params,
    /// The parameters that are gathered.
    names: Vec<String>,
    gathering: Gathering,
}

impl ParamsUnderWay {
    /// Waits for the parameters and returns them as leaves that are whole along the data axis, as far as they do not stay;
    /// those themselves if nothing was gathered.
    pub fn finish(self) -> Params {
        let Self { parts, names, gathering } = self;
        if names.is_empty() {
            return parts;
        }
        let wholes = tch::no_grad(|| gathering.finish());
        let mut wholes: BTreeMap<String, Tensor> = names.into_iter().zip(wholes).collect();
        let leaf = |(name, tensor): (&str, &Tensor)| {
            let whole = wholes.remove(name).unwrap_or_else(|| tensor.shallow_clone());
            (name.to_string(), leaf_like(tensor, &whole.contiguous()))
        };
        parts.with(parts.iter().map(leaf).collect(), Arc::clone(parts.division.gathered()))
    }
}

/// Parameters by name, in the order of flax (sorted).
#[derive(Debug, Default)]
pub struct Params {
    tensors: BTreeMap<String, Tensor>,
    /// The part of each that is here.
    division: Arc<Division>,
    /// The scales of fp8 products, once a model has computed in fp8.
    fp8: Arc<Mutex<Option<Arc<Fp8Scaling>>>>,
}

impl Clone for Params {
    /// Returns other handles of the same tensors.
    fn clone(&self) -> Self {
        let tensors = self.tensors.iter().map(|(name, t)| (name.clone(), t.shallow_clone()));
        self.with(tensors.collect(), Arc::clone(&self.division))
    }
}

impl Params {
    /// Draws initial values for every spec. Each tensor's draw depends on `seed`, its name, its
    /// shape and the kind of device alone, so a model that gains a layer keeps the values of the
    /// others.
    pub fn init(specs: &[ParamSpec], seed: u64, device: Device) -> Self {
        Self::from_tensors(specs.iter().map(|spec| (spec.name.clone(), draw(spec, seed, device))))
    }

    /// Parameters with the given values; the tensors become leaves that require gradients.
    pub fn from_tensors(tensors: impl IntoIterator<Item = (String, Tensor)>) -> Self {
        let leaf = |tensor: Tensor| tensor.detach().set_requires_grad(true);
        let tensors = tensors.into_iter().map(|(name, tensor)| (name, leaf(tensor))).collect();
        Self { tensors, ..Self::default() }
    }

    /// Returns the parameter of that name. A model asks for names of its own tree only, so a
    /// missing one is a bug and panics.
    pub fn get(&self, name: &str) -> &Tensor {
        self.tensors.get(name).unwrap_or_else(|| panic!("no parameter is named `{name}`"))
    }

    /// Returns the parameter of that name, if there is one.
    pub fn find(&self, name: &str) -> Option<&Tensor> {
        self.tensors.get(name)
    }

    /// The same parameters; those that are chosen have no gradients from now on.
    pub fn freeze(self, is_frozen: &dyn Fn(&str) -> bool) -> Self {
        let frozen = self.tensors.iter().filter(|(name, _)| is_frozen(name));
        frozen.for_each(|(_, leaf)| drop(leaf.set_requires_grad(false)));
        self
    }

    /// Every parameter with its name, sorted by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Tensor)> {
        self.tensors.iter().map(|(name, tensor)| (name.as_str(), tensor))
    }

    /// Number of tensors.
    pub fn len(&self) -> usize {
        self.tensors.len()
    }

    /// Whether there are no tensors.
    pub fn is_empty(&self) -> bool {
        self.tensors.is_empty()
    }

    /// Gradients of `loss` in the order of [`Params::iter`], float32; zeros where `loss` does not
    /// depend on a parameter. Frees the graph and leaves no state in the parameters.
    pub fn gradients(&self, loss: &Tensor) -> Vec<Tensor> {
        let trained: Vec<&Tensor> = self.tensors.values().filter(|it| it.requires_grad()).collect();
        let mut gradients = Tensor::run_backward(&[loss], &trained, false, false).into_iter();
        let gradient = |leaf: &Tensor| {
            let own = leaf.requires_grad().then(|| gradients.next().expect("each has one"));
            own.filter(Tensor::defined).unwrap_or_else(|| leaf.zeros_like())
        };
        self.tensors.values().map(gradient).collect()
    }

    /// Returns the parameters below `prefix`, under their whole names: other handles of the same
    /// tensors.
    pub fn under(&self, prefix: &str) -> Self {
        let prefix = format!("{prefix}/");
        let from = self.tensors.range(prefix.clone()..);
        let below = from.take_while(|(name, _)| name.starts_with(&prefix));
        let tensors = below.map(|(name, t)| (name.clone(), t.shallow_clone())).collect();
        self.with(tensors, Arc::clone(&self.division))
    }

    pub(super) fn with(&self, tensors: BTreeMap<String, Tensor>, division: Arc<Division>) -> Self {
        Self { tensors, division, fp8: Arc::clone(&self.fp8) }
    }

    /// The same parameters as parts of a division.
    pub fn divided(self, division: Division) -> Self {
        Self { division: Arc::new(division), ..self }
    }

    /// The part of each parameter that is here.
    pub fn division(&self) -> &Arc<Division> {
        &self.division
    }

    /// The part of a parameter that is here.
    pub fn shard(&self, name: &str) -> Shard {
        let of_size = || {
            let size = self.get(name).size();
            Shard::whole(&size.iter().map(|&extent| extent as usize).collect::<Vec<_>>())
        };
        self.division.shards.get(name).cloned().unwrap_or_else(of_size)
    }

    /// Whether some of them are spread over the data axis.
    pub fn are_spread(&self) -> bool {
        self.iter().any(|(name, tensor)| self.spread(name, tensor).is_some())
    }

    fn spread(&self, name: &str, tensor: &Tensor) -> Option<Portion> {
        self.division.spread(name, tensor)
    }

    /// Begins to gather the parameters along the data axis, in one operation.
    pub fn begin_gather(&self) -> ParamsUnderWay {
        let portions =
            self.iter().filter_map(|(name, part)| Some((name, self.spread(name, &part.detach())?)));
        let (names, portions): (Vec<&str>, Vec<Portion>) = portions.unzip();
        let gathering = tch::no_grad(|| self.division.axes.data.begin_gather(&portions));
        let names = names.into_iter().map(str::to_string).collect();
        ParamsUnderWay { parts: self.clone(), names, gathering }
    }

    /// Returns the parameters as whole leaves, gathered one by one, for work that needs no other process.
    pub fn whole(&self) -> Self {
        if self.division.axes.model.is_alone() && self.division.is_whole() {
            return self.clone();
        }
        let leaf = |(name, part): (&str, &Tensor)| {
            let whole = tch::no_grad(|| self.division.whole(part, &self.shard(name)).contiguous());
            (name.to_string(), leaf_like(part, &whole))
        };
        self.with(self.iter().map(leaf).collect(), Arc::default())
    }

    /// Returns this process's parts of the sums of the gradients of gathered parameters, in the order of
    /// [`Params::iter`]; what is not spread stays as it is.
    pub fn sum_parts(&self, mut gradients: Vec<Tensor>) -> Vec<Tensor> {
        let places =
            self.iter().zip(&gradients).enumerate().filter_map(|(place, ((name, _), of))| {
                Some((place, self.spread(name, of).filter(|_| of.defined())?))
            });
        let (places, portions): (Vec<usize>, Vec<Portion>) = places.unzip();
        let parts = tch::no_grad(|| self.division.axes.data.sum_parts(&portions));
        for (place, part) in places.into_iter().zip(parts) {
            gradients[place] = part;
        }
        gradients
    }

    /// Returns the parameter as part of the graph, whole along the data axis.
    pub fn read(&self, name: &str) -> Tensor {
        let tensor = self.get(name);
        match self.spread(name, tensor) {
            Some(Portion { dim, extent, .. }) => {
                self.division.axes.data.gathered(tensor, dim, extent)
            }
            None => tensor.shallow_clone(),
        }
    }

    /// Begins a forward pass whose projections compute in fp8, or not. If gradients are recorded,
    /// the scales advance by a step.
    pub fn begin_fp8(&self, spec: Option<&TransformerEngineConfig>) {
        let mut held = self.scaling();
        let Some(spec) = spec.filter(|spec| spec.enable_fp8) else {
            *held = None;
            return;
        };
        let scaling = match held.take().filter(|scaling| scaling.spec() == spec) {
            Some(scaling) => scaling,
            None => {
                let kernels = self.tensors.keys().filter(|name| name.ends_with("/kernel"));
                let device = self.tensors.values().next().map_or(Device::Cpu, Tensor::device);
                Arc::new(Fp8Scaling::new(spec, kernels.map(String::as_str), device))
            }
        };
        // A leaf and its views require gradients even under `no_grad`, but results do not.
        let records = |leaf: &Tensor| leaf.narrow(0, 0, 0).neg().requires_grad();
        match self.tensors.values().find(|leaf| leaf.requires_grad()).is_some_and(records) {
            true => scaling.next_step(&self.division.axes),
            false => scaling.evaluate(),
        }
        *held = Some(scaling);
    }

    /// Returns products in fp8 with that kernel, between [`Params::begin_fp8`] and the next.
    pub(super) fn fp8_product(&self, kernel: &str) -> Option<Fp8Product> {
        self.scaling().as_ref().map(|scaling| scaling.product(kernel))
    }

    fn scaling(&self) -> MutexGuard<'_, Option<Arc<Fp8Scaling>>> {
        self.fp8.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The parameter in the compute dtype, as part of the graph.
    pub fn cast(&self, name: &str, kind: Kind) -> Tensor {
        self.read(name).to_kind(kind)
    }
}

/// Returns other values of a parameter as a leaf that requires a gradient if the parameter does.
fn leaf_like(param: &Tensor, values: &Tensor) -> Tensor {
    values.detach().set_requires_grad(param.requires_grad())
}
