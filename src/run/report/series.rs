//! A curve of bounded size: of many points it keeps the lowest and the highest of each stretch of steps, so that no
//! peak is lost.

/// A step and a value.
pub type Point = (i64, f64);

/// The number of stretches at which neighbours are joined.
const MOST_STRETCHES: usize = 1024;

/// The values of one metric by step.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Series {
    stretches: Vec<Stretch>,
    /// The number of points in a full stretch.
    width: usize,
    last: Option<Point>,
    first_not_finite: Option<i64>,
}

/// Successive points.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Stretch {
    low: Point,
    high: Point,
    count: usize,
}

impl Stretch {
    fn of(point: Point) -> Self {
        Self { low: point, high: point, count: 1 }
    }

    fn join(&mut self, other: Self) {
        if other.low.1 < self.low.1 {
            self.low = other.low;
        }
        if other.high.1 > self.high.1 {
            self.high = other.high;
        }
        self.count += other.count;
    }

    fn is_before(&self, step: i64) -> bool {
        self.low.0.max(self.high.0) < step
    }

    fn points(self) -> impl Iterator<Item = Point> {
        let Self { low, high, .. } = self;
        let (first, second) = if low.0 <= high.0 { (low, high) } else { (high, low) };
        [first].into_iter().chain((first.0 != second.0).then_some(second))
    }
}

impl Series {
    /// Adds the value at a later step.
    pub fn push(&mut self, step: i64, value: f64) {
        if !value.is_finite() {
            self.first_not_finite.get_or_insert(step);
            return;
        }
        self.last = Some((step, value));
        let point = Stretch::of((step, value));
        match self.stretches.last_mut() {
            Some(open) if open.count < self.width => open.join(point),
            _ => self.stretches.push(point),
        }
        if self.stretches.len() >= MOST_STRETCHES {
            self.stretches = joined(&self.stretches);
            self.width = self.width.max(1) * 2;
        }
    }

    /// Removes the points from a step on, which a process that continues the run writes again.
    pub fn drop_from(&mut self, step: i64) {
        // A stretch on both sides of the step keeps the part before it that is known.
        for stretch in &mut self.stretches {
            match (stretch.low.0 < step, stretch.high.0 < step) {
                (true, false) => stretch.high = stretch.low,
                (false, true) => stretch.low = stretch.high,
                _ => {}
            }
        }
        self.stretches.retain(|stretch| stretch.is_before(step));
        if self.last.is_some_and(|(last, _)| last >= step) {
            self.last = self.stretches.last().and_then(|stretch| stretch.points().last());
        }
        self.first_not_finite = self.first_not_finite.filter(|first| *first < step);
    }

    /// Returns at most about that number of points, in the order of their steps, the last one among them.
    pub fn points(&self, most: usize) -> Vec<Point> {
        let mut stretches = self.stretches.clone();
        while stretches.len() * 2 > most.max(2) {
            stretches = joined(&stretches);
        }
        let mut points: Vec<Point> = stretches.into_iter().flat_map(Stretch::points).collect();
        points.extend(self.last);
        // Evaluations of chosen checkpoints come in any order; of a step evaluated again the later one counts.
        points.reverse();
        points.sort_by_key(|(step, _)| *step);
        points.dedup_by_key(|(step, _)| *step);
        points
    }

    /// The lowest value.
    pub fn lowest(&self) -> Option<f64> {
        self.stretches.iter().map(|stretch| stretch.low.1).min_by(f64::total_cmp)
    }

    /// The highest value.
    pub fn highest(&self) -> Option<f64> {
        self.stretches.iter().map(|stretch| stretch.high.1).max_by(f64::total_cmp)
    }

    /// The value at the last step that has a finite one.
    pub fn last(&self) -> Option<Point> {
        self.last
    }

    /// The first step with a value that is not finite.
    pub fn first_not_finite(&self) -> Option<i64> {
        self.first_not_finite
    }
}

/// Joins pairs of neighbours.
fn joined(stretches: &[Stretch]) -> Vec<Stretch> {
    let join = |pair: &[Stretch]| {
        let mut joined = pair[0];
        pair[1..].iter().for_each(|other| joined.join(*other));
        joined
    };
    stretches.chunks(2).map(join).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(points: impl IntoIterator<Item = Point>) -> Series {
        let mut series = Series::default();
        points.into_iter().for_each(|(step, value)| series.push(step, value));
        series
    }

    #[test]
    fn few_points_are_kept_as_they_are() {
        let points = [(10, 3.0), (20, 1.0), (30, 2.0)];
        assert_eq!(series(points).points(100), points);
        assert_eq!(series(points).last(), Some((30, 2.0)));
    }

    #[test]
    fn peaks_and_the_last_point_survive_a_hundred_thousand_steps() {
        let value = |step: i64| match step {
            54_321 => 100.0,
            77_777 => -100.0,
            _ => (step % 7) as f64,
        };
        let long = series((0..100_000).map(|step| (step, value(step))));
        assert!(long.stretches.len() < MOST_STRETCHES);
        for most in [2000, 300] {
            let points = long.points(most);
            assert!(points.len() <= most + 1, "{}", points.len());
            assert!(points.contains(&(54_321, 100.0)) && points.contains(&(77_777, -100.0)));
            assert_eq!(*points.last().unwrap(), (99_999, value(99_999)));
            assert!(points.windows(2).all(|pair| pair[0].0 < pair[1].0));
        }
    }

    #[test]
    fn steps_that_are_written_again_are_dropped() {
        let mut killed = series([(10, 1.0), (20, 2.0), (30, f64::NAN)]);
        assert_eq!(killed.first_not_finite(), Some(30));
        killed.drop_from(20);
        assert_eq!((killed.points(9), killed.first_not_finite()), (vec![(10, 1.0)], None));
        killed.push(20, 2.5);
        assert_eq!(killed.points(9), [(10, 1.0), (20, 2.5)]);
        killed.drop_from(0);
        assert_eq!((killed.points(9), killed.last()), (vec![], None));
    }
}
