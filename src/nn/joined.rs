//! Tensors of one width that lie side by side in the last axis of others: the results of
//! projections of the same inputs, if they are one product. Their gradients have the same layout,
//! so that the backward pass has equally few products.

use tch::Tensor;

/// Parts in order, each `[.., width]`, in as many tensors as were made separately.
#[derive(Debug)]
pub struct Joined {
    wholes: Vec<Tensor>, // each [.., parts * width]
    width: i64,
}

impl Joined {
    /// Creates it from `num_parts` parts of one width that fill `wholes`, each
    /// `[.., parts * width]` and contiguous.
    pub fn new(wholes: Vec<Tensor>, num_parts: usize) -> Self {
        let filled: i64 = wholes.iter().map(last_extent).sum();
        assert_eq!(filled % num_parts as i64, 0, "parts are of one width");
        Self { wholes, width: filled / num_parts as i64 }
    }

    /// The tensors that hold the parts, in order.
    pub fn wholes(&self) -> &[Tensor] {
        &self.wholes
    }

    /// Returns these tensors by value.
    pub fn into_wholes(self) -> Vec<Tensor> {
        self.wholes
    }

    /// Returns the parts with an addend `[width]` or `[.., width]` added to each, or without addends as they are.
    pub fn plus(self, addends: &[Tensor]) -> Self {
        if addends.is_empty() {
            return self;
        }
        let mut rest = addends;
        let plus = |whole: &Tensor| {
            let (own, others) = rest.split_at((last_extent(whole) / self.width) as usize);
            rest = others;
            whole + Tensor::cat(own, -1)
        };
        Self { wholes: self.wholes.iter().map(plus).collect(), width: self.width }
    }

    /// Returns the parts plus `inputs` `[.., in]` times a kernel `[in, parts * width]`.
    pub fn plus_product(self, inputs: &Tensor, kernel: &Tensor) -> Self {
        let rows = |tensor: &Tensor| tensor.reshape([-1, last_extent(tensor)]);
        let (inputs, mut start) = (rows(inputs), 0);
        let plus = |whole: &Tensor| {
            let own = kernel.narrow(1, start, last_extent(whole));
            start += last_extent(whole);
            rows(whole).addmm(&inputs, &own).view_as(whole)
        };
        Self { wholes: self.wholes.iter().map(plus).collect(), width: self.width }
    }

    /// Returns each part `[.., width]` as a view.
    pub fn parts(&self) -> Vec<Tensor> {
        let of = |whole: &Tensor| match last_extent(whole) == self.width {
            true => vec![whole.shallow_clone()],
            // Unlike with slices, the backward pass of this writes each number once.
            false => apart(whole, self.width).unbind(-2),
        };
        self.wholes.iter().flat_map(of).collect()
    }

    /// Returns the same values outside of any graph.
    pub fn detach(&self) -> Self {
        Self { wholes: self.wholes.iter().map(Tensor::detach).collect(), width: self.width }
    }

    /// Returns uninitialized parts of the same layout.
    pub fn empty_like(&self) -> Self {
        let empty = |whole: &Tensor| Tensor::empty(whole.size(), (whole.kind(), whole.device()));
        Self { wholes: self.wholes.iter().map(empty).collect(), width: self.width }
    }

    /// Returns the same layout for existing parts, each of the shape of its counterpart: parts in
    /// place stay there, the others are copied.
    pub fn laid_out(&self, parts: &[Tensor]) -> Self {
        let mut rest = parts;
        let whole = |whole: &Tensor| {
            let (own, others) = rest.split_at((last_extent(whole) / self.width) as usize);
            rest = others;
            in_place(own).unwrap_or_else(|| Tensor::cat(own, -1))
        };
        Self { wholes: self.wholes.iter().map(whole).collect(), width: self.width }
    }
}

/// `[.., parts * width]` to `[.., parts, width]`
fn apart(whole: &Tensor, width: i64) -> Tensor {
    let mut size = whole.size();
    let last = size.pop().expect("activations have axes");
    size.extend([last / width, width]);
    whole.view(size.as_slice())
}

/// Returns the tensor of which the parts `[.., width]` are views, if they lie side by side and fill
/// it.
fn in_place(parts: &[Tensor]) -> Option<Tensor> {
    let [first, others @ ..] = parts else { return None };
    if others.is_empty() {
        return Some(first.shallow_clone());
    }
    let (mut size, width) = (first.size(), last_extent(first));
    *size.last_mut().expect("activations have axes") = parts.len() as i64 * width;
    let mut stride: Vec<i64> = vec![1; size.len()];
    for axis in (1..size.len()).rev() {
        stride[axis - 1] = stride[axis] * size[axis];
    }
    let bytes = width as usize * first.kind().elt_size_in_bytes();
    let lies = |index: usize, part: &Tensor| {
        let address = first.data_ptr() as usize + index * bytes;
        part.data_ptr() as usize == address
            && part.kind() == first.kind()
            && part.size() == first.size()
            && part.stride() == stride
    };
    let all = parts.iter().enumerate().all(|(index, part)| lies(index, part));
    all.then(|| first.as_strided(&size, &stride, None))
}

fn last_extent(tensor: &Tensor) -> i64 {
    *tensor.size().last().expect("activations have axes")
}

#[cfg(test)]
mod tests {
    use super::*;
    use tch::{Device, Kind};

    fn numbers(size: &[i64]) -> Tensor {
        Tensor::arange(size.iter().product::<i64>(), (Kind::Float, Device::Cpu)).view(size)
    }

    #[test]
    fn parts_are_views_in_order_across_tensors() {
        let joined = Joined::new(vec![numbers(&[2, 3, 4]), numbers(&[2, 3, 8])], 3);
        let parts = joined.parts();
        assert_eq!(parts.len(), 3);
        for (part, (whole, start)) in parts.iter().zip([(0, 0), (1, 0), (1, 4)]) {
            let expected = joined.wholes()[whole].narrow(2, start, 4);
            assert_eq!(*part, expected);
            assert_eq!(part.data_ptr(), expected.data_ptr());
        }
    }

    #[test]
    fn gradients_of_parts_come_together() {
        let leaf = numbers(&[2, 6]).set_requires_grad(true);
        let parts = Joined::new(vec![leaf.shallow_clone()], 3).parts();
        (&parts[0] * 2.0 + &parts[2] * 3.0).sum(Kind::Float).backward();
        let row = Tensor::from_slice(&[2f32, 2.0, 0.0, 0.0, 3.0, 3.0]);
        assert_eq!(leaf.grad(), row.expand([2, 6], false));
    }

    #[test]
    fn parts_that_lie_in_place_are_not_copied_and_others_are() {
        let joined = Joined::new(vec![numbers(&[2, 3, 4]), numbers(&[2, 3, 8])], 3);
        let made = joined.empty_like();
        let (memory, parts) = (made.wholes()[1].data_ptr(), made.parts());
        let laid_out = joined.laid_out(&parts);
        assert_eq!(laid_out.wholes()[1].data_ptr(), memory);
        assert_eq!(laid_out.wholes()[1].size(), [2, 3, 8]);
        // In another order, or apart, they must be copied.
        let [first, second, third] = &joined.parts()[..] else { panic!("three parts") };
        let swapped = [first, third, second].map(Tensor::shallow_clone);
        let laid_out = joined.laid_out(&swapped);
        assert_eq!(laid_out.wholes()[1], Tensor::cat(&[third, second], -1));
        let copies = [first, second, third].map(Tensor::copy);
        assert_eq!(joined.laid_out(&copies).wholes(), joined.wholes());
    }
}
