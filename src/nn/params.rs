//! The parameters of a model: named float32 leaves of the autograd graph.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tch::{Device, Kind, Tensor};

use super::autograd::records_gradients;
use super::copies::{self, Copies, KernelCopy, add_gradients, with_gradients};
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
        parts.elsewhere(parts.iter().map(leaf).collect(), Arc::clone(parts.division.gathered()))
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
    /// The copies that products read, as far as they were asked for; `None` of tensors that are parts of others, or gathered.
    copies: Option<Arc<Mutex<Copies>>>,
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
        Self { tensors, copies: Some(Arc::default()), ..Self::default() }
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

    /// The leaves of the graph by name: copies of kernels, by the first one's name, and the parameters without a copy.
    pub fn leaves(&self) -> Vec<(String, Tensor)> {
        let copies = self.copies();
        let copied: BTreeSet<&str> = kernel_names(&copies).collect();
        let own = self.iter().filter(|(name, _)| !copied.contains(name));
        let own = own.map(|(name, leaf)| (name.to_string(), leaf.shallow_clone()));
        let of_copies = copies.iter().map(|copy| (copy.kernels()[0].name.clone(), copy.leaf()));
        own.chain(of_copies).collect()
    }

    /// Gradients of `loss` in the order of [`Params::iter`], float32; zeros where `loss` does not
    /// depend on a parameter. Frees the graph and leaves no state in the parameters.
    pub fn gradients(&self, loss: &Tensor) -> Vec<Tensor> {
        let leaves: Vec<_> =
            self.leaves().into_iter().filter(|(_, leaf)| leaf.requires_grad()).collect();
        let trained: Vec<&Tensor> = leaves.iter().map(|(_, leaf)| leaf).collect();
        let found = Tensor::run_backward(&[loss], &trained, false, false);
        let names = leaves.iter().map(|(name, _)| name.clone());
        let mut found: BTreeMap<String, Tensor> = names.zip(found).collect();
        for copy in self.copies() {
            let Some(gradient) = found.remove(&copy.kernels()[0].name) else { continue };
            let parts =
                with_gradients(copy.kernels(), &gradient).filter(|(_, part)| part.defined());
            found.extend(
                parts.map(|(kernel, part)| (kernel.name.clone(), kernel.columns.widened(&part))),
            );
        }
        let gradient = |(name, leaf): (&str, &Tensor)| {
            found.remove(name).filter(Tensor::defined).unwrap_or_else(|| leaf.zeros_like())
        };
        self.iter().map(gradient).collect()
    }

    /// Adds the gradients of `loss` to those that the parameters hold, in float32. Frees the graph.
    pub fn backward(&self, loss: &Tensor) {
        let copies = self.copies();
        for copy in &copies {
            copy.on_gradient(|kernels, gradient| add_gradients(kernels, &gradient));
        }
        loss.backward();
        copies.iter().for_each(|copy| drop(copy.no_hook()));
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

    /// Returns some of these tensors.
    fn with(&self, tensors: BTreeMap<String, Tensor>, division: Arc<Division>) -> Self {
        Self { copies: self.copies.clone(), ..self.elsewhere(tensors, division) }
    }

    /// Returns tensors in their place that are made of them.
    pub(super) fn elsewhere(
        &self,
        tensors: BTreeMap<String, Tensor>,
        division: Arc<Division>,
    ) -> Self {
        Self { tensors, division, fp8: Arc::clone(&self.fp8), copies: None }
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
        self.elsewhere(self.iter().map(leaf).collect(), Arc::default())
    }

    /// Returns this process's parts of the sums of the gradients of gathered parameters, in the order of
    /// [`Params::leaves`]; what is not spread stays as it is.
    pub fn sum_parts(&self, mut gradients: Vec<Tensor>) -> Vec<Tensor> {
        let leaves = self.leaves();
        let places =
            leaves.iter().zip(&gradients).enumerate().filter_map(|(place, ((name, _), of))| {
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
        debug_assert!(
            !(tensor.requires_grad() && records_gradients() && self.has_copy(name)),
            "`{name}` has a copy, and the gradient of the parameter itself would be lost"
        );
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

    /// Returns these kernels, each times a factor, in bfloat16 and side by side, `[in, kernels * out]`: a leaf of the
    /// graph. `None` if they are spread over processes, made of other parameters, or not in float32. A kernel must be asked for
    /// beside the same ones every time.
    pub(super) fn copied(&self, kernels: &[(String, f64)]) -> Option<Tensor> {
        let suits = |(name, _): &(String, f64)| {
            self.get(name).kind() == Kind::Float && self.spread(name, self.get(name)).is_none()
        };
        if !copies::are_enabled() || !kernels.iter().all(suits) {
            return None;
        }
        let mut copies = self.held_copies()?;
        let copy =
            copies.entry(kernels[0].0.clone()).or_insert_with(|| KernelCopy::new(self, kernels));
        let names = copy.kernels().iter().map(|kernel| (&kernel.name, kernel.columns.factor));
        assert!(
            names.eq(kernels.iter().map(|(name, factor)| (name, *factor))),
            "{kernels:?} are read beside others"
        );
        copy.refresh();
        Some(copy.leaf())
    }

    /// The copies of kernels that are among the parameters.
    pub fn copies(&self) -> Vec<KernelCopy> {
        let Some(copies) = self.held_copies() else { return Vec::new() };
        let own = copies.iter().filter(|(first, _)| self.tensors.contains_key(*first));
        own.map(|(_, copy)| copy.shallow_clone()).collect()
    }

    /// Writes the copies of parameters that were changed in the meantime, as reading them does: for recorded work.
    pub fn refresh_copies(&self) {
        self.each_copy(KernelCopy::refresh);
    }

    /// Ends an update of the parameters: writes their copies, but for those that it has `written`, and forgets the casts of
    /// kernels to fp8.
    pub fn follow_update(&self, written: &BTreeSet<String>) {
        self.each_copy(|copy| copy.follow_update(written));
        self.forget_casts();
    }

    /// Forgets the casts of kernels to fp8, which another pass makes again.
    pub fn forget_casts(&self) {
        if let Some(scaling) = &*self.scaling() {
            scaling.forget_casts();
        }
    }

    fn each_copy(&self, change: impl Fn(&mut KernelCopy)) {
        if let Some(mut copies) = self.held_copies() {
            copies.values_mut().for_each(change);
        }
    }

    fn has_copy(&self, name: &str) -> bool {
        kernel_names(&self.copies()).any(|copied| copied == name)
    }

    fn held_copies(&self) -> Option<MutexGuard<'_, Copies>> {
        let copies = self.copies.as_ref()?;
        Some(copies.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The parameter in the compute dtype, as part of the graph.
    pub fn cast(&self, name: &str, kind: Kind) -> Tensor {
        self.read(name).to_kind(kind)
    }
}

/// The names of all kernels in copies.
pub fn kernel_names(copies: &[KernelCopy]) -> impl Iterator<Item = &str> {
    copies.iter().flat_map(|copy| copy.kernels()).map(|kernel| &kernel.name[..])
}

/// Returns other values of a parameter as a leaf that requires a gradient if the parameter does.
fn leaf_like(param: &Tensor, values: &Tensor) -> Tensor {
    values.detach().set_requires_grad(param.requires_grad())
}
