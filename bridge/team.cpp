// See team.h. The Rust side is `src/nn/cpu_decoding/team.rs`.

#include "team.h"

#include <chrono>
#include <memory>
#include <system_error>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace {

// A thread's team outlives the work for which it is assembled.
thread_local std::unique_ptr<Team> team_of_this_thread;

// Waits between repeated checks, and yields to other processes when that takes long.
class Patience {
 public:
  void wait() {
    if (++looks_ > kLooks) {
      std::this_thread::yield();
      return;
    }
#if defined(__x86_64__)
    _mm_pause();
#endif
  }

 private:
  static constexpr int kLooks = 2000;  // some hundred microseconds
  int looks_ = 0;
};

}  // namespace

Team* Team::of_this_thread() {
  Team* const team = team_of_this_thread.get();
  return team && team->state_.load(std::memory_order_relaxed) == State::kAwake ? team : nullptr;
}

void Team::assemble(int64_t helpers) {
  if (team_of_this_thread && team_of_this_thread->threads() == helpers + 1) {
    team_of_this_thread->become(State::kAwake);
  } else {
    team_of_this_thread = std::make_unique<Team>(helpers);
  }
}

void Team::dismiss() { team_of_this_thread->become(State::kAsleep); }

Team::Team(int64_t helpers) {
  try {
    for (int64_t i = 0; i < helpers; ++i) helpers_.emplace_back([this] { help(); });
  } catch (const std::system_error&) {
    // No more threads are available: the started ones do the work.
  }
}

Team::~Team() {
  become(State::kEnded);
  for (auto& helper : helpers_) helper.join();
}

void Team::become(State state) {
  {
    const std::lock_guard<std::mutex> lock(changing_);
    state_ = state;
  }
  changed_.notify_all();
}

void Team::work(int64_t count, Call call, const void* body) {
  call_ = call;
  body_ = body;
  done_.store(0, std::memory_order_relaxed);
  ticket_.store(static_cast<uint64_t>(count) << 32, std::memory_order_release);
  while (take_some()) {
  }
  Patience patience;
  while (done_.load(std::memory_order_acquire) < count) patience.wait();
}

// A share of the remaining tasks (Polychronopoulos & Kuck 1987, "guided self-scheduling"): long
// pieces first, since the data that a thread prefetches beyond the end of its piece belong to
// another, and short ones at the end, so that all end together.
bool Team::take_some() {
  uint64_t ticket = ticket_.load(std::memory_order_acquire), first, end;
  do {
    const uint64_t count = ticket >> 32;
    first = ticket & 0xffffffffu;
    if (first >= count) return false;
    end = first + std::max<uint64_t>(1, (count - first) / (2 * threads()));
  } while (!ticket_.compare_exchange_weak(ticket, (ticket & ~uint64_t{0xffffffffu}) | end,
                                          std::memory_order_acq_rel, std::memory_order_acquire));
  call_(body_, static_cast<int64_t>(first), static_cast<int64_t>(end));
  done_.fetch_add(static_cast<int64_t>(end - first), std::memory_order_release);
  return true;
}

void Team::help() {
  for (Patience patience;;) {
    if (take_some()) {
      patience = {};
    } else if (state_.load(std::memory_order_relaxed) == State::kAwake) {
      patience.wait();
    } else {
      std::unique_lock<std::mutex> lock(changing_);
      // With a limit, since `wait` is a symbol of GCC 12's libstdc++, which RHEL 9 does not have.
      while (state_ == State::kAsleep) changed_.wait_for(lock, std::chrono::hours(1));
      if (state_ == State::kEnded) return;
      patience = {};
    }
  }
}

extern "C" {

// Assembles a team of the calling thread, which must dismiss it, and up to `helpers` more.
void gimlet_team_assemble(int64_t helpers) noexcept { Team::assemble(helpers); }

void gimlet_team_dismiss() noexcept { Team::dismiss(); }

}  // extern "C"
