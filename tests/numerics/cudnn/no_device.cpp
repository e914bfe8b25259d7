// What cuDNN's frontend asks CUDA's runtime before it plans a graph, answered for an H200 on a machine without a GPU.

#include <cuda_runtime_api.h>

extern "C" {

cudaError_t cudaGetDevice(int* device) {
  *device = 0;
  return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int) {
  *value = attribute == cudaDevAttrComputeCapabilityMajor ? 9 : 0;
  return cudaSuccess;
}

const char* cudaGetErrorString(cudaError_t) { return "no device"; }

}  // extern "C"
