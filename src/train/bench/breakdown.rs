//! The parts of a step's time: the profiler's records, divided among the parts of the model.
//!
//! On a CPU, an operation counts with its time minus that of the operations inside it; on a GPU,
//! with the time of its kernels. Time belongs to the innermost part that is marked around it
//! (`nn::profiler::part`). A backward function belongs to the part of its forward operation;
//! unmarked work to the part that its name indicates. The rest of the step's time are gaps, in
//! which the device has no work.

use std::collections::{BTreeMap, HashMap};

use crate::nn::profiler::{Activity, Event, EventKind};

/// Names of operations and kernels outside of any mark, with their parts. The first contained name counts.
const NAMES: [(&str, Activity); 21] = [
    ("attention", Activity::Attention),
    ("fmha", Activity::Attention),
    ("flash", Activity::Attention),
    ("softmax", Activity::Attention),
    ("aten::mm", Activity::Products),
    ("aten::bmm", Activity::Products),
    ("aten::addmm", Activity::Products),
    ("aten::baddbmm", Activity::Products),
    ("aten::matmul", Activity::Products),
    ("aten::_scaled_mm", Activity::Products),
    ("gemm", Activity::Products),
    ("nvjet", Activity::Products),
    ("cutlass", Activity::Products),
    ("rms_norm", Activity::Elementwise),
    ("gelu", Activity::Elementwise),
    ("relu", Activity::Elementwise),
    ("bernoulli", Activity::Elementwise),
    ("embedding", Activity::Embeddings),
    ("cross_entropy", Activity::Loss),
    ("adam", Activity::Optimizer),
    ("adafactor", Activity::Optimizer),
];

/// The device whose time is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timeline {
    /// Operations on the CPU; also used on a GPU if the profiler may not record its kernels.
    Host,
    /// Kernels on the GPU.
    Device,
}

impl Timeline {
    /// Returns `host` or `device`.
    pub fn name(self) -> &'static str {
        match self {
            Timeline::Host => "host",
            Timeline::Device => "device",
        }
    }
}

/// The time of a step, divided by its use.
#[derive(Clone, Debug, PartialEq)]
pub struct Breakdown {
    /// The device whose time is measured.
    pub timeline: Timeline,
    /// Seconds of a step under the profiler, by the clock.
    pub seconds: f64,
    /// Seconds of each part, in its order.
    pub parts: BTreeMap<Activity, f64>,
    /// Seconds of work that belongs to no part.
    pub other: f64,
    /// Seconds without work.
    pub gaps: f64,
    /// The operations or kernels that take the most, by name, the longest first.
    pub longest: Vec<Longest>,
}

/// All runs of one operation or kernel in a step.
#[derive(Clone, Debug, PartialEq)]
pub struct Longest {
    /// As libtorch or the library calls it.
    pub name: String,
    /// Seconds in a step.
    pub seconds: f64,
    /// Runs in a step.
    pub runs: f64,
}

impl Breakdown {
    /// Computes the breakdown from events of that many steps, which took `seconds` together.
    pub(super) fn new(events: &[Event], seconds: f64, num_steps: usize) -> Self {
        let operations = Operations::new(events);
        let kernels = events.iter().filter(|event| event.kind == EventKind::Kernel);
        let kernels: Vec<&Event> = kernels.collect();
        let (timeline, work) = match kernels.is_empty() {
            true => (Timeline::Host, operations.work()),
            false => (Timeline::Device, operations.work_of(kernels)),
        };
        let mut parts: BTreeMap<Activity, f64> = Activity::ALL.map(|part| (part, 0.0)).into();
        let (mut other, mut busy) = (0.0, 0.0);
        let longest = longest(&work, num_steps);
        for Piece { part, nanoseconds, .. } in work {
            let share = nanoseconds as f64 * 1e-9 / num_steps as f64;
            *part.and_then(|part| parts.get_mut(&part)).unwrap_or(&mut other) += share;
            busy += share;
        }
        let seconds = seconds / num_steps as f64;
        Self { timeline, seconds, parts, other, gaps: (seconds - busy).max(0.0), longest }
    }

    /// Returns name and seconds of each row: the parts, `other` and `gaps`. One process alone has no communication.
    pub fn rows(&self) -> Vec<(&'static str, f64)> {
        let is_shown =
            |part: &Activity, seconds: f64| *part != Activity::Communication || seconds > 0.0;
        let parts = self.parts.iter().filter(|(part, seconds)| is_shown(part, **seconds));
        let parts = parts.map(|(part, seconds)| (part.name(), *seconds));
        parts.chain([("other", self.other), ("gaps", self.gaps)]).collect()
    }
}

/// The time of one operation or kernel.
struct Piece<'a> {
    part: Option<Activity>,
    name: &'a str,
    nanoseconds: u64,
}

/// How many of the longest are named.
const LONGEST: usize = 12;

fn longest(work: &[Piece], num_steps: usize) -> Vec<Longest> {
    let mut by_name: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
    for piece in work {
        let (nanoseconds, runs) = by_name.entry(piece.name).or_default();
        *nanoseconds += piece.nanoseconds;
        *runs += 1;
    }
    let mut all: Vec<_> = by_name.into_iter().collect();
    all.sort_by_key(|(_, (nanoseconds, _))| u64::MAX - nanoseconds);
    let of_a_step = |total: u64| total as f64 / num_steps as f64;
    let named = |(name, (nanoseconds, runs)): (&str, (u64, u64))| Longest {
        name: name.to_string(),
        seconds: of_a_step(nanoseconds) * 1e-9,
        runs: of_a_step(runs),
    };
    all.into_iter().take(LONGEST).map(named).collect()
}

/// The operations on the host, with their nesting.
struct Operations<'a> {
    events: Vec<&'a Event>,
    /// The event that directly contains each event.
    outer: Vec<Option<usize>>,
    /// The last operation of a thread before a node was created, which is the operation of the
    /// node.
    forward: HashMap<(u64, i64), usize>,
}

impl<'a> Operations<'a> {
    fn new(events: &'a [Event]) -> Self {
        // An operation of c10d's is recorded from its beginning to its end, beside the work of the thread.
        let is_of_others =
            |event: &Event| event.name.starts_with("gloo:") || event.name.starts_with("nccl:");
        let on_host =
            events.iter().filter(|event| event.kind != EventKind::Kernel && !is_of_others(event));
        let mut events: Vec<&Event> = on_host.collect();
        // An event comes before those inside of it.
        events.sort_by_key(|event| (event.thread, event.start_ns, u64::MAX - event.end_ns));
        let (mut outer, mut open): (Vec<Option<usize>>, Vec<usize>) = (Vec::new(), Vec::new());
        let mut forward = HashMap::new();
        for (index, event) in events.iter().enumerate() {
            let encloses =
                |other: &Event| other.thread == event.thread && event.end_ns <= other.end_ns;
            while open.last().is_some_and(|last| !encloses(events[*last])) {
                open.pop();
            }
            outer.push(open.last().copied());
            open.push(index);
            // The engine's own ranges have sequence numbers too.
            let is_forward =
                event.kind == EventKind::Operation && !event.name.starts_with("autograd::");
            if is_forward && event.sequence >= 0 {
                forward.insert((event.thread, event.sequence), index);
            }
        }
        Self { events, outer, forward }
    }

    /// Returns each operation's own time.
    fn work(&self) -> Vec<Piece<'a>> {
        let duration = |event: &Event| event.end_ns.saturating_sub(event.start_ns);
        let mut own: Vec<u64> = self.events.iter().map(|event| duration(event)).collect();
        for (event, outer) in self.events.iter().zip(&self.outer) {
            if let Some(outer) = outer {
                own[*outer] = own[*outer].saturating_sub(duration(event));
            }
        }
        let piece = |(index, nanoseconds): (usize, u64)| Piece {
            part: self.part(index),
            name: &self.events[index].name,
            nanoseconds,
        };
        own.into_iter().enumerate().map(piece).collect()
    }

    /// Returns the part of each kernel's time in which no earlier kernel runs.
    fn work_of(&self, mut kernels: Vec<&'a Event>) -> Vec<Piece<'a>> {
        kernels.sort_by_key(|kernel| kernel.start_ns);
        let operations = self.events.iter().enumerate();
        let launchers: HashMap<u64, usize> = operations
            .filter(|(_, event)| event.correlation != 0)
            .map(|(index, event)| (event.correlation, index))
            .collect();
        let mut covered = 0;
        let own = |kernel: &'a Event| {
            let nanoseconds = kernel.end_ns.saturating_sub(kernel.start_ns.max(covered));
            covered = covered.max(kernel.end_ns);
            let launcher = launchers.get(&kernel.correlation);
            let part = launcher.and_then(|index| self.part(*index));
            let part = part.or_else(|| part_of_name(&kernel.name));
            Piece { part, name: &kernel.name, nanoseconds }
        };
        kernels.into_iter().map(own).collect()
    }

    /// Returns the part that an operation belongs to.
    fn part(&self, index: usize) -> Option<Activity> {
        self.marked(index)
            .or_else(|| self.around(index).find_map(|index| part_of_name(&self.events[index].name)))
    }

    /// Returns the part marked around an operation, or around its forward operation.
    fn marked(&self, index: usize) -> Option<Activity> {
        self.around(index).find_map(|index| {
            let event = self.events[index];
            match event.kind {
                EventKind::Range => Activity::named(&event.name),
                EventKind::Backward => {
                    let forward = self.forward.get(&(event.forward_thread, event.sequence))?;
                    // A forward operation comes first; another order would lead to a cycle.
                    (self.events[*forward].start_ns < event.start_ns)
                        .then(|| self.marked(*forward))
                        .flatten()
                }
                EventKind::Operation | EventKind::Kernel => None,
            }
        })
    }

    /// Returns an operation and those that contain it, from the innermost.
    fn around(&self, index: usize) -> impl Iterator<Item = usize> {
        std::iter::successors(Some(index), |index| self.outer[*index])
    }
}

fn part_of_name(name: &str) -> Option<Activity> {
    let found = NAMES.iter().find(|(words, _)| name.contains(words));
    found.map(|(_, part)| *part)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Creates an operation of thread 1 between two times.
    fn operation(name: &str, start_ns: u64, end_ns: u64) -> Event {
        Event {
            name: name.to_string(),
            start_ns,
            end_ns,
            thread: 1,
            forward_thread: 0,
            sequence: -1,
            correlation: 0,
            kind: EventKind::Operation,
        }
    }

    fn range(part: Activity, start_ns: u64, end_ns: u64) -> Event {
        Event { kind: EventKind::Range, ..operation(part.name(), start_ns, end_ns) }
    }

    /// Returns the rows that are not empty, in nanoseconds, for one step of 100.
    fn rows(events: &[Event]) -> Vec<(&'static str, u64)> {
        let breakdown = Breakdown::new(events, 100e-9, 1);
        let sum: f64 = breakdown.rows().iter().map(|(_, seconds)| seconds).sum();
        assert!((sum - breakdown.seconds).abs() < 1e-15, "{breakdown:?}");
        let rows = breakdown.rows().into_iter();
        let rows = rows.map(|(name, seconds)| (name, (seconds * 1e9).round() as u64));
        rows.filter(|(_, nanoseconds)| *nanoseconds > 0).collect()
    }

    #[test]
    fn an_operation_counts_without_those_inside_and_by_the_innermost_mark() {
        let events = [
            operation("aten::copy_", 12, 14),
            operation("aten::matmul", 10, 30),
            range(Activity::Attention, 40, 70),
            operation("aten::mm", 42, 60),
            range(Activity::Optimizer, 45, 50),
            operation("aten::sort", 80, 85),
        ];
        let expected =
            [("GEMM", 20), ("attention", 25), ("optimizer", 5), ("other", 5), ("gaps", 45)];
        assert_eq!(rows(&events), expected);
    }

    #[test]
    fn a_backward_function_belongs_to_the_part_of_its_operation() {
        let backward = |name: &str, start_ns, end_ns, sequence| Event {
            kind: EventKind::Backward,
            sequence,
            forward_thread: 1,
            thread: 2,
            ..operation(name, start_ns, end_ns)
        };
        let forward = |name: &str, start_ns, end_ns| Event {
            sequence: 7,
            ..operation(name, start_ns, end_ns)
        };
        let events = [
            // Both operations begin before the node is created; the last one creates it.
            forward("aten::to", 1, 2),
            range(Activity::Attention, 3, 13),
            forward("aten::mul", 4, 12),
            backward("MulBackward0", 20, 40, 7),
            Event { thread: 2, ..operation("aten::mul", 25, 35) },
            // A mark inside the function wins.
            Event { thread: 2, ..range(Activity::Elementwise, 36, 38) },
            // A node without a known operation.
            backward("AddBackward0", 50, 60, 8),
        ];
        let expected =
            [("attention", 28), ("norms and activations", 2), ("other", 11), ("gaps", 59)];
        assert_eq!(rows(&events), expected);
    }

    #[test]
    fn on_a_gpu_kernels_count_and_idle_time_between_them_is_a_gap() {
        let kernel = |name: &str, start_ns, end_ns, correlation| Event {
            kind: EventKind::Kernel,
            thread: 9,
            correlation,
            ..operation(name, start_ns, end_ns)
        };
        let events = [
            range(Activity::Loss, 0, 5),
            Event { correlation: 3, ..operation("aten::exp_", 1, 4) },
            kernel("vectorized_elementwise_kernel", 10, 20, 3),
            // Overlaps with the first kernel.
            kernel("sm90_xmma_gemm_bf16", 15, 30, 0),
            kernel("memset", 50, 60, 0),
        ];
        let expected = [("GEMM", 10), ("loss", 10), ("other", 10), ("gaps", 70)];
        assert_eq!(rows(&events), expected);
    }

    #[test]
    fn names_tell_the_part_of_what_is_not_marked() {
        let check =
            |name: &str, expected: Option<Activity>| assert_eq!(part_of_name(name), expected);
        check("aten::addmm_", Some(Activity::Products));
        check("aten::_scaled_dot_product_flash_attention", Some(Activity::Attention));
        check("aten::gelu_backward", Some(Activity::Elementwise));
        check("aten::embedding_dense_backward", Some(Activity::Embeddings));
        check("aten::_fused_adamw_", Some(Activity::Optimizer));
        check("void cutlass::Kernel2<cutlass_80_tensorop>", Some(Activity::Products));
        check("fmha_cutlassF_bf16_aligned_64x64_rf_sm80", Some(Activity::Attention));
        check("aten::copy_", None);
    }
}
