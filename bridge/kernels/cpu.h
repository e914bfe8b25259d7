// The same kernels on the CPU, on libtorch's threads.
#pragma once

#include "arguments.h"

namespace gimlet {

void rms_norm(const RmsNorm& call);
void rms_norm_backward(const RmsNormBackward& call);
void gated_gelu(const GatedGelu& call);
void gated_gelu_backward(const GatedGeluBackward& call);
void cross_entropy(const CrossEntropy& call);
void adafactor_matrix(const AdafactorMatrix& call);
void adafactor_vector(const AdafactorVector& call);

}  // namespace gimlet
