// Features of libtorch that `tch` does not have, as plain C functions for `src/nn/bridge.rs`.
//
// No exception leaves this file, and no ownership crosses it: strings that are returned live as
// long as the program. `build.rs` compiles it against the libtorch version that it checks.

#include <ATen/Context.h>
#include <dlfcn.h>
#include <torch/version.h>

#ifdef GIMLET_CUDA
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#endif

#include <cstdint>
#include <cstring>

extern "C" {

// Denormal numbers, say from a badly scaled model, slow CPU kernels down by a factor of three.
// The switch is per thread and inherited by threads started later. False: the CPU does not support
// it.
bool gimlet_set_flush_denormal(bool on) noexcept {
  return at::globalContext().setFlushDenormal(on);
}

// Makes operations without a deterministic implementation fail. New tensors stay uninitialized,
// which libtorch would otherwise fill. Returns libtorch's resulting setting.
bool gimlet_set_deterministic(bool on) noexcept {
  auto& context = at::globalContext();
  context.setDeterministicFillUninitializedMemory(false);
  context.setDeterministicAlgorithms(on, /*warn_only=*/false);
  context.setDeterministicCuDNN(on);
  return context.deterministicAlgorithms();
}

// Sets whether CUDA's float32 products may round their factors to TF32. Returns libtorch's
// resulting setting.
bool gimlet_allow_tf32(bool on) noexcept {
  auto& context = at::globalContext();
  try {
    context.setAllowTF32CuBLAS(on);
    context.setAllowTF32CuDNN(on);
    return context.allowTF32CuBLAS();
  } catch (...) {
    return false;
  }
}

struct GimletMemory {
  int64_t current_bytes;
  int64_t peak_bytes;
};

// The memory of tensors on a CUDA device, and its peak since the last call. False: no such device,
// nothing was ever allocated there, or a build without CUDA.
bool gimlet_cuda_memory(int32_t index, GimletMemory* memory) noexcept {
#ifdef GIMLET_CUDA
  try {
    if (index < 0 || index >= c10::cuda::device_count()) return false;
    const auto device = static_cast<c10::DeviceIndex>(index);
    const auto stats = c10::cuda::CUDACachingAllocator::getDeviceStats(device);
    const auto& bytes = stats.allocated_bytes[0];
    memory->current_bytes = bytes.current;
    memory->peak_bytes = bytes.peak;
    c10::cuda::CUDACachingAllocator::resetPeakStats(device);
    return true;
  } catch (...) {
    return false;
  }
#else
  (void)index;
  (void)memory;
  return false;
#endif
}

// Makes a CUDA device the one on which this thread launches kernels. False: no such device, or a build without
// CUDA.
bool gimlet_set_cuda_device(int32_t index) noexcept {
#ifdef GIMLET_CUDA
  try {
    c10::cuda::set_device(static_cast<c10::DeviceIndex>(index));
    return true;
  } catch (...) {
    return false;
  }
#else
  (void)index;
  return false;
#endif
}

const char* gimlet_torch_version() noexcept { return TORCH_VERSION; }

// CUDA's runtime version as 1000 * major + 10 * minor; 0 without libtorch_cuda.
int64_t gimlet_cuda_version() noexcept {
  try {
    return at::globalContext().hasCUDART() ? at::globalContext().versionCUDART() : 0;
  } catch (...) {
    return 0;
  }
}

// Whether the loaded libtorch contains a c10d process group, found by its type information.
bool gimlet_has_process_group(const char* type_info) noexcept {
  return dlsym(RTLD_DEFAULT, type_info) != nullptr;
}

struct GimletDevice {
  char name[256];
  int64_t memory_bytes;
  int32_t major;
  int32_t minor;
};

// Fills in CUDA's description of a device. False: no such device, or a build without CUDA.
bool gimlet_cuda_device(int32_t index, GimletDevice* device) noexcept {
#ifdef GIMLET_CUDA
  try {
    if (index < 0 || index >= c10::cuda::device_count()) return false;
    const cudaDeviceProp* found = at::cuda::getDeviceProperties(index);
    std::strncpy(device->name, found->name, sizeof(device->name) - 1);
    device->name[sizeof(device->name) - 1] = '\0';
    device->memory_bytes = static_cast<int64_t>(found->totalGlobalMem);
    device->major = found->major;
    device->minor = found->minor;
    return true;
  } catch (...) {
    return false;
  }
#else
  (void)index;
  (void)device;
  return false;
#endif
}

}  // extern "C"
