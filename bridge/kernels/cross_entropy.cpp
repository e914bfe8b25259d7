// The loss on the CPU, a row at a time, which stays in a core's second cache: logits are read from memory and written
// there once.

#include <c10/util/Exception.h>

#include <algorithm>
#include <cmath>

#include "../parallel.h"
#include "../vectors.h"
#include "cpu.h"

namespace {

// The logit of a token that does not exist.
constexpr float kAbsent = -3e38f;

}  // namespace

GIMLET_CLONES void gimlet_differentiate_loss(const gimlet::CrossEntropy& call, int64_t row) {
  const int64_t vocab = call.vocab, target = call.tokens[row];
  float* const logits = static_cast<float*>(call.logits) + row * vocab;
  Floats most = Floats{} + kAbsent, logit_sums = {};
  for (int64_t i = 0; i < vocab; i += kLanes) {
    const Floats values = read(logits + i, vocab - i), present = first_of(values, vocab - i, kAbsent);
    most = present > most ? present : most;
    logit_sums += values;
  }
  const float subtracted = largest(most), target_logit = logits[target] - subtracted;
  // Of equal logits the first counts.
  const bool correct = logits[target] == subtracted && std::find(logits, logits + target, subtracted) == logits + target;
  Floats totals = {};
  for (int64_t i = 0; i < vocab; i += kLanes) {
    const Floats values = first_of(read(logits + i, vocab - i), vocab - i, kAbsent);
    const Floats exponentials = exponential(values - subtracted);
    totals += exponentials;
    write(exponentials, logits + i, vocab - i);
  }
  const float normalizer = sum(totals), log_normalizer = std::log(normalizer), log_z = log_normalizer + subtracted;
  float entropy = (log_normalizer - target_logit) * (call.confidence - call.low);
  if (call.low > 0) entropy += (log_z * static_cast<float>(vocab) - sum(logit_sums)) * call.low;
  const float z_loss = log_z * log_z * call.z_factor;
  call.loss[row] = entropy + z_loss - call.least;
  call.z_loss[row] = z_loss;
  call.correct[row] = correct ? 1.0f : 0.0f;
  // (1 + 2 z log Z) softmax - target.
  const float coefficient = call.coefficients[row], others = coefficient * call.low;
  const float factor = (1.0f + 2.0f * call.z_factor * log_z) / normalizer * coefficient;
  for (int64_t i = 0; i < vocab; i += kLanes) {
    write(read(logits + i, vocab - i) * factor - others, logits + i, vocab - i);
  }
  logits[target] += coefficient * (call.low - call.confidence);
}

namespace gimlet {

void cross_entropy(const CrossEntropy& call) {
  TORCH_CHECK(call.dtype == Dtype::kFloat32 && call.narrow_gradient == nullptr,
              "on a CPU, logits and their gradient are float32");
  for (int64_t row = 0; row < call.rows; ++row) {
    TORCH_CHECK(call.tokens[row] >= 0 && call.tokens[row] < call.vocab, "token ", call.tokens[row],
                " is not one of the ", call.vocab, " of the vocabulary");
  }
  share_out(call.rows, 1, [&](int64_t, int64_t row) { gimlet_differentiate_loss(call, row); });
}

}  // namespace gimlet
