//! The parameters of layers, which are gathered a layer ahead of their use where they are spread over processes: while a
//! layer computes, those of the next one arrive (Zhao et al. 2023, arXiv:2304.11277). So at most two layers are whole at once.

use std::sync::{Mutex, MutexGuard, PoisonError};

use super::autograd::records_gradients;
use super::params::{Params, ParamsUnderWay};

/// The parameters of layers in the order of a forward pass, for that pass and its backward pass. All processes use
/// the same layers in the same order.
#[derive(Debug)]
pub struct Lookahead {
    /// Paths of the layers.
    paths: Vec<String>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// The parameters of each layer that are here.
    layers: Vec<Params>,
    /// The layer whose parameters arrive.
    next: Option<(usize, ParamsUnderWay)>,
}

impl Lookahead {
    /// Takes the parameters of the layers with these paths.
    pub fn new(params: &Params, paths: impl IntoIterator<Item = String>) -> Self {
        let paths: Vec<String> = paths.into_iter().collect();
        let layers = paths.iter().map(|path| params.under(path)).collect();
        Self { paths, state: Mutex::new(State { layers, next: None }) }
    }

    /// The number of the layer with that path.
    pub(super) fn place(&self, path: &str) -> usize {
        let place = self.paths.iter().position(|layer| layer == path);
        place.unwrap_or_else(|| panic!("no layer is named `{path}`"))
    }

    /// The parameters of a layer that are here.
    pub(super) fn params(&self, place: usize) -> Params {
        self.state().layers[place].clone()
    }

    /// Returns the parameters of a layer for its forward pass.
    pub(super) fn forward(&self, place: usize) -> Params {
        // The backward pass begins with the last layer.
        let last = self.paths.len() - 1;
        let is_needed = place < last || records_gradients();
        self.state().whole(place, is_needed.then_some((place + 1).min(last)))
    }

    /// Returns the parameters of a layer for its backward pass.
    pub(super) fn backward(&self, place: usize) -> Params {
        self.state().whole(place, place.checked_sub(1))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Returns the parameters of a layer, and begins to gather those of the next one.
    fn whole(&mut self, place: usize, next: Option<usize>) -> Params {
        let arriving = match self.next.take() {
            Some((found, arriving)) if found == place => arriving,
            _ => self.layers[place].begin_gather(),
        };
        let whole = arriving.finish();
        self.next = next.map(|next| (next, self.layers[next].begin_gather()));
        whole
    }
}
