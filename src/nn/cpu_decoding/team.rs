//! Threads that wait actively for one another, for many short operations in a row: the Rust side of
//! `bridge/team.cpp`.

use std::marker::PhantomData;

unsafe extern "C" {
    fn gimlet_team_assemble(helpers: i64);
    fn gimlet_team_dismiss();
}

/// A team of threads. While it lives, it shares the work of packed products and attention without
/// gradients that this thread requests, and libtorch's own operations stay on this thread:
/// libtorch's threads would compete with the team, and waking them takes longer than their
/// remaining work.
///
/// Each helper keeps a core busy while the team lives, and then sleeps until the thread's next team.
#[derive(Debug)]
pub struct Team {
    threads: i32, // libtorch's, to be given back
    of_this_thread: PhantomData<*const ()>,
}

impl Team {
    /// Assembles as many threads as libtorch has, but no more than may run at once: active waiting
    /// would use up a container's share of the cores.
    pub fn assemble() -> Self {
        let allowed = std::thread::available_parallelism().map_or(1, |cores| cores.get() as i64);
        Self::with_helpers(i64::from(tch::get_num_threads()).min(allowed) - 1)
    }

    /// Assembles a team of this thread and so many more.
    pub(super) fn with_helpers(helpers: i64) -> Self {
        let threads = tch::get_num_threads();
        tch::set_num_threads(1);
        // SAFETY: dismissed by the thread that assembles it, since it is not `Send`.
        unsafe { gimlet_team_assemble(helpers) };
        Self { threads, of_this_thread: PhantomData }
    }
}

impl Drop for Team {
    fn drop(&mut self) {
        // SAFETY: assembled by `with_helpers`, and dismissed once.
        unsafe { gimlet_team_dismiss() };
        tch::set_num_threads(self.threads);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nn::PackedKernel;
    use tch::{Device, Kind, Tensor};

    #[test]
    fn a_team_computes_what_one_thread_does_and_gives_the_threads_back() {
        let ones = |size: [i64; 2]| Tensor::ones(size, (Kind::Float, Device::Cpu));
        let column = Tensor::arange(1000, (Kind::Float, Device::Cpu));
        let (inputs, kernel) = (ones([3, 40]), PackedKernel::new(&(ones([40, 1000]) * &column), 3));
        let threads = tch::get_num_threads();
        for helpers in [0, 1, 3, 3, 1] {
            let team = Team::with_helpers(helpers);
            assert_eq!(tch::get_num_threads(), 1);
            // Many rounds, since errors between threads are rare.
            for round in 0..500 {
                // Another result each time, because memory is reused.
                let factor = f64::from(round % 7 + 1);
                let expected = column.expand([3, 1000], false) * (40.0 * factor);
                assert_eq!(kernel.apply(&(&inputs * factor)), expected);
            }
            drop(team);
            assert_eq!(tch::get_num_threads(), threads);
        }
    }
}
