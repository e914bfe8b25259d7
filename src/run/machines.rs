//! The values of `gimlet launch`'s flags about several machines.

use std::time::Duration;

/// The numbers of machines of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Machines {
    /// Fewer do not start.
    pub least: usize,
    /// More wait in reserve.
    pub most: usize,
}

impl Machines {
    /// Reads `N` and `MIN:MAX`.
    ///
    /// # Errors
    /// The message about another text.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (least, most) = text.split_once(':').unwrap_or((text, text));
        match (least.parse(), most.parse()) {
            (Ok(least), Ok(most)) if 0 < least && least <= most => Ok(Self { least, most }),
            _ => Err(format!(
                "--nnodes is `{text}`, expected a number from 1 on, or a range such as 2:4"
            )),
        }
    }
}

/// The waiting times of launchers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitingTimes {
    /// The time within which enough machines come.
    pub join: Duration,
    /// The time to wait for more machines, once there are enough.
    pub last_call: Duration,
    /// The time after which a launcher that tells nothing counts as lost.
    pub keep_alive: Duration,
}

impl WaitingTimes {
    /// Reads `NAME=SECONDS,...`, in which names may be missing.
    ///
    /// # Errors
    /// The message about another text.
    pub fn parse(text: &str) -> Result<Self, String> {
        let [join, last_call, keep_alive] = [600, 30, 15].map(Duration::from_secs);
        let mut times = Self { join, last_call, keep_alive };
        for setting in text.split(',').filter(|setting| !setting.is_empty()) {
            let read = setting.split_once('=').and_then(|(name, seconds)| {
                let seconds: u64 = seconds.parse().ok().filter(|seconds| *seconds > 0)?;
                Some((name, Duration::from_secs(seconds)))
            });
            match read {
                Some(("join_timeout", time)) => times.join = time,
                Some(("last_call_timeout", time)) => times.last_call = time,
                Some(("keep_alive_timeout", time)) => times.keep_alive = time,
                _ => {
                    return Err(format!(
                        "--rdzv_conf has `{setting}`, expected join_timeout, last_call_timeout or \
                         keep_alive_timeout with seconds from 1 on, such as `last_call_timeout=30`"
                    ));
                }
            }
        }
        Ok(times)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machines_are_a_number_or_a_range() {
        assert_eq!(Machines::parse("3"), Ok(Machines { least: 3, most: 3 }));
        assert_eq!(Machines::parse("1:4"), Ok(Machines { least: 1, most: 4 }));
        for text in ["all", "0", "3:2", "0:2", "1:"] {
            let found = Machines::parse(text).unwrap_err();
            let expected = "expected a number from 1 on, or a range such as 2:4";
            assert_eq!(found, format!("--nnodes is `{text}`, {expected}"));
        }
    }

    #[test]
    fn waiting_times_have_the_names_of_torchrun() {
        let times = WaitingTimes::parse("last_call_timeout=2,join_timeout=60").unwrap();
        assert_eq!(
            [times.join, times.last_call, times.keep_alive].map(|it| it.as_secs()),
            [60, 2, 15]
        );
        for text in ["last_call_timeout", "last_call_timeout=0", "close_timeout=1"] {
            let refused = WaitingTimes::parse(text).unwrap_err();
            assert!(refused.starts_with(&format!("--rdzv_conf has `{text}`")), "{refused}");
        }
    }
}
