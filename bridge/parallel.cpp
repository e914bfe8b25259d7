// Libtorch's threads. Its own parallel loops are in headers, which would bring a second OpenMP into
// this library; an iterator over a tensor is in libtorch itself.

#include "parallel.h"

#include <ATen/TensorIterator.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/arange.h>

void share_out(int64_t count, int64_t grain, const std::function<void(int64_t first, int64_t task)>& body) {
  if (count <= grain) {
    for (int64_t task = 0; task < count; ++task) body(0, task);
    return;
  }
  at::AutoDispatchBelowADInplaceOrView below_autograd;
  // Numbers are kept for the next loop: to make them costs about as much as a short loop does.
  thread_local at::Tensor numbers;
  if (!numbers.defined() || numbers.size(0) < count) numbers = at::arange(2 * count, at::kLong);
  at::Tensor tasks = numbers.narrow(0, 0, count);
  const auto run = [&](char** data, const int64_t* strides, int64_t count) {
    const int64_t first = *reinterpret_cast<const int64_t*>(data[0]);
    for (int64_t i = 0; i < count; ++i) body(first, first + i);
  };
  at::TensorIterator::nullary_op(tasks).for_each(run, grain);
}
