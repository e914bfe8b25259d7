// Threads that wait actively for one another, for many short pieces of work in a row.
//
// Waking a sleeping thread of libtorch's takes as long as a small product, if its threads sleep
// between parallel loops, and a step of decoding has sixty such loops. While a team is assembled,
// its threads take their next task within a microsecond, and each of them keeps a core busy. In
// between they sleep.

#pragma once

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

class Team {
 public:
  // The assembled team of the calling thread, or null.
  static Team* of_this_thread();

  // Assembles the team of the calling thread and up to `helpers` more threads, until it is dismissed.
  static void assemble(int64_t helpers);
  static void dismiss();

  explicit Team(int64_t helpers);
  ~Team();
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  int64_t threads() const { return static_cast<int64_t>(helpers_.size()) + 1; }

  // Calls `body(task)` for every task below `count` on all threads, and returns when all have ended. A
  // thread's tasks come in order. A `body` that throws ends the process.
  template <typename Body>
  void run(int64_t count, const Body& body) {
    work(count, &call<Body>, &body);
  }

 private:
  using Call = void (*)(const void* body, int64_t first, int64_t end);

  template <typename Body>
  static void call(const void* body, int64_t first, int64_t end) noexcept {
    for (int64_t task = first; task < end; ++task) (*static_cast<const Body*>(body))(task);
  }

  enum class State { kAwake, kAsleep, kEnded };

  void become(State state);
  void work(int64_t count, Call call, const void* body);
  bool take_some();
  void help();

  // The upper half counts the tasks of the current work, the lower half the taken ones. A thread
  // that has taken tasks knows that the work has not ended, so that `call_` and `body_` belong to
  // this work.
  std::atomic<uint64_t> ticket_{0};
  std::atomic<int64_t> done_{0};
  std::atomic<State> state_{State::kAwake};
  std::mutex changing_;
  std::condition_variable changed_;
  Call call_ = nullptr;
  const void* body_ = nullptr;
  std::vector<std::thread> helpers_;
};
