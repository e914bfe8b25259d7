// libtorch's profiler with Gimlet's own ranges, for `src/nn/profiler.rs`.
//
// Kineto records the work between two calls: operations with the ranges around them on the host and, on CUDA,
// kernels with the operation that launched each.

#include <ATen/record_function.h>
#include <kineto/ActivityType.h>
#include <torch/csrc/autograd/profiler_kineto.h>

#include <set>
#include <string>

#include "guarded.h"

namespace profiler = torch::autograd::profiler;

namespace {

// The kind of an event, with the numbers that Rust uses.
enum Kind : int32_t { kOperation = 0, kBackward = 1, kRange = 2, kKernel = 3 };

// Finds the kind of an event; false for those that represent others, such as the launch of a
// kernel.
bool find_kind(const profiler::KinetoEvent& event, Kind* kind) {
  switch (static_cast<libkineto::ActivityType>(event.activityType())) {
    case libkineto::ActivityType::CPU_OP: {
      const bool backward =
          static_cast<at::RecordScope>(event.scope()) == at::RecordScope::BACKWARD_FUNCTION;
      *kind = backward ? kBackward : kOperation;
      return true;
    }
    case libkineto::ActivityType::USER_ANNOTATION:
      *kind = kRange;
      return true;
    case libkineto::ActivityType::CONCURRENT_KERNEL:
    case libkineto::ActivityType::GPU_MEMCPY:
    case libkineto::ActivityType::GPU_MEMSET:
      *kind = kKernel;
      return true;
    default:
      return false;
  }
}

}  // namespace

extern "C" {

struct GimletEvent {
  const char* name;
  uint64_t start_ns;
  uint64_t end_ns;
  uint64_t thread;
  // The thread of the forward operation that a backward function belongs to.
  uint64_t forward_thread;
  // The autograd node that an operation makes next, or that a backward function is; negative for
  // none.
  int64_t sequence;
  // The operation; of a kernel, the operation that launched it, 0 for none.
  uint64_t correlation;
  Kind kind;
};

// Begins to record the work of this thread, and of the threads of a backward pass that it starts.
// Null, or a message to be freed with `free`.
char* gimlet_profile_begin(bool on_cuda) noexcept {
  return guarded([&] {
    std::set<profiler::ActivityType> activities{profiler::ActivityType::CPU};
    if (on_cuda) activities.insert(profiler::ActivityType::CUDA);
    const profiler::ProfilerConfig config(profiler::ProfilerState::KINETO);
    profiler::prepareProfiler(config, activities);
    profiler::enableProfiler(config, activities);
  });
}

// Ends the recording, and passes each event to `take`. Events and their names live until it
// returns.
char* gimlet_profile_end(void* sink, void (*take)(void* sink, const GimletEvent* event)) noexcept {
  return guarded([&] {
    const auto result = profiler::disableProfiler();
    for (const auto& event : result->events()) {
      Kind kind;
      if (!find_kind(event, &kind)) continue;
      const std::string name = event.name();
      const auto correlation = kind == kKernel ? event.linkedCorrelationId() : event.correlationId();
      const GimletEvent raw{name.c_str(),         event.startNs(),    event.endNs(), event.startThreadId(),
                            event.fwdThreadId(),  event.sequenceNr(), correlation,   kind};
      take(sink, &raw);
    }
  });
}

// Opens a range on this thread; its name lives as long as the program. Null on failure.
void* gimlet_range_begin(const char* name) noexcept {
  try {
    auto* range = new at::RecordFunction(at::RecordScope::USER_SCOPE);
    range->before(name);
    return range;
  } catch (...) {
    return nullptr;
  }
}

// Closes the range, on the same thread.
void gimlet_range_end(void* range) noexcept { delete static_cast<at::RecordFunction*>(range); }

}  // extern "C"
