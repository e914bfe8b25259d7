//! Learned rows in use.

use tch::{Device, Kind, Tensor};

use super::layer_rows::LayerRows;
use super::learned_rows::{LearnedRows, RowsPlace};
use super::task_rows::{TaskNaming, TaskRows, TaskUnion};
use crate::nn::{Params, causal_mask};

impl LearnedRows {
    /// Puts the rows into those of each example, whose tokens are int64 `[batch, length]`: `[batch, length, embed]` to
    /// `[batch, growth + length, embed]`.
    pub fn among(&self, params: &Params, tokens: &Tensor, embedded: &Tensor) -> Tensor {
        let rows = params.cast(self.name(), embedded.kind());
        if let Some(tasks) = &self.tasks {
            let rows = tasks.rows(params, (&rows, self.count), &tokens.select(1, 0));
            return Tensor::cat(&[&rows.to_kind(embedded.kind()), &without_first(embedded)], 1);
        }
        let rows = rows.expand([embedded.size()[0], -1, -1], false);
        match self.place {
            RowsPlace::Before => Tensor::cat(&[&rows, embedded], 1),
            RowsPlace::AfterFirst => {
                let first = embedded.narrow(1, 0, 1);
                Tensor::cat(&[&first, &rows, &without_first(embedded)], 1)
            }
            RowsPlace::BeforeLast => self.after(&(real_lengths(tokens) - 1), &rows, embedded),
            RowsPlace::AfterLast => self.after(&real_lengths(tokens), &rows, embedded),
        }
    }

    /// Puts the rows after the first tokens of each example, as many as `first` says: int64 `[batch, 1]`.
    fn after(&self, first: &Tensor, rows: &Tensor, embedded: &Tensor) -> Tensor {
        let (length, count) = (embedded.size()[1], self.count as i64);
        let first = first.clamp_min(0); // of a row of padding alone
        let place = Tensor::arange(length + count, (Kind::Int64, embedded.device())).unsqueeze(0);
        // [batch, count + length]: the number of each place's row among the tokens with the learned rows after them.
        let source = (&place + length - &first).where_self(
            &place.ge_tensor(&first).logical_and(&place.lt_tensor(&(&first + count))),
            &place.where_self(&place.lt_tensor(&first), &(&place - count)),
        );
        let source = source.unsqueeze(-1).expand([-1, -1, embedded.size()[2]], false);
        Tensor::cat(&[embedded, rows], 1).gather(1, &source, false)
    }

    /// Marks them beside the tokens that are not padding: bool `[batch, length]` to `[batch, growth + length]`. Padding stays
    /// behind everything else, wherever they are.
    pub fn before_real(&self, real: &Tensor) -> Tensor {
        let real = match self.tasks {
            Some(_) => without_first(real),
            None => real.shallow_clone(),
        };
        real.logical_not().constant_pad_nd([self.total() as i64, 0]).logical_not()
    }

    /// The pairs of so many positions that may attend as far as the rows say: bool `[1, 1, length, length]`; `None` if all may.
    pub fn visible(&self, length: i64, device: Device) -> Option<Tensor> {
        self.is_causal.then(|| {
            let count = self.total() as i64;
            let all = Tensor::ones([1, 1, length, length], (Kind::Bool, device));
            all.narrow(2, 0, count).narrow(3, 0, count).copy_(&causal_mask(count, device));
            all
        })
    }
}

impl TaskRows {
    /// The prompts of examples with these first tokens, from the `count` rows that all tasks share, `[count, width]`:
    /// float32 `[batch, total, embed]`. A token that names no task counts as the nearest one that does.
    fn rows(&self, params: &Params, (shared, count): (&Tensor, usize), first: &Tensor) -> Tensor {
        let number = match self.naming {
            TaskNaming::Numbers => first.shallow_clone(),
            TaskNaming::Sentinels(size) => first.neg() + (size as i64 - 1),
        };
        let number = number.clamp(0, self.count as i64 - 1);
        // In float32, as flaxformer's embeddings are.
        let own = params.read(Self::NAME).index_select(0, &number);
        let shared = shared.to_kind(Kind::Float);
        let (batch, count) = (own.size()[0], count as i64);
        let of_each = || shared.expand([batch, -1, -1], false);
        match self.union {
            TaskUnion::Sum => own.view([batch, count, -1]) + &shared,
            TaskUnion::Rows(rows) => {
                Tensor::cat(&[of_each(), own.view([batch, rows as i64, -1])], 1)
            }
            TaskUnion::Columns => Tensor::cat(&[of_each(), own.view([batch, count, -1])], 2),
            TaskUnion::Map => {
                let width = self.shared_width as i64;
                let embed = own.size()[1] / (width + 1);
                let kernel = own.narrow(1, 0, embed * width).view([batch, embed, width]);
                let addend = own.narrow(1, embed * width, embed).unsqueeze(1);
                shared.matmul(&kernel.transpose(1, 2)) + addend
            }
        }
    }
}

impl LayerRows {
    /// Lets the rows `[count, embed]` of a layer meet the first rows of `hidden` `[batch, length, embed]`.
    pub fn meet(&self, rows: &Tensor, hidden: &Tensor) -> Tensor {
        let count = self.count as i64;
        let others = hidden.narrow(1, count, hidden.size()[1] - count);
        let first = match self.replaces {
            true => rows.expand([hidden.size()[0], -1, -1], false),
            false => hidden.narrow(1, 0, count) + rows,
        };
        Tensor::cat(&[first, others], 1)
    }
}

/// Without the first of the second axis.
fn without_first(whole: &Tensor) -> Tensor {
    whole.narrow(1, 1, whole.size()[1] - 1)
}

/// The numbers of tokens that are not padding: int64 `[batch, 1]`.
fn real_lengths(tokens: &Tensor) -> Tensor {
    tokens.ne(0).sum_dim_intlist([1i64].as_slice(), true, Kind::Int64)
}
