// Work on libtorch's threads, or on a team's.

#pragma once

#include <cstdint>
#include <functional>

#include "team.h"

// Calls `body(first, task)` for every task below `count` on libtorch's threads: all those of a thread have the same
// `first`, their lowest, and come in order. Fewer tasks than `grain` are not worth another thread.
void share_out(int64_t count, int64_t grain, const std::function<void(int64_t first, int64_t task)>& body);

// Calls `body(task)` for every task below `count` on this thread's team, or without one on
// libtorch's threads. `body` does not throw.
template <typename Body>
void share_out_awake(int64_t count, int64_t grain, const Body& body) {
  if (Team* team = Team::of_this_thread()) {
    team->run(count, body);
  } else {
    share_out(count, grain, [&](int64_t, int64_t task) { body(task); });
  }
}
