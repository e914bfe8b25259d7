// Blocks of threads on the CPU: see `include/cuda_runtime_api.h`.
//
// A warp runs until all its lanes are at a barrier of the block; then the next one does. So a kernel
// that needs a barrier more than it has gives other results in another order.

#include <link.h>
#include <ucontext.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <numeric>
#include <random>
#include <vector>

#include "cuda_runtime_api.h"

dim3 threadIdx, blockIdx, blockDim, gridDim;

namespace emulated {

Order order = Order::kForward;
int64_t blocks_of_each_end = INT64_MAX;

namespace {

constexpr unsigned kWarp = 32, kMostThreads = 1024;
constexpr size_t kStack = 1 << 16;

enum class State { kReady, kAtShuffle, kAtBarrier, kDone };

struct Fiber {
  ucontext_t context;
  std::unique_ptr<char[]> stack{new char[kStack]};
  State state;
  unsigned shuffles;
};

Fiber fibers[kMostThreads];
ucontext_t scheduler;
Fiber* running;
const std::function<void()>* body;
// Values of the lanes of each warp. A lane may be one shuffle ahead of another.
uint64_t slots[2][kMostThreads];
cudaError_t last_error = cudaSuccess;

[[noreturn]] void fail(const char* what) {
  std::fprintf(stderr, "block %u %u %u, thread %u: %s\n", blockIdx.x, blockIdx.y, blockIdx.z, threadIdx.x, what);
  std::abort();
}

void run_body() {
  (*body)();
  running->state = State::kDone;
}

void wait(State state) {
  running->state = state;
  swapcontext(&running->context, &scheduler);
}

void resume(unsigned thread) {
  running = &fibers[thread];
  threadIdx = dim3(thread, 0, 0);
  swapcontext(&scheduler, &running->context);
}

// The numbers from 0, in the order of the moment.
template <typename Number>
std::vector<Number> sequence(Number count) {
  static std::minstd_rand random(1);
  std::vector<Number> numbers(count);
  std::iota(numbers.begin(), numbers.end(), Number{0});
  if (order == Order::kBackward) std::reverse(numbers.begin(), numbers.end());
  if (order == Order::kShuffled) std::shuffle(numbers.begin(), numbers.end(), random);
  return numbers;
}

// Lanes that wait for their warp go on when all of them do.
void run_warp(unsigned warp) {
  Fiber* lanes = &fibers[warp * kWarp];
  const unsigned count = std::min(kWarp, blockDim.x - warp * kWarp);
  const auto waiting = [](const Fiber& lane) { return lane.state == State::kAtShuffle; };
  while (true) {
    for (const unsigned lane : sequence(count)) {
      if (lanes[lane].state == State::kReady) resume(warp * kWarp + lane);
    }
    if (std::none_of(lanes, lanes + count, waiting)) return;
    if (count != kWarp || !std::all_of(lanes, lanes + kWarp, waiting)) fail("a shuffle that not all lanes reach");
    for (unsigned lane = 0; lane < kWarp; ++lane) lanes[lane].state = State::kReady;
  }
}

// Fills the variables of all blocks with bytes that are NaN as numbers.
void overwrite_shared() {
  const auto fill = [](dl_phdr_info* program, size_t, void*) {
    for (int index = 0; index < program->dlpi_phnum; ++index) {
      const auto& header = program->dlpi_phdr[index];
      if (header.p_type == PT_TLS) std::memset(program->dlpi_tls_data, 0xff, header.p_memsz);
    }
    return 1;  // the program itself is the first
  };
  dl_iterate_phdr(fill, nullptr);
}

void start(Fiber& fiber) {
  fiber.state = State::kReady;
  fiber.shuffles = 0;
  getcontext(&fiber.context);
  fiber.context.uc_stack.ss_sp = fiber.stack.get();
  fiber.context.uc_stack.ss_size = kStack;
  fiber.context.uc_link = &scheduler;
  makecontext(&fiber.context, run_body, 0);
}

void run_block() {
  overwrite_shared();
  std::for_each_n(fibers, blockDim.x, start);
  const unsigned num_warps = (blockDim.x + kWarp - 1) / kWarp;
  while (true) {
    for (const unsigned warp : sequence(num_warps)) run_warp(warp);
    const auto done = [](const Fiber& fiber) { return fiber.state == State::kDone; };
    if (std::all_of(fibers, fibers + blockDim.x, done)) return;
    if (std::any_of(fibers, fibers + blockDim.x, done)) fail("a barrier that not all threads reach");
    for (unsigned thread = 0; thread < blockDim.x; ++thread) fibers[thread].state = State::kReady;
  }
}

bool is_possible(dim3 grid, dim3 block) {
  const auto within = [](unsigned extent, unsigned most) { return extent > 0 && extent <= most; };
  return within(grid.x, 0x7fffffff) && within(grid.y, 0xffff) && within(grid.z, 0xffff) &&
         within(block.x, kMostThreads) && block.y == 1 && block.z == 1;
}

}  // namespace

void launch(dim3 grid, dim3 block, const std::function<void()>& kernel) {
  if (!is_possible(grid, block)) {
    last_error = cudaErrorInvalidConfiguration;
    return;
  }
  gridDim = grid;
  blockDim = block;
  body = &kernel;
  const int64_t count = int64_t{grid.x} * grid.y * grid.z;
  const int64_t of_start = std::min(count, blocks_of_each_end), of_end = std::min(count - of_start, of_start);
  for (int64_t index : sequence(of_start + of_end)) {
    if (index >= of_start) index += count - of_start - of_end;
    blockIdx = dim3(index % grid.x, index / grid.x % grid.y, index / grid.x / grid.y);
    run_block();
  }
}

uint64_t exchanged(uint64_t value, unsigned lane) {
  uint64_t* of_warp = slots[running->shuffles++ % 2] + threadIdx.x / kWarp * kWarp;
  of_warp[threadIdx.x % kWarp] = value;
  wait(State::kAtShuffle);
  return of_warp[lane];
}

}  // namespace emulated

void __syncthreads() { emulated::wait(emulated::State::kAtBarrier); }

void __trap() { emulated::fail("trap"); }

cudaError_t cudaGetLastError() {
  const cudaError_t error = emulated::last_error;
  emulated::last_error = cudaSuccess;
  return error;
}
