// Gimlet's CUDA kernels as plain functions over device pointers, without headers of torch, so that
// they compile in seconds. `bridge/kernels.cpp` checks tensors and calls these. Every function returns the result of
// its launch.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "arguments.h"

namespace gimlet {

cudaError_t rms_norm(const RmsNorm& call, cudaStream_t stream);
cudaError_t rms_norm_backward(const RmsNormBackward& call, cudaStream_t stream);
cudaError_t gated_gelu(const GatedGelu& call, cudaStream_t stream);
cudaError_t gated_gelu_backward(const GatedGeluBackward& call, cudaStream_t stream);
cudaError_t cross_entropy(const CrossEntropy& call, cudaStream_t stream);
cudaError_t diagonal_sums(const DiagonalSums& call, cudaStream_t stream);
cudaError_t largest_magnitude(const LargestMagnitude& call, cudaStream_t stream);
cudaError_t cast_fp8(const CastFp8& call, cudaStream_t stream);

// The number of floats of the workspace.
int64_t adafactor_workspace(int64_t rows, int columns);
cudaError_t adafactor_matrix(const AdafactorMatrix& call, cudaStream_t stream);
cudaError_t adafactor_vector(const AdafactorVector& call, cudaStream_t stream);

}  // namespace gimlet
