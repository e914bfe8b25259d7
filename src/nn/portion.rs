//! Parts of tensors on their way between the processes of an axis: many in one operation, which runs beside the
//! computing until its results are asked for.

use tch::Tensor;

use super::axis::{Axis, bytes};
use super::c10d::Work;
use super::profiler::{Activity, part};
use super::shard::part_of;

/// The number of elements of a tensor above which it is exchanged in pieces of that size, since an exchange needs
/// memory for two copies.
const PIECE_ELEMENTS: i64 = 2 << 20;

/// A tensor, or this process's part of it along one dimension.
#[derive(Debug)]
pub struct Portion {
    /// The tensor or its part.
    pub tensor: Tensor,
    /// The dimension that is divided.
    pub dim: usize,
    /// Its extent in the whole tensor.
    pub extent: i64,
}

/// Wholes that are being joined of the processes' parts: see [`Axis::begin_gather`].
#[derive(Debug)]
#[must_use = "the parts arrive when this is finished"]
pub struct Gathering(Exchange);

/// Parts of sums over the processes that are being formed: see [`Axis::begin_sum_parts`].
#[derive(Debug)]
#[must_use = "the sums are there when this is finished"]
pub struct Scattering(Exchange);

#[derive(Debug)]
enum Exchange {
    /// There is no other process, or nothing to send.
    Alone(Vec<Tensor>),
    /// An operation fills a flat tensor.
    UnderWay { axis: Axis, work: Option<Work>, flat: Tensor, members: Vec<Member> },
}

/// The place of one tensor in what is received.
#[derive(Debug)]
struct Member {
    /// Extents of one process's part.
    size: Vec<i64>,
    dim: usize,
    extent: i64,
}

impl Axis {
    /// Begins to join the processes' parts of tensors, all of one kind, in one operation.
    pub fn begin_gather(&self, parts: &[Portion]) -> Gathering {
        if self.is_alone() || parts.is_empty() {
            return Gathering(Exchange::alone(parts));
        }
        let _part = part(Activity::Communication);
        let count = self.size();
        let filled: Vec<Tensor> = parts.iter().map(|part| part.filled(count)).collect();
        let own = joined(&filled);
        let flat = Tensor::empty([(count * own.numel()) as i64], (own.kind(), own.device()));
        let work = self.begin(|group| group.all_gather(&own, &flat));
        self.count(bytes(&own) * (count as u64 - 1));
        let sizes = filled.iter().map(Tensor::size);
        let members = members(parts, sizes);
        Gathering(Exchange::UnderWay { axis: self.clone(), work, flat, members })
    }

    /// Joins the processes' parts of tensors, all of one kind, in one operation; of a large tensor that is alone,
    /// piece by piece.
    pub fn gather_all(&self, parts: &[Portion]) -> Vec<Tensor> {
        let together = |parts: &[Portion]| self.begin_gather(parts).finish();
        match parts {
            [part] if !self.is_alone() => vec![part.by_pieces(part.extent, &together)],
            parts => together(parts),
        }
    }

    /// Begins to form this process's part of the sum over the processes of each whole tensor, in one operation; the
    /// inverse of [`Axis::begin_gather`].
    pub fn begin_sum_parts(&self, wholes: &[Portion]) -> Scattering {
        if self.is_alone() || wholes.is_empty() {
            return Scattering(Exchange::alone(wholes));
        }
        let _part = part(Activity::Communication);
        let count = self.size();
        let by_member: Vec<Tensor> = wholes.iter().map(|whole| whole.by_member(count)).collect();
        let rows: Vec<Tensor> =
            by_member.iter().map(|whole| whole.reshape([count as i64, -1])).collect();
        let parts = Tensor::cat(&rows, 1);
        let flat = Tensor::empty([parts.size()[1]], (parts.kind(), parts.device()));
        let work = self.begin(|group| group.reduce_scatter(&parts.view(-1), &flat));
        self.count(bytes(&flat) * (count as u64 - 1));
        let sizes = by_member.iter().map(|whole| whole.size()[1..].to_vec());
        let members = members(wholes, sizes);
        Scattering(Exchange::UnderWay { axis: self.clone(), work, flat, members })
    }

    /// Returns this process's part of the sum over the processes of each whole tensor, in one operation, or piece by
    /// piece; the inverse of [`Axis::gather_all`].
    pub fn sum_parts(&self, wholes: &[Portion]) -> Vec<Tensor> {
        let together = |wholes: &[Portion]| self.begin_sum_parts(wholes).finish();
        match wholes {
            [whole] if !self.is_alone() => {
                let part = part_of(whole.extent as usize, self.index(), self.size()).len();
                vec![whole.by_pieces(part as i64, &together)]
            }
            wholes => together(wholes),
        }
    }
}

impl Gathering {
    /// Waits for the whole tensors.
    pub fn finish(self) -> Vec<Tensor> {
        self.0.finish(|axis, flat, members| {
            let count = axis.size() as i64;
            let rows = flat.view([count, -1]);
            let whole = |member: &Member, start: i64| {
                let (length, dim) = (member.numel(), member.dim as i64);
                let size: Vec<i64> = [&[count][..], &member.size].concat();
                let parts = rows.narrow(1, start, length).reshape(size);
                parts.movedim_int(0, dim).flatten(dim, dim + 1).narrow(dim, 0, member.extent)
            };
            each(members, whole)
        })
    }
}

impl Scattering {
    /// Waits for the parts of the sums.
    pub fn finish(self) -> Vec<Tensor> {
        self.0.finish(|axis, flat, members| {
            let own = |member: &Member, start: i64| {
                let part = flat.narrow(0, start, member.numel()).view(member.size.as_slice());
                let range = part_of(member.extent as usize, axis.index(), axis.size());
                part.narrow(member.dim as i64, 0, range.len() as i64)
            };
            each(members, own)
        })
    }
}

impl Exchange {
    fn alone(portions: &[Portion]) -> Self {
        Self::Alone(portions.iter().map(|portion| portion.tensor.shallow_clone()).collect())
    }

    fn finish(self, take: impl FnOnce(&Axis, &Tensor, &[Member]) -> Vec<Tensor>) -> Vec<Tensor> {
        match self {
            Self::Alone(tensors) => tensors,
            Self::UnderWay { axis, work, flat, members } => {
                let _part = part(Activity::Communication);
                axis.finish(work);
                take(&axis, &flat, &members)
            }
        }
    }
}

impl Member {
    fn numel(&self) -> i64 {
        self.size.iter().product()
    }
}

fn members(portions: &[Portion], sizes: impl Iterator<Item = Vec<i64>>) -> Vec<Member> {
    let one =
        |(portion, size): (&Portion, _)| Member { size, dim: portion.dim, extent: portion.extent };
    portions.iter().zip(sizes).map(one).collect()
}

/// Returns the tensor of each member, of which one process's parts lie one after the other.
fn each(members: &[Member], tensor: impl Fn(&Member, i64) -> Tensor) -> Vec<Tensor> {
    let mut start = 0;
    let one = |member: &Member| {
        let found = tensor(member, start);
        start += member.numel();
        found
    };
    members.iter().map(one).collect()
}

impl Portion {
    /// Exchanges the tensor in pieces along a dimension that is not divided; `extent` is that of the result along the
    /// one that is.
    fn by_pieces(&self, extent: i64, exchange: &dyn Fn(&[Portion]) -> Vec<Tensor>) -> Tensor {
        let mut size = self.tensor.size();
        size[self.dim] = self.extent;
        let across = i64::from(self.dim == 0);
        let length = size.get(across as usize).copied().unwrap_or(1);
        let step = (PIECE_ELEMENTS * length / size.iter().product::<i64>().max(1)).max(1);
        if step >= length {
            let whole = Self { tensor: self.tensor.shallow_clone(), ..*self };
            return exchange(&[whole]).remove(0);
        }
        size[self.dim] = extent;
        let result = Tensor::empty(size, (self.tensor.kind(), self.tensor.device()));
        for start in (0..length).step_by(step as usize) {
            let rows = step.min(length - start);
            let piece = Self { tensor: self.tensor.narrow(across, start, rows), ..*self };
            result.narrow(across, start, rows).copy_(&exchange(&[piece]).remove(0));
        }
        result
    }

    /// The part of one of `count` members with the extent of the first one's, contiguous: zeros follow what is there.
    fn filled(&self, count: usize) -> Tensor {
        filled_up(&self.tensor, self.dim, self.each(count))
    }

    /// The whole as the equal parts of `count` members one after the other: `[count, ..]`.
    fn by_member(&self, count: usize) -> Tensor {
        let each = self.each(count);
        let whole = filled_up(&self.tensor, self.dim, each * count as i64);
        let mut size = whole.size();
        size.splice(self.dim..=self.dim, [count as i64, each]);
        whole.view(size.as_slice()).movedim_int(self.dim as i64, 0)
    }

    fn each(&self, count: usize) -> i64 {
        part_of(self.extent as usize, 0, count).len() as i64
    }
}

/// Returns contiguous tensors one after the other, without a copy if there is one alone.
fn joined(tensors: &[Tensor]) -> Tensor {
    let flat: Vec<Tensor> = tensors.iter().map(|tensor| tensor.view(-1)).collect();
    if flat.len() == 1 { flat[0].shallow_clone() } else { Tensor::cat(&flat, 0) }
}

/// Returns a contiguous tensor of that extent along a dimension: zeros follow what is there.
fn filled_up(tensor: &Tensor, dim: usize, extent: i64) -> Tensor {
    let mut size = tensor.size();
    let missing = extent - size[dim];
    if missing == 0 {
        return tensor.contiguous();
    }
    size[dim] = missing;
    let zeros = Tensor::zeros(size, (tensor.kind(), tensor.device()));
    Tensor::cat(&[tensor, &zeros], dim as i64)
}
