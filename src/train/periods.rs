//! The steps at which a run writes statistics, saves and evaluates: T5X's arithmetic of periods, or that of t5-experiments, whose
//! steps count from zero.
//!
//! T5X counts periods from the step at which a process started, so an emergency checkpoint at step
//! 7,777 shifts every later one. Here they count from the first step of the *run*, which
//! checkpoints record: a resumed run does the same work at the same steps as an uninterrupted one.

use crate::session::error::SessionError;

use super::spec::Train;

/// The periods of a run, in steps; 0 means never.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Periods {
    /// First step of the run: 0, or the step of the checkpoint it was fine-tuned from.
    pub first_step: u64,
    /// Step to stop at.
    pub total_steps: u64,
    /// Steps between writes of training metrics.
    pub stats: u64,
    /// Steps between evaluations.
    pub eval: u64,
    /// Steps between checkpoints.
    pub checkpoint: u64,
    /// Further steps after which to save.
    pub checkpoint_steps: Vec<u64>,
    /// Whether to save at the end, independently of the other two.
    pub saves_end: bool,
    /// Whether a period is due after the update of number 0, and then after every multiple of it.
    pub from_zero: bool,
}

/// The reason why periods do not fit together.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PeriodsError {
    /// Neither of the two is a multiple of the other.
    #[error(
        "checkpoint period ({checkpoint}) and eval period ({eval}) must be multiples of each other: \
         change utils.SaveCheckpointConfig.period or train.eval_period"
    )]
    NotMultiples {
        /// Steps between checkpoints.
        checkpoint: u64,
        /// Steps between evaluations.
        eval: u64,
    },
    /// The run is over before it starts.
    #[error(
        "unexpected total_steps ({total}) < checkpoint step ({step}): TRAIN_STEPS counts the \
         restored steps too; raise it, or give TRAIN_STEPS_RELATIVE"
    )]
    Past {
        /// Step to stop at.
        total: u64,
        /// Step restored.
        step: u64,
    },
}

impl From<PeriodsError> for SessionError {
    fn from(error: PeriodsError) -> Self {
        Self::Unfit(error.to_string())
    }
}

/// A step at which the loop pauses, and the actions due there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stop {
    /// The step reached.
    pub step: u64,
    /// Write the measurements since the last such pause.
    pub stats: bool,
    /// Write a checkpoint.
    pub save: bool,
    /// Evaluate.
    pub eval: bool,
}

impl Periods {
    /// Returns the periods of a run that began at `first_step` and that this process continues at
    /// `step`. `relative_steps` count from `step`: as in T5X, from every start.
    pub fn of(spec: &Train, first_step: u64, step: u64) -> Self {
        let save = spec.checkpoint_cfg.save.as_ref();
        let evaluates =
            spec.train_eval_dataset_cfg.is_some() || spec.infer_eval_dataset_cfg.is_some();
        let from_zero = spec.counts_steps_from_zero;
        let total_steps = spec.total_steps + u64::from(from_zero);
        Self {
            first_step,
            total_steps: spec.relative().map_or(total_steps, |steps| step + steps),
            stats: spec.stats_period.unwrap_or(0),
            eval: spec.eval_period.filter(|_| evaluates).unwrap_or(0),
            checkpoint: save.and_then(|save| save.period).unwrap_or(0),
            checkpoint_steps: save
                .and_then(|save| save.checkpoint_steps.clone())
                .unwrap_or_default(),
            saves_end: save.is_some() && !from_zero,
            from_zero,
        }
    }

    /// Checks that the periods fit together and that the run, now at `step`, is not past its end;
    /// sets the default of `stats`.
    ///
    /// # Errors
    /// Periods that do not fit together, or a step past the end.
    pub fn validated(mut self, step: u64) -> Result<Self, PeriodsError> {
        let (checkpoint, eval) = (self.checkpoint, self.eval);
        let epoch = self.steps_per_epoch();
        let are_multiples = checkpoint.is_multiple_of(epoch) && eval.is_multiple_of(epoch);
        if !are_multiples && !self.from_zero {
            return Err(PeriodsError::NotMultiples { checkpoint, eval });
        }
        if self.total_steps < step {
            return Err(PeriodsError::Past { total: self.total_steps, step });
        }
        if self.stats == 0 {
            self.stats = epoch;
        }
        Ok(self)
    }

    /// Returns T5X's artificial epoch: the shorter of the checkpoint and evaluation periods.
    fn steps_per_epoch(&self) -> u64 {
        let periods = [self.checkpoint, self.eval];
        let shortest = periods.into_iter().filter(|period| *period > 0).min();
        shortest.unwrap_or(self.total_steps - self.first_step.min(self.total_steps)).max(1)
    }

    /// Returns the next pause after `step`: the end of a statistics window (which restarts with
    /// every epoch), of an epoch, a step listed in `checkpoint_steps`, or the end of the run. With steps from zero, there
    /// are no epochs.
    pub fn next_stop(&self, step: u64) -> Stop {
        assert!(step < self.total_steps, "the run goes on");
        let listed = self.checkpoint_steps.iter().copied().filter(|at| *at > step).min();
        let regular = match self.from_zero {
            true => self.next_multiple(step),
            false => self.next_of_epoch(step),
        };
        let next = listed.into_iter().fold(regular.min(self.total_steps), u64::min);
        let is_listed = self.checkpoint_steps.contains(&next);
        let is_end = self.saves_end && next == self.total_steps;
        let save = self.is_due(self.checkpoint, next) || is_listed || is_end;
        let stats = !self.from_zero || self.is_due(self.stats, next);
        Stop { step: next, stats, save, eval: self.is_due(self.eval, next) }
    }

    fn next_of_epoch(&self, step: u64) -> u64 {
        let epoch = self.steps_per_epoch();
        let into_epoch = (step - self.first_step) % epoch;
        let window_end = step - into_epoch % self.stats + self.stats;
        window_end.min(step - into_epoch + epoch)
    }

    /// Returns the step after the next update that a period divides.
    fn next_multiple(&self, step: u64) -> u64 {
        let periods = [self.stats, self.eval, self.checkpoint].into_iter();
        let next = periods.filter(|period| *period > 0).map(|period| step.next_multiple_of(period));
        next.min().map_or(u64::MAX, |number| number + 1)
    }

    /// Whether an evaluation follows the update that makes `step`.
    pub fn evaluates_at(&self, step: u64) -> bool {
        step > self.first_step && self.is_due(self.eval, step)
    }

    fn is_due(&self, period: u64, step: u64) -> bool {
        let last = step == self.total_steps && !self.from_zero;
        let number = if self.from_zero { step - 1 } else { step - self.first_step };
        period > 0 && (last || number.is_multiple_of(period))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn periods(total_steps: u64, stats: u64, eval: u64, checkpoint: u64) -> Periods {
        let periods = Periods {
            first_step: 0,
            total_steps,
            stats,
            eval,
            checkpoint,
            checkpoint_steps: Vec::new(),
            saves_end: false,
            from_zero: false,
        };
        periods.validated(0).expect("the periods fit")
    }

    fn stops(periods: &Periods, mut step: u64) -> Vec<(u64, bool, bool)> {
        let mut out = Vec::new();
        while step < periods.total_steps {
            let stop = periods.next_stop(step);
            out.push((stop.step, stop.save, stop.eval));
            step = stop.step;
        }
        out
    }

    #[test]
    fn saves_and_evaluations_come_at_their_multiples_and_at_the_end() {
        let found = stops(&periods(25, 0, 10, 20), 0);
        assert_eq!(found, [(10, false, true), (20, true, true), (25, true, true)]);
    }

    #[test]
    fn a_run_that_saves_has_a_checkpoint_of_its_end() {
        let periods = Periods { saves_end: true, ..periods(25, 0, 10, 0) };
        assert_eq!(stops(&periods, 0), [(10, false, true), (20, false, true), (25, true, true)]);
    }

    #[test]
    fn a_statistics_window_restarts_with_every_epoch() {
        let found: Vec<u64> = stops(&periods(20, 4, 10, 0), 0).iter().map(|s| s.0).collect();
        assert_eq!(found, [4, 8, 10, 14, 18, 20]);
    }

    #[test]
    fn listed_checkpoint_steps_are_saved() {
        let mut periods = periods(20, 0, 0, 10);
        periods.checkpoint_steps = vec![3, 20];
        assert_eq!(stops(&periods, 0), [(3, true, false), (10, true, false), (20, true, false)]);
    }

    #[test]
    fn a_resumed_run_pauses_where_the_uninterrupted_one_does() {
        let mut periods = periods(1030, 4, 10, 10);
        periods.first_step = 1000;
        let whole = stops(&periods, 1000);
        for at in 1001..1030 {
            let rest: Vec<_> = whole.iter().copied().filter(|stop| stop.0 > at).collect();
            assert_eq!(stops(&periods, at), rest, "resumed at {at}");
        }
    }

    #[test]
    fn steps_from_zero_have_periods_of_their_own_and_no_end() {
        let spec = Periods { from_zero: true, ..periods(13, 3, 4, 0) };
        let periods = Periods { checkpoint: 6, ..spec }.validated(0).expect("any periods fit");
        let due = |of: fn(&Stop) -> bool| -> Vec<u64> {
            let mut step = 0;
            let next = std::iter::from_fn(|| {
                let stop = (step < 13).then(|| periods.next_stop(step))?;
                step = stop.step;
                Some(stop)
            });
            next.filter(of).map(|stop| stop.step - 1).collect()
        };
        assert_eq!(due(|stop| stop.stats), [0, 3, 6, 9, 12]);
        assert_eq!(due(|stop| stop.eval), [0, 4, 8, 12]);
        assert_eq!(due(|stop| stop.save), [0, 6, 12]);
        assert!(periods.evaluates_at(5) && !periods.evaluates_at(4));
        let short = Periods { total_steps: 12, ..periods.clone() };
        assert_eq!(short.next_stop(10), Stop { step: 12, stats: false, save: false, eval: false });
    }

    #[test]
    fn periods_that_do_not_divide_are_refused() {
        let unfit = Periods { eval: 15, ..periods(100, 0, 10, 10) };
        assert!(matches!(unfit.validated(0), Err(PeriodsError::NotMultiples { .. })));
    }
}
