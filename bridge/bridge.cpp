// What libtorch offers and `tch` lacks, as plain C functions for `src/nn/bridge.rs`.
//
// No exception leaves this file, and no ownership crosses it: strings that are returned live as
// long as the program. `build.rs` compiles it against the libtorch version that it checks.

#include <ATen/Context.h>
#include <dlfcn.h>
#include <torch/version.h>

#ifdef GIMLET_CUDA
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAFunctions.h>
#endif

#include <cstdint>
#include <cstring>

extern "C" {

// Denormal numbers, say from a badly scaled model, slow CPU kernels down by a factor of three.
// The switch is per thread and inherited by threads started later. False: the CPU lacks it.
bool gimlet_set_flush_denormal(bool on) noexcept {
  return at::globalContext().setFlushDenormal(on);
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

// Whether the loaded libtorch carries a c10d process group: asks for its type information.
bool gimlet_has_process_group(const char* type_info) noexcept {
  return dlsym(RTLD_DEFAULT, type_info) != nullptr;
}

struct GimletDevice {
  char name[256];
  int64_t memory_bytes;
  int32_t major;
  int32_t minor;
};

// Fills in what CUDA says about a device. False: no such device, or a build without CUDA.
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
