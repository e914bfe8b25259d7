// Cross entropy against its formula.

#include "checks.h"

namespace {

struct Case {
  int64_t rows;
  int vocab;
  float z_factor, smoothing;
  double magnitude;
  std::string name;

  double low() const { return smoothing / (vocab - 1); }
  double confidence() const { return 1 - smoothing; }
  double least() const {
    return -(confidence() * std::log(confidence()) + (vocab - 1) * low() * std::log(low() + 1e-20));
  }
};

template <typename T>
struct Inputs {
  std::vector<T> logits;
  std::vector<int64_t> tokens;
  std::vector<float> coefficients;

  explicit Inputs(const Case& of) : logits(random_numbers<T>(of.rows * of.vocab, of.magnitude)) {
    for (int64_t row = 0; row < of.rows; ++row) {
      T* logit = logits.data() + row * of.vocab;
      // The largest logit twice, of which the first counts; one that is impossible, first in its thread.
      const int64_t at = of.vocab / 3 + row % 2, other = of.vocab - 1 - row % 3;
      logit[at] = logit[other] = narrow<T>(1.5 * of.magnitude);
      logit[0] = narrow<T>(-INFINITY);
      tokens.push_back(row % 3 == 0 ? at : row % 3 == 1 ? other : 1);
    }
    coefficients = random_numbers<float>(of.rows);
  }
};

// Gradients of the logits, over them or in bfloat16 apart from them, losses, z-losses and correct answers.
template <typename T>
Results results(const Inputs<T>& in, const Case& of, bool apart) {
  std::vector<T> logits = in.logits;
  auto gradients = room<__nv_bfloat16>(apart ? of.rows * of.vocab : 0);
  Loose loss(of.rows), z_loss(of.rows), correct(of.rows), coefficients(in.coefficients);
  gimlet::CrossEntropy call{};
  call.dtype = kDtype<T>;
  call.logits = logits.data();
  call.narrow_gradient = apart ? gradients.data() : nullptr;
  call.tokens = in.tokens.data();
  call.coefficients = coefficients.data();
  call.loss = loss.data();
  call.z_loss = z_loss.data();
  call.correct = correct.data();
  call.rows = of.rows;
  call.vocab = of.vocab;
  call.z_factor = of.z_factor;
  call.confidence = static_cast<float>(of.confidence());
  call.low = static_cast<float>(of.low());
  call.least = static_cast<float>(of.least());
  check(of.name, gimlet::cross_entropy(call, nullptr) == cudaSuccess);
  check(of.name + ": the logits changed", !apart || widened(logits) == widened(in.logits));
  return {apart ? widened(gradients) : widened(logits), loss.wide(), z_loss.wide(), correct.wide()};
}

template <typename T>
Results expected(const Inputs<T>& in, const Case& of) {
  Results all(4);
  for (int64_t row = 0; row < of.rows; ++row) {
    const T* logits = in.logits.data() + row * of.vocab;
    int64_t predicted = 0;
    for (int64_t column = 0; column < of.vocab; ++column) {
      if (wide(logits[column]) > wide(logits[predicted])) predicted = column;
    }
    const double largest = wide(logits[predicted]);
    double normalizer = 0, sum = 0;
    for (int64_t column = 0; column < of.vocab; ++column) {
      normalizer += std::exp(wide(logits[column]) - largest);
      sum += wide(logits[column]);
    }
    const double log_z = std::log(normalizer) + largest;
    const int64_t token = in.tokens[row];
    double loss = (of.confidence() - of.low()) * (log_z - wide(logits[token]));
    if (of.smoothing > 0) loss += of.low() * (of.vocab * log_z - sum);
    all[1].push_back(loss + of.z_factor * log_z * log_z - of.least());
    all[2].push_back(of.z_factor * log_z * log_z);
    all[3].push_back(predicted == token ? 1 : 0);
    for (int64_t column = 0; column < of.vocab; ++column) {
      const double softmax = std::exp(wide(logits[column]) - log_z);
      const double target = column == token ? of.confidence() : of.low();
      all[0].push_back(in.coefficients[row] * ((1 + 2 * of.z_factor * log_z) * softmax - target));
    }
  }
  return all;
}

template <typename T>
void check_case(const Case& of) {
  const Inputs<T> in(of);
  const Results wanted = expected(in, of);
  for (const bool apart : {false, true}) {
    const Results found = in_every_order(of.name, [&] { return results(in, of, apart); });
    compare(of.name, {found[0]}, {wanted[0]}, apart ? kTolerance<__nv_bfloat16> : kTolerance<T>);
    for (const int column : {1, 2}) compare(of.name + ", a loss", found[column], wanted[column], 1e-5);
    compare(of.name + ", correct", found[3], wanted[3], 0);
  }
}

}  // namespace

void check_cross_entropy() {
  for (const int vocab : {8, 1000, 4104, 32128}) {
    const std::string name = "cross_entropy of " + std::to_string(vocab);
    for (const Case& of : {Case{3, vocab, 0, 0, 300, name}, Case{3, vocab, 1e-2f, 0.1f, 3, name + " with smoothing"}}) {
      check_case<float>(of);
      check_case<__nv_bfloat16>(of);
    }
  }
}
