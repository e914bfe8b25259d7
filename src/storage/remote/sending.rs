//! Limits the time of a request whose body is sent over a link shared with other requests.

use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::limits::limits;

/// Minimum bandwidth of a link in bytes per second, for all bodies together.
const SLOWEST: u64 = 256 << 10;

/// Minimum size in bytes of a body that occupies its share of the link for a long time.
const LARGE: u64 = 1 << 20;

/// Maximum number of bytes in transfer for all uploads together: see `MEMORY_KIB` of the uploads.
const UNDER_WAY: u64 = 256 << 20;

/// Number of large bodies in transfer.
static COUNT: AtomicU64 = AtomicU64::new(0);

/// A large body in transfer, until it is dropped.
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

/// Waits for the answer to a body of `size` bytes, until `longest` after the time that the body needs on a
/// slow link shared with all other large bodies seen in the meantime. So a stalled single body is detected
/// soon, and no body is cut off and sent again forever because there are many.
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
        // Other bodies may have begun by then.
        if let Ok(answer) = tokio::time::timeout(left.min(limits().stall), &mut answer).await {
            return Some(answer);
        }
    }
}

/// The time that a body needs on a slow link that `sharing` bodies share.
fn takes(size: u64, sharing: u64) -> Duration {
    let bytes = size.saturating_mul(sharing).min(UNDER_WAY.max(size));
    Duration::from_secs_f64(bytes as f64 / SLOWEST as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::remote::client::wait;

    #[test]
    fn a_body_is_granted_the_time_of_its_share_of_the_link() {
        let seconds = |mebibytes: u64, sharing| takes(mebibytes << 20, sharing).as_secs();
        assert_eq!((seconds(64, 1), seconds(64, 4), seconds(16, 16)), (256, 1024, 1024));
        // The memory limit allows no more bodies, and a small body beside large ones is soon
        // considered late.
        assert_eq!((seconds(64, 100), seconds(1, 4)), (1024, 16));
    }

    #[test]
    fn those_that_share_the_link_lengthen_the_time_and_one_alone_is_soon_missed() {
        let granted = Duration::from_millis(1);
        let others: Vec<Large> = (0..1 << 12).map(|_| Large::begin()).collect();
        // Without the other bodies, it would have 5 ms.
        let answer = async { tokio::time::sleep(Duration::from_millis(50)).await };
        assert!(wait(in_time(granted, 1 << 10, answer)).is_some());
        drop(others);
        assert!(wait(in_time(granted, 1 << 10, std::future::pending::<()>())).is_none());
    }
}
