// PyTorch's c10d for `src/partition/c10d.rs`: the store by which processes find each other, groups of
// processes, and collective operations on tensors.
//
// A store, a group or an operation under way crosses the interface as a pointer that its `free` function
// takes back. Every failure is a message to be freed with `free`.

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#ifdef GIMLET_CUDA
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>
#endif

#include <chrono>
#include <cstdlib>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "guarded.h"

namespace {

using Store = c10::intrusive_ptr<c10d::Store>;
using Backend = c10::intrusive_ptr<c10d::Backend>;
using std::chrono::milliseconds;

// The time for which a process has waited for operations.
class Waits {
 public:
  void wait(c10d::Work& work, bool nccl) {
#ifdef GIMLET_CUDA
    if (nccl) return wait_on_gpu(work);
#endif
    (void)nccl;
    const auto begun = std::chrono::steady_clock::now();
    work.wait();
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begun;
    const std::lock_guard<std::mutex> lock(mutex_);
    seconds_ += taken.count();
  }

  // Counts the waits that have ended.
  double seconds() {
    const std::lock_guard<std::mutex> lock(mutex_);
#ifdef GIMLET_CUDA
    count_ended();
#endif
    return seconds_;
  }

 private:
  std::mutex mutex_;
  double seconds_ = 0;

#ifdef GIMLET_CUDA
  // The stream waits, and the host goes on.
  void wait_on_gpu(c10d::Work& work) {
    at::cuda::CUDAEvent begun(cudaEventDefault), ended(cudaEventDefault);
    begun.record();
    work.wait();
    ended.record();
    const std::lock_guard<std::mutex> lock(mutex_);
    on_gpu_.emplace_back(std::move(begun), std::move(ended));
    count_ended();
  }

  // The caller holds the lock.
  void count_ended() {
    for (; !on_gpu_.empty() && on_gpu_.front().second.query(); on_gpu_.pop_front()) {
      seconds_ += on_gpu_.front().first.elapsed_time(on_gpu_.front().second) / 1000;
    }
  }

  std::deque<std::pair<at::cuda::CUDAEvent, at::cuda::CUDAEvent>> on_gpu_;
#endif
};

struct Group {
  Backend backend;
  bool nccl;
  std::shared_ptr<Waits> waits = std::make_shared<Waits>();
};

// An operation under way.
struct Work {
  c10::intrusive_ptr<c10d::Work> work;
  bool nccl;
  std::shared_ptr<Waits> waits;
  std::function<void()> then;  // The part of the operation that is left to the caller who waits.
};

Group& group_of(void* group) { return *static_cast<Group*>(group); }

Work* begun(const Group& group, c10::intrusive_ptr<c10d::Work> work, std::function<void()> then = {}) {
  return new Work{std::move(work), group.nccl, group.waits, std::move(then)};
}

// Gloo's own scatter sums all parts everywhere, which sends twice as much.
Work* gloo_reduce_scatter(const Group& group, at::Tensor from, at::Tensor to) {
  at::Tensor received = at::empty_like(from);
  std::vector<int64_t> equal;
  auto sent = group.backend->alltoall_base(received, from, equal, equal);
  const at::Tensor parts = received.view({-1, to.numel()});
  return begun(group, std::move(sent), [parts, to]() mutable {
    const at::NoGradGuard unrecorded;
    at::sum_out(to, parts, at::IntArrayRef{0});
  });
}

// The network device of a process group on CPUs. GLOO_SOCKET_IFNAME names an interface, as in PyTorch.
std::shared_ptr<gloo::transport::Device> gloo_device(bool is_local) {
  if (const char* interface = std::getenv("GLOO_SOCKET_IFNAME")) {
    return c10d::ProcessGroupGloo::createDeviceForInterface(interface);
  }
  if (is_local) return c10d::ProcessGroupGloo::createDeviceForHostname("127.0.0.1");
  return c10d::ProcessGroupGloo::createDefaultDevice();
}

Backend gloo_group(const Store& store, int rank, int size, milliseconds timeout, bool is_local) {
  auto options = c10d::ProcessGroupGloo::Options::create(timeout);
  options->devices.push_back(gloo_device(is_local));
  return c10::make_intrusive<c10d::ProcessGroupGloo>(store, rank, size, options);
}

#ifdef GIMLET_CUDA
// A thread of NCCL's group finds operations that failed or timed out, and by default ends the process there.
// With these settings it aborts them, and `gimlet_group_check` tells. Source: PyTorch's `ProcessGroupNCCL.cpp`,
// `Watchdog::runLoop`.
void outlive_failures() {
  setenv("TORCH_NCCL_ASYNC_ERROR_HANDLING", "2", 0);  // CleanUpOnly
  setenv("TORCH_NCCL_DUMP_ON_TIMEOUT", "0", 0);
  setenv("TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC", "0", 0);  // It sleeps four times as long before it aborts.
}
#endif

Backend nccl_group(const Store& store, int rank, int size, milliseconds timeout) {
#ifdef GIMLET_CUDA
  outlive_failures();
  auto options = c10d::ProcessGroupNCCL::Options::create();
  options->timeout = timeout;
  return c10::make_intrusive<c10d::ProcessGroupNCCL>(store, rank, size, options);
#else
  (void)store, (void)rank, (void)size, (void)timeout;
  TORCH_CHECK(false, "this build has no CUDA, and so no NCCL");
#endif
}

}  // namespace

extern "C" {

// Connects to the store at `host:port`, which the process with `is_server` runs; its keys begin with `prefix`.
// NCCL waits in the store for as long as `timeout_ms` too.
char* gimlet_store_connect(const char* host, uint16_t port, bool is_server, const char* prefix,
                           int64_t timeout_ms, void** store) noexcept {
  return guarded([&] {
    c10d::TCPStoreOptions options;
    options.port = port;
    options.isServer = is_server;
    options.waitWorkers = false;
    options.timeout = milliseconds(timeout_ms);
    Store connected = c10::make_intrusive<c10d::TCPStore>(host, options);
    *store = new Store(c10::make_intrusive<c10d::PrefixStore>(prefix, connected));
  });
}

void gimlet_store_free(void* store) noexcept { delete static_cast<Store*>(store); }

char* gimlet_store_set(void* store, const char* key, const uint8_t* value, size_t length) noexcept {
  return guarded(
      [&] { (*static_cast<Store*>(store))->set(key, std::vector<uint8_t>(value, value + length)); });
}

// Sets `key` unless it is set, and tells whether it has this value now.
char* gimlet_store_set_first(void* store, const char* key, const uint8_t* value, size_t length,
                             bool* is_first) noexcept {
  return guarded([&] {
    const std::vector<uint8_t> own(value, value + length);
    *is_first = (*static_cast<Store*>(store))->compareSet(key, {}, own) == own;
  });
}

char* gimlet_store_has(void* store, const char* key, bool* has) noexcept {
  return guarded([&] { *has = (*static_cast<Store*>(store))->check({key}); });
}

// Waits until `key` is set, and copies its value to memory to be freed with `free`.
char* gimlet_store_get(void* store, const char* key, int64_t timeout_ms, uint8_t** value,
                       size_t* length) noexcept {
  return guarded([&] {
    const auto& held = *static_cast<Store*>(store);
    held->wait({key}, milliseconds(timeout_ms));
    const auto bytes = held->get(key);
    *length = bytes.size();
    *value = static_cast<uint8_t*>(std::malloc(bytes.size() + 1));
    TORCH_CHECK(*value, "no memory for ", bytes.size(), " bytes");
    std::copy(bytes.begin(), bytes.end(), *value);
  });
}

// Makes this process the member `rank` of a group of `size`; all of them call it with the same name.
char* gimlet_group_join(void* store, const char* name, bool nccl, bool is_local, int32_t rank,
                        int32_t size, int64_t timeout_ms, void** group) noexcept {
  return guarded([&] {
    auto own = c10::make_intrusive<c10d::PrefixStore>(name, *static_cast<Store*>(store));
    const milliseconds timeout(timeout_ms);
    *group = new Group{nccl ? nccl_group(own, rank, size, timeout)
                            : gloo_group(own, rank, size, timeout, is_local),
                       nccl};
  });
}

// Operations that are still under way are aborted.
void gimlet_group_free(void* group) noexcept {
  std::free(guarded([&] { group_of(group).backend->abort(); }));
  delete static_cast<Group*>(group);
}

// Tells a failure that NCCL's thread has noticed.
char* gimlet_group_check(void* group) noexcept {
  return guarded([&] {
#ifdef GIMLET_CUDA
    const auto& [backend, nccl, waits] = group_of(group);
    const bool failed = nccl && backend->getError() != c10d::ErrorType::SUCCESS;
    TORCH_CHECK(!failed, "an operation of NCCL failed or timed out");
#else
    (void)group;
#endif
  });
}

// Writes the time for which the caller has waited for operations that have ended.
char* gimlet_group_waited(void* group, double* seconds) noexcept {
  return guarded([&] { *seconds = group_of(group).waits->seconds(); });
}

// Begins to replace `tensor` by its sum over the group, or by its greatest elements.
char* gimlet_all_reduce(void* group, const at::Tensor* tensor, bool greatest, void** work) noexcept {
  return guarded([&] {
    c10d::AllreduceOptions options;
    options.reduceOp = greatest ? c10d::ReduceOp::MAX : c10d::ReduceOp::SUM;
    std::vector<at::Tensor> tensors{*tensor};
    *work = begun(group_of(group), group_of(group).backend->allreduce(tensors, options));
  });
}

// Begins to fill `own` with this member's part of the sum of `parts`.
char* gimlet_reduce_scatter(void* group, const at::Tensor* parts, const at::Tensor* own,
                            void** work) noexcept {
  return guarded([&] {
    at::Tensor to = *own, from = *parts;
    const Group& joined = group_of(group);
    *work = joined.nccl ? begun(joined, joined.backend->_reduce_scatter_base(to, from))
                        : gloo_reduce_scatter(joined, from, to);
  });
}

// Begins to fill `whole` with the members' parts, in the order of ranks.
char* gimlet_all_gather(void* group, const at::Tensor* part, const at::Tensor* whole,
                        void** work) noexcept {
  return guarded([&] {
    at::Tensor to = *whole, from = *part;
    *work = begun(group_of(group), group_of(group).backend->_allgather_base(to, from));
  });
}

// Begins to send each member its part of `parts`, and to fill `received` with the members' parts for this one, in the
// order of ranks. All parts have the same size.
char* gimlet_all_to_all(void* group, const at::Tensor* parts, const at::Tensor* received,
                        void** work) noexcept {
  return guarded([&] {
    at::Tensor to = *received, from = *parts;
    std::vector<int64_t> equal;
    *work = begun(group_of(group), group_of(group).backend->alltoall_base(to, from, equal, equal));
  });
}

// Begins to replace `tensor` by that of the member `root`.
char* gimlet_broadcast(void* group, const at::Tensor* tensor, int32_t root, void** work) noexcept {
  return guarded([&] {
    c10d::BroadcastOptions options;
    options.rootRank = root;
    std::vector<at::Tensor> tensors{*tensor};
    *work = begun(group_of(group), group_of(group).backend->broadcast(tensors, options));
  });
}

// Waits until an operation has ended; for CUDA, until the current stream may use its result.
char* gimlet_work_wait(void* work) noexcept {
  return guarded([&] {
    auto& [operation, nccl, waits, then] = *static_cast<Work*>(work);
    waits->wait(*operation, nccl);
    if (then) then();
  });
}

bool gimlet_work_is_done(void* work) noexcept {
  try {
    return static_cast<Work*>(work)->work->isCompleted();
  } catch (...) {
    return true;  // Waiting tells the failure.
  }
}

void gimlet_work_free(void* work) noexcept { delete static_cast<Work*>(work); }

}  // extern "C"
