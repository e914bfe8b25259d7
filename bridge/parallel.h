// Libtorch's threads. Its own parallel loops are in headers, which would bring a second OpenMP into
// this library; an iterator over a tensor is in libtorch itself.

#pragma once

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/TensorIterator.h>

#include <cstdint>

#include "team.h"

// Calls `body(first, task)` for every task below `count`: all those of a thread have the same `first`, their
// lowest, and come in order. Fewer tasks than `grain` are not worth another thread.
template <typename Body>
void share_out(int64_t count, int64_t grain, const Body& body) {
  at::Tensor tasks = at::arange(count, at::kLong);
  const auto run = [&](char** data, const int64_t* strides, int64_t count) {
    const int64_t first = *reinterpret_cast<const int64_t*>(data[0]);
    for (int64_t i = 0; i < count; ++i) body(first, first + i);
  };
  at::TensorIterator::nullary_op(tasks).for_each(run, grain);
}

// The threads of `share_out_awake`.
inline int64_t threads_awake() {
  const Team* team = Team::of_this_thread();
  return team ? team->threads() : at::get_num_threads();
}

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
