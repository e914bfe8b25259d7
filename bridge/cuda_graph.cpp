// CUDA graphs: work that was recorded once and is started again with a single launch, for
// `src/nn/cuda_graph.rs`. Decoding has recorded its steps on an H200.

#include "guarded.h"

#include <c10/util/Exception.h>

#include <cstdint>
#include <map>
#include <memory>

#ifdef GIMLET_CUDA
#include <ATen/core/CachingHostAllocator.h>
#include <ATen/cuda/CUDAGeneratorImpl.h>
#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

struct Graph : at::cuda::CUDAGraph {
  // libtorch leaves a capture that failed half open (`CUDAGraph::capture_end`): its random generator would refuse to
  // draw outside of the graph, its allocator would free no memory before it reports that there is none, and the one
  // of pinned memory would ask a graph that is gone.
  void abandon() {
    if (capture_ended_) return;
    for (const auto& [generator, increment] : captured_generator_states_) generator->capturing_ = false;
    c10::cuda::CUDACachingAllocator::endAllocateToPool(capture_dev_, mempool_id_);
    c10::cuda::CUDACachingAllocator::releasePool(capture_dev_, mempool_id_);
    at::getHostAllocator(at::kCUDA)->end_allocate_to_pool(mempool_id_);
    at::getHostAllocator(at::kCUDA)->release_pool(mempool_id_);
  }
};

namespace {

// One stream for each device: captures need one of their own, and libraries keep a workspace for every stream that they
// have seen.
c10::cuda::CUDAStream capture_stream(int32_t device) {
  static std::map<int32_t, c10::cuda::CUDAStream> streams;
  return streams.try_emplace(device, c10::cuda::getStreamFromPool()).first->second;
}

// Records work for which libraries are set up, in memory of its own or in that of `beside`.
std::unique_ptr<Graph> record(int32_t device, Graph* beside, void* data, bool (*work)(void*)) {
  c10::cuda::CUDAGuard on(static_cast<c10::DeviceIndex>(device));
  // The inputs of the work must be finished.
  c10::cuda::device_synchronize();
  c10::cuda::CUDAStreamGuard guard(capture_stream(device));
  auto graph = std::make_unique<Graph>();
  // Other threads may copy batches in the meantime.
  graph->capture_begin(beside ? beside->pool() : at::cuda::MempoolId_t{0, 0}, cudaStreamCaptureModeThreadLocal);
  const bool done = work(data);
  try {
    graph->capture_end();
  } catch (...) {
    graph->abandon();
    throw;
  }
  c10::cuda::device_synchronize();
  return done ? std::move(graph) : nullptr;
}

std::unique_ptr<Graph> capture(int32_t device, void* data, bool (*work)(void*)) {
  {
    c10::cuda::CUDAGuard on(static_cast<c10::DeviceIndex>(device));
    c10::cuda::device_synchronize();
    c10::cuda::CUDAStreamGuard guard(capture_stream(device));
    // Libraries set themselves up in a first call, which a capture forbids.
    if (!work(data)) return nullptr;
  }
  return record(device, nullptr, data, work);
}

}  // namespace
#else
struct Graph {};
#endif

extern "C" {

// Calls `work` with `data` twice, first to warm up and then to record its work on the device.
// `work` returns whether it succeeded; else `graph` stays null. Null, or a message to be freed with
// `free`.
char* gimlet_cuda_graph_capture(int32_t device, void* data, bool (*work)(void*), Graph** graph) noexcept {
  return guarded([&] {
#ifdef GIMLET_CUDA
    *graph = capture(device, data, work).release();
#else
    TORCH_CHECK(false, "this build has no CUDA");
#endif
  });
}

// Calls `work` with `data` once, to record its work on the device, which libraries have done before; in the memory of
// `beside`, unless that is null: then the two must be started in turn. The rest is as for `gimlet_cuda_graph_capture`.
char* gimlet_cuda_graph_record(int32_t device, Graph* beside, void* data, bool (*work)(void*), Graph** graph) noexcept {
  return guarded([&] {
#ifdef GIMLET_CUDA
    // What an earlier run of the work has left is memory for the graph's own.
    if (!beside) c10::cuda::CUDACachingAllocator::emptyCache();
    *graph = record(device, beside, data, work).release();
#else
    TORCH_CHECK(false, "this build has no CUDA");
#endif
  });
}

// Starts the recorded work, on the current stream. Null, or a message to be freed with `free`.
char* gimlet_cuda_graph_replay(Graph* graph) noexcept {
  return guarded([&] {
#ifdef GIMLET_CUDA
    graph->replay();
#endif
  });
}

void gimlet_cuda_graph_drop(Graph* graph) noexcept { delete graph; }

}  // extern "C"
