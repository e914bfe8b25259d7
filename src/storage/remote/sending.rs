//! How long a request may take whose body goes over a link that others share.

use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::limits::limits;

/// The bytes a second that a link carries at least, for all bodies together.
const SLOWEST: u64 = 256 << 10;

/// A body of so many bytes takes its share of the link for long.
const LARGE: u64 = 1 << 20;

/// What all uploads together have under way at most, in bytes: see `MEMORY_KIB` of the uploads.
const UNDER_WAY: u64 = 256 << 20;

/// Large bodies under way.
static COUNT: AtomicU64 = AtomicU64::new(0);

/// A large body under way, until it is dropped.
struct Large;

impl Large {
    fn begin() -> Self {
        COUNT.fetch_add(1, Ordering::SeqCst);
        Self
    }
}

impl Drop for Large {
    fn drop(&mut self) {
        COUNT.fetch_sub(1, Ordering::SeqCst);
    }
}

/// What a server answers to a body of so many bytes, if it does so not much later than the body takes:
/// `longest` after the time of a slow link, which it shares with as many others as were seen meanwhile. That
/// a body alone stalls is thus found soon, and none is cut off and sent anew for ever because there are many.
pub(super) async fn in_time<T>(
    longest: Duration,
    size: u64,
    answer: impl Future<Output = T>,
) -> Option<T> {
    let _large = (size >= LARGE).then(Large::begin);
    let (mut answer, begun) = (pin!(answer), Instant::now());
    let mut sharing = 1;
    loop {
        sharing = sharing.max(COUNT.load(Ordering::SeqCst));
        let left = (longest + takes(size, sharing)).saturating_sub(begun.elapsed());
        if left.is_zero() {
            return None;
        }
        // Others may have begun by then.
        if let Ok(answer) = tokio::time::timeout(left.min(limits().stall), &mut answer).await {
            return Some(answer);
        }
    }
}

/// The time of a body on a slow link that so many share.
fn takes(size: u64, sharing: u64) -> Duration {
    let bytes = size.saturating_mul(sharing).min(UNDER_WAY.max(size));
    Duration::from_secs_f64(bytes as f64 / SLOWEST as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::remote::client::wait;

    #[test]
    fn a_body_is_granted_the_time_of_its_share_of_the_link() {
        let seconds = |mebibytes: u64, sharing| takes(mebibytes << 20, sharing).as_secs();
        assert_eq!((seconds(64, 1), seconds(64, 4), seconds(16, 16)), (256, 1024, 1024));
        // There is memory for no more, and a small one beside large ones is soon missed.
        assert_eq!((seconds(64, 100), seconds(1, 4)), (1024, 16));
    }

    #[test]
    fn those_that_share_the_link_lengthen_the_time_and_one_alone_is_soon_missed() {
        let granted = Duration::from_millis(1);
        let others: Vec<Large> = (0..1 << 12).map(|_| Large::begin()).collect();
        // Alone it would have 5 ms.
        let answer = async { tokio::time::sleep(Duration::from_millis(50)).await };
        assert!(wait(in_time(granted, 1 << 10, answer)).is_some());
        drop(others);
        assert!(wait(in_time(granted, 1 << 10, std::future::pending::<()>())).is_none());
    }
}
