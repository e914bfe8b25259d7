//! Results of projections, and of their sums over processes, that a layer keeps for being made again.

use std::cell::RefCell;
use std::collections::VecDeque;

use tch::Tensor;

thread_local! {
    static PRODUCTS: RefCell<Products> = const { RefCell::new(Products::Computed) };
}

/// The use of the results of projections, and of their sums over processes, on this thread.
pub(super) enum Products {
    /// They are only computed.
    Computed,
    /// They are also kept here, in order.
    Recorded(Vec<Tensor>),
    /// They are taken from here. The last one is missing if no other value depends on it.
    Replayed(VecDeque<Tensor>),
}

impl Products {
    /// Returns the result of `body`, and the results of all its projections and their sums, without the last unless that
    /// is read.
    pub(super) fn recorded<R>(
        body: impl FnOnce() -> R,
        is_last_read: bool,
    ) -> (R, Option<VecDeque<Tensor>>) {
        let outer = PRODUCTS.replace(Products::Recorded(Vec::new()));
        let result = body();
        let Products::Recorded(mut products) = PRODUCTS.replace(outer) else {
            unreachable!("blocks do not contain blocks");
        };
        if !is_last_read {
            products.pop();
        }
        (result, Some(products.into()))
    }

    /// Runs `body` with `products` as the results of its projections, if there are any.
    pub(super) fn replayed<R>(products: Option<VecDeque<Tensor>>, body: impl FnOnce() -> R) -> R {
        let Some(products) = products else { return body() };
        let outer = PRODUCTS.replace(Products::Replayed(products));
        let result = body();
        PRODUCTS.set(outer);
        result
    }
}

/// Keeps a product, or a sum of products over processes, if the layer will be made again with it. It must not be
/// written to.
pub(super) fn keep(product: &Tensor) {
    PRODUCTS.with_borrow_mut(|products| {
        if let Products::Recorded(kept) = products {
            kept.push(product.shallow_clone());
        }
    });
}

/// Returns the next product that was kept, if the layer is made again with them; without a value if no other depends
/// on it.
pub(super) fn recall() -> Option<Option<Tensor>> {
    PRODUCTS.with_borrow_mut(|products| match products {
        Products::Replayed(kept) => Some(kept.pop_front()),
        _ => None,
    })
}
