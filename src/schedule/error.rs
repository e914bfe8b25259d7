//! Schedules that cannot be computed.

/// A schedule that cannot be computed.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ScheduleError {
    /// A parameter below its smallest valid value.
    #[error("`{schedule}.{param}` is {found}, expected {least} or more")]
    Below {
        /// The schedule.
        schedule: &'static str,
        /// The parameter.
        param: &'static str,
        /// Its value.
        found: f64,
        /// The smallest valid value.
        least: i64,
    },
    /// A parameter by which the schedule divides.
    #[error("`{schedule}.{param}` is {found}, expected more than 0")]
    NotPositive {
        /// The schedule.
        schedule: &'static str,
        /// The parameter.
        param: &'static str,
        /// Its value.
        found: f64,
    },
    /// A parameter that the schedule cannot use.
    #[error("`{schedule}.{param}` is {found}, expected {expected}")]
    Unfit {
        /// The schedule.
        schedule: &'static str,
        /// The parameter.
        param: &'static str,
        /// Its value.
        found: String,
        /// The values that are valid.
        expected: &'static str,
    },
    /// No length of the run.
    #[error(
        "`{schedule}.total_steps` is None, expected the step at which the run ends \
         (`{schedule}.total_steps = %TRAIN_STEPS`)"
    )]
    NeedsTotal {
        /// The schedule.
        schedule: &'static str,
    },
}
