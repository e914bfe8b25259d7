//! The slowest of the processes of a run, which makes all others wait.

/// A process that takes so many times as long as the median is named.
const STRAGGLING: f64 = 1.5;

/// The seconds beyond the median below which a difference is that of the system's scheduling.
const LEAST_EXCESS: f64 = 0.1;

/// The slowest process of a window of steps.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Slowest {
    /// Its number.
    pub rank: usize,
    /// The seconds that it took for its own part of a step.
    pub seconds: f64,
    /// The median of all; of two, the faster one.
    median: f64,
}

impl Slowest {
    /// The slowest of the processes that took so many seconds, which are at least one.
    pub fn of(seconds: &[f64]) -> Self {
        let mut ranks: Vec<usize> = (0..seconds.len()).collect();
        ranks.sort_by(|one, other| seconds[*one].total_cmp(&seconds[*other]));
        let [median, rank] = [(ranks.len() - 1) / 2, ranks.len() - 1].map(|place| ranks[place]);
        Self { rank, seconds: seconds[rank], median: seconds[median] }
    }

    /// Whether it is much slower than others.
    pub fn is_straggler(&self) -> bool {
        self.seconds >= (STRAGGLING * self.median).max(self.median + LEAST_EXCESS)
    }

    /// Returns a message about the process of that name.
    pub fn described(&self, name: &str) -> String {
        let Self { seconds, median, .. } = self;
        format!(
            "{name} is slow: it takes {seconds:.3} s for its part of a step, for which the median of all \
             processes is {median:.3} s; the others wait for it"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_much_slower_than_the_median_is_named() {
        let check = |seconds: &[f64], rank: usize, is_straggler: bool| {
            let slowest = Slowest::of(seconds);
            assert_eq!((slowest.rank, slowest.is_straggler()), (rank, is_straggler), "{seconds:?}");
        };
        check(&[1.0, 1.6], 1, true);
        check(&[1.4, 1.0], 0, false);
        check(&[1.0, 1.6, 1.2], 1, false);
        check(&[1.0, 1.2, 1.1, 1.7], 3, true);
        check(&[0.05, 0.14], 1, false);
        check(&[0.05, 0.16], 1, true);
        let described = Slowest::of(&[0.1, 0.25]).described("process 1 on gpu01");
        assert!(
            described.starts_with("process 1 on gpu01 is slow: it takes 0.250 s"),
            "{described}"
        );
    }
}
