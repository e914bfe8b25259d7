//! Optax's formulas on tensors, in float32 up to rounding.

use std::collections::HashMap;
use std::sync::Arc;

use tch::{Kind, Tensor};

use super::OptaxRule;
use super::expr::{Binary, Expr, Node, Unary};
use super::formula::{Changes, FusedNumbers};
use crate::nn::bridge::{FusedAdamW, fused_adamw};
use crate::optim::error::OptimError;
use crate::optim::parts::OwnPart;
use crate::optim::update::{Clock, ParamState, Prepare, Prepared, Updated};

impl Prepare for OptaxRule {
    fn prepare(&self, clock: &Clock) -> Result<Box<dyn Prepared>, OptimError> {
        let turn = self.turn(clock.count, clock.learning_rate)?;
        Ok(match self.fused() {
            Some(FusedNumbers { b1, b2, eps, weight_decay }) => {
                let factors = FusedAdamW { b1, b2, eps, weight_decay };
                let (learning_rate, number) = (turn.learning_rate as f32, turn.number());
                Box::new(Fused { factors, learning_rate, number, given: None })
            }
            None => Box::new(self.changes(&turn)),
        })
    }
}

/// An update by libtorch's kernel for Adam.
#[derive(Debug)]
struct Fused {
    factors: FusedAdamW,
    learning_rate: f32,
    /// The number of this update, from 1.
    number: i64,
    /// Both on the parameters' device, once they are there.
    given: Option<Tensor>,
}

impl Prepared for Fused {
    fn rates(&self) -> Option<Vec<f32>> {
        Some(vec![self.learning_rate, self.number as f32])
    }

    fn read_from(&mut self, rates: Tensor) {
        self.given = Some(rates);
    }

    /// Updates with one kernel for as many tensors as fit into its arguments.
    fn apply(&self, updated: Vec<Updated<'_>>) {
        let Some(first) = updated.first() else { return };
        let full = |number: f64| Tensor::full([], number, (Kind::Float, first.param.device()));
        let [learning_rate, number] = match &self.given {
            Some(rates) => [0, 1].map(|index| rates.get(index)),
            None => [full(f64::from(self.learning_rate)), full(self.number as f64)],
        };
        let (mut params, mut grads) = (Vec::new(), Vec::new());
        let (mut means, mut squares) = (Vec::new(), Vec::new());
        for Updated { param, grad, state, .. } in updated {
            let [mean, square] = &state.arrays[..] else { panic!("Adam keeps two arrays") };
            means.push(mean.shallow_clone());
            squares.push(square.shallow_clone());
            params.push(param);
            grads.push(grad);
        }
        let lists = [&params[..], &grads, &means, &squares];
        fused_adamw(&self.factors, lists, &learning_rate, &number);
    }
}

impl Prepared for Changes {
    fn apply(&self, mut updated: Vec<Updated<'_>>) {
        // JAX's order: the keys of nested maps are sorted, level by level.
        updated.sort_by(|a, b| a.name.split('/').cmp(b.name.split('/')));
        for (place, Updated { mut param, grad, state, .. }) in (0..).zip(updated) {
            let computed = HashMap::new();
            let mut values = Values { param: &param, grad, state, place, computed };
            let step = values.of(&self.step);
            let new: Vec<Tensor> = self.state.iter().map(|formula| values.of(formula)).collect();
            for (array, new) in state.arrays.iter_mut().zip(&new) {
                array.copy_(new);
            }
            let _ = param.g_add_(&step);
        }
    }
}

/// The values of formulas for one parameter.
struct Values<'a> {
    param: &'a Tensor,
    grad: Tensor,
    state: &'a ParamState,
    /// The parameter's index among all, in JAX's order.
    place: u64,
    /// Values by the address of their formula, so that shared parts are computed once.
    computed: HashMap<*const Node, Tensor>,
}

impl Values<'_> {
    fn of(&mut self, formula: &Expr) -> Tensor {
        let address = Arc::as_ptr(&formula.0);
        if let Some(value) = self.computed.get(&address) {
            return value.shallow_clone();
        }
        let value = self.compute(&formula.0);
        // A formula that nobody shares is not needed again.
        if Arc::strong_count(&formula.0) > 1 {
            self.computed.insert(address, value.shallow_clone());
        }
        value
    }

    fn compute(&mut self, node: &Node) -> Tensor {
        match node {
            Node::Gradient => self.grad.shallow_clone(),
            Node::Param => self.param.shallow_clone(),
            Node::Slot(index) => self.state.arrays[*index].to_kind(Kind::Float),
            Node::Scaled(index, factor) => scaled(&self.state.arrays[*index], *factor),
            Node::Number(number) => Tensor::full([], *number, (Kind::Float, self.param.device())),
            Node::Normal(key) => {
                let shard = self.state.part.shard();
                let numbers = key.split(self.place).normal(shard.whole.iter().product());
                let whole: Vec<i64> = shard.whole.iter().map(|&extent| extent as i64).collect();
                shard
                    .of(&Tensor::from_slice(&numbers).view(&whole[..]))
                    .to_device(self.param.device())
            }
            Node::Unary(operation, of) => unary(*operation, &self.of(of), &self.state.part),
            Node::Binary(operation, left, right) => {
                let left = self.of(left);
                match &*right.0 {
                    Node::Number(number) => with_number(*operation, &left, *number),
                    _ => binary(*operation, &left, &self.of(right)),
                }
            }
            Node::IfPositive { condition, then, otherwise } => {
                let otherwise = Tensor::full([], *otherwise, (Kind::Float, self.param.device()));
                self.of(then).where_self(&self.of(condition).gt(0.0), &otherwise)
            }
        }
    }
}

/// Returns the array times the number, both rounded to the array's storage format.
fn scaled(array: &Tensor, factor: f64) -> Tensor {
    let factor = Tensor::from(factor).to_kind(array.kind()).double_value(&[]);
    (array.to_kind(Kind::Float) * factor).to_kind(array.kind()).to_kind(Kind::Float)
}

fn unary(operation: Unary, of: &Tensor, part: &OwnPart) -> Tensor {
    match operation {
        Unary::Square => of.square(),
        Unary::Sqrt => of.sqrt(),
        Unary::Sign => of.sign(),
        Unary::Norm => part.norm(of),
        Unary::RootMeanSquare => part.norm(of) / part.numel().sqrt(),
        Unary::AtLeast(least) => of.clamp_min(least),
    }
}

fn binary(operation: Binary, left: &Tensor, right: &Tensor) -> Tensor {
    match operation {
        Binary::Add => left + right,
        Binary::Sub => left - right,
        Binary::Mul => left * right,
        Binary::Div => left / right,
    }
}

fn with_number(operation: Binary, left: &Tensor, right: f64) -> Tensor {
    match operation {
        Binary::Add => left + right,
        Binary::Sub => left - right,
        Binary::Mul => left * right,
        Binary::Div => left / right,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::optim::layout::StateLayout;
    use crate::optim::optax::{Key, expr};

    #[test]
    fn a_parameter_has_the_noise_of_its_place_in_jax_order() {
        let key = Key::new(3);
        let noise = Changes { step: expr::normal(key), state: Vec::new() };
        // As texts they are in the other order.
        let params = ["a/x", "a-b/x"].map(|name| (name, Tensor::zeros([2], tch::kind::FLOAT_CPU)));
        let layout = StateLayout { slots: Vec::new(), averaged: Vec::new(), factored: None };
        let mut states = [(); 2].map(|()| ParamState {
            layout: layout.clone(),
            arrays: vec![],
            part: OwnPart::whole(&[2]),
        });
        let given = params.iter().zip(&mut states).rev();
        let updated = |((name, param), state): (&(&'static str, Tensor), _)| {
            let param = param.shallow_clone();
            Updated { name, grad: param.zeros_like(), param, state, beside: None }
        };
        noise.apply(given.map(updated).collect());
        for (place, (name, param)) in (0..).zip(&params) {
            let expected = Tensor::from_slice(&key.split(place).normal(2));
            assert_eq!(*param, expected, "{name}");
        }
    }
}
