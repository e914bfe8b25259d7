// Matrices of more than 2^31 numbers, of which only the last blocks run, and the first: the end must be what a
// small matrix with the same numbers gives. Memory that is not touched is not taken.

#include <sys/mman.h>

#include "checks.h"

namespace {

using Bfloat16 = __nv_bfloat16;

// Zeros.
template <typename T>
class Vast {
 public:
  explicit Vast(int64_t count) : count_(count) {
    void* memory =
        mmap(nullptr, count * sizeof(T), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    check("there are not so many addresses", memory != MAP_FAILED);
    data_ = static_cast<T*>(memory);
  }
  Vast(const Vast&) = delete;
  ~Vast() { munmap(data_, count_ * sizeof(T)); }

  T* data() { return data_; }
  T* end(int64_t count) { return data_ + count_ - count; }
  // The same random numbers at the end as in a small matrix.
  std::vector<T> fill_end(int64_t count) {
    const auto numbers = random_numbers<T>(count);
    std::copy(numbers.begin(), numbers.end(), end(count));
    return numbers;
  }
  void is_at_end(const std::vector<T>& expected, const std::string& what) {
    for (size_t index = 0; index < expected.size(); ++index) {
      check(what + " of the end", is_same(wide(end(expected.size())[index]), wide(expected[index])));
    }
  }

 private:
  int64_t count_;
  T* data_;
};

void succeeds(const std::string& what, cudaError_t error) { check(what + ": not launched", error == cudaSuccess); }

constexpr int kWidth = 8192;
constexpr int64_t kRows = (1 << 18) + 1024, kLast = 2;

void norms() {
  Vast<Bfloat16> residual(kRows * kWidth), normal(kRows * kWidth), gradient(kRows * kWidth), result(kRows * kWidth);
  Vast<float> inverse_rms(kRows), scale_gradients(kRows * kWidth);
  const auto scale = random_numbers<Bfloat16>(kWidth);
  const auto in = residual.fill_end(kLast * kWidth), in_gradient = gradient.fill_end(kLast * kWidth);
  auto normal_end = room<Bfloat16>(in.size()), result_end = room<Bfloat16>(in.size());
  std::vector<float> inverse_end(kLast), scale_end(in.size());
  gimlet::RmsNorm call{};
  call.dtype = Dtype::kBfloat16;
  call.scale = scale.data();
  call.rows_per_mask = 1;
  call.width = kWidth;
  gimlet::RmsNormBackward backward{};
  backward.dtype = Dtype::kBfloat16;
  backward.scale = scale.data();
  backward.rows_per_mask = 1;
  backward.width = kWidth;
  const auto run = [&](const Bfloat16* of, const Bfloat16* passed, Bfloat16* to, Bfloat16* back, float* inverses,
                       float* scales, int64_t rows) {
    call.residual = backward.sum = of;
    call.normal = to;
    call.inverse_rms = inverses;
    backward.inverse_rms = inverses;
    backward.normal_gradient = passed;
    backward.residual_gradient = back;
    backward.scale_gradients = scales;
    call.rows = backward.rows = rows;
    backward.parts = static_cast<int>(rows);
    succeeds("rms_norm", gimlet::rms_norm(call, nullptr));
    succeeds("rms_norm_backward", gimlet::rms_norm_backward(backward, nullptr));
  };
  run(residual.data(), gradient.data(), normal.data(), result.data(), inverse_rms.data(), scale_gradients.data(),
      kRows);
  run(in.data(), in_gradient.data(), normal_end.data(), result_end.data(), inverse_end.data(), scale_end.data(),
      kLast);
  normal.is_at_end(normal_end, "rms_norm");
  result.is_at_end(result_end, "rms_norm_backward");
  scale_gradients.is_at_end(scale_end, "the scale's rms_norm_backward");
}

void gelus() {
  // The last block has the last 256 packs: a quarter of a row.
  constexpr int kEnd = kWidth / 4;
  // Gate and linear lie side by side.
  Vast<Bfloat16> both(2 * kRows * kWidth), gradients(2 * kRows * kWidth);
  Vast<Bfloat16> product(kRows * kWidth), passed(kRows * kWidth);
  const auto linear = both.fill_end(kEnd), gradient = passed.fill_end(kEnd), gate = random_numbers<Bfloat16>(kEnd);
  std::copy(gate.begin(), gate.end(), both.end(kWidth + kEnd));
  auto product_end = room<Bfloat16>(kEnd), gate_end = product_end, linear_end = product_end;
  gimlet::GatedGelu call{Dtype::kBfloat16, both.data(), both.data() + kWidth, product.data(),
                         kRows,            2 * kWidth,  2 * kWidth,           kWidth};
  succeeds("gated_gelu", gimlet::gated_gelu(call, nullptr));
  gimlet::GatedGeluBackward backward{Dtype::kBfloat16,          passed.data(), both.data(),
                                     both.data() + kWidth,      gradients.data(),
                                     gradients.data() + kWidth, kRows,         2 * kWidth,
                                     2 * kWidth,                kWidth};
  succeeds("gated_gelu_backward", gimlet::gated_gelu_backward(backward, nullptr));
  call = {Dtype::kBfloat16, gate.data(), linear.data(), product_end.data(), 1, kEnd, kEnd, kEnd};
  succeeds("gated_gelu", gimlet::gated_gelu(call, nullptr));
  backward = {Dtype::kBfloat16,  gradient.data(), gate.data(), linear.data(), gate_end.data(),
              linear_end.data(), 1,               kEnd,        kEnd,          kEnd};
  succeeds("gated_gelu_backward", gimlet::gated_gelu_backward(backward, nullptr));
  product.is_at_end(product_end, "gated_gelu");
  gradients.is_at_end(linear_end, "the linear factor's gated_gelu_backward");
  for (int index = 0; index < kEnd; ++index) {
    check("the gate's gated_gelu_backward", gradients.end(kWidth + kEnd)[index].bits == gate_end[index].bits);
  }
}

void losses() {
  constexpr int kVocab = 32128;
  constexpr int64_t kTokens = 66900;
  Vast<Bfloat16> logits(kTokens * kVocab);
  Vast<float> loss(kTokens), other(kTokens);
  const std::vector<int64_t> tokens(kTokens, 5);
  const std::vector<float> coefficients(kTokens, 1);
  auto logits_end = logits.fill_end(kLast * kVocab);
  std::vector<float> loss_end(kLast), other_end(kLast);
  gimlet::CrossEntropy call{Dtype::kBfloat16, logits.data(), nullptr, tokens.data(), coefficients.data(), loss.data(),
                            other.data(),     other.data(),  kTokens, kVocab,        0,                   1, 0, 0};
  succeeds("cross_entropy", gimlet::cross_entropy(call, nullptr));
  call.logits = logits_end.data();
  call.loss = loss_end.data();
  call.z_loss = call.correct = other_end.data();
  call.rows = kLast;
  succeeds("cross_entropy", gimlet::cross_entropy(call, nullptr));
  logits.is_at_end(logits_end, "cross_entropy");
  loss.is_at_end(loss_end, "the loss of cross_entropy");
}

void diagonals() {
  constexpr int kHeads = 8, kQueries = 64, kKeys = 4096, kBatch = 1030;
  constexpr int64_t kMatrix = int64_t{kQueries} * kKeys, kDistances = kQueries + kKeys - 1;
  Vast<Bfloat16> values(kBatch * kHeads * kMatrix);
  Vast<float> sums(kBatch * kHeads * kDistances);
  const auto last = values.fill_end(kMatrix);
  std::vector<float> sums_end(kDistances);
  succeeds("diagonal_sums", gimlet::diagonal_sums({Dtype::kBfloat16, values.data(), sums.data(), kBatch, kHeads,
                                                   kQueries, kKeys, kBatch},
                                                  nullptr));
  succeeds("diagonal_sums", gimlet::diagonal_sums(
                                {Dtype::kBfloat16, last.data(), sums_end.data(), 1, 1, kQueries, kKeys, 1}, nullptr));
  sums_end.erase(sums_end.begin(), sums_end.begin() + kDistances / 128 * 128);  // of the last block of threads
  sums.is_at_end(sums_end, "diagonal_sums");
}

void casts() {
  // More tiles than a grid may have in its second extent.
  constexpr int kColumns = 512, kTile = 128;
  constexpr int64_t kCastRows = (1 << 23) + kTile;
  Vast<Bfloat16> values(kCastRows * kColumns);
  Vast<uint8_t> narrow(kCastRows * kColumns), transposed(kCastRows * kColumns);
  const auto last = values.fill_end(kTile * kColumns);
  std::vector<uint8_t> narrow_end(last.size()), transposed_end(last.size());
  const float scale = 3;
  gimlet::CastFp8 call{Dtype::kBfloat16, gimlet::Fp8::kE4m3, values.data(), &scale,   nullptr,
                       narrow.data(),    transposed.data(),  kCastRows,     kColumns};
  succeeds("cast_fp8", gimlet::cast_fp8(call, nullptr));
  call = {Dtype::kBfloat16,  gimlet::Fp8::kE4m3,    last.data(), &scale,  nullptr,
          narrow_end.data(), transposed_end.data(), kTile,       kColumns};
  succeeds("cast_fp8", gimlet::cast_fp8(call, nullptr));
  for (int column = kColumns - 64; column < kColumns; ++column) {
    for (int row = 0; row < kTile; ++row) {
      const int64_t place = int64_t{column} * kCastRows + kCastRows - kTile + row;
      check("cast_fp8 of the end", narrow.end(kTile * kColumns)[row * kColumns + column] ==
                                       narrow_end[row * kColumns + column]);
      check("transposed cast_fp8 of the end", transposed.data()[place] == transposed_end[column * kTile + row]);
    }
  }
}

void magnitudes() {
  constexpr int64_t kCount = (int64_t{1} << 31) + (1 << 22);  // the last thread reads its end
  Vast<Bfloat16> values(kCount);
  *values.end(1) = narrow<Bfloat16>(-7);
  float amax = 0;
  succeeds("largest_magnitude",
           gimlet::largest_magnitude({Dtype::kBfloat16, values.data(), kCount, &amax}, nullptr));
  check("largest_magnitude of the end", amax == 7);
}

void updates() {
  constexpr int kEnd = 32, kColumns = 1 << 23, kTile = 512;
  constexpr int64_t kAll = 512;
  Vast<float> gradient(kAll * kColumns), param(kAll * kColumns), row_moment(kAll), column_moment(kColumns);
  Vast<float> workspace(gimlet::adafactor_workspace(kAll, kColumns));
  Vast<Bfloat16> copy(kAll * kColumns);
  std::vector<float> gradient_end, param_end(kEnd * kTile), rows_end(kEnd), columns_end(kTile);
  std::vector<Bfloat16> copy_end(kEnd * kTile);
  for (int row = kEnd; row > 0; --row) {
    const auto numbers = random_numbers<float>(kTile);
    std::copy(numbers.begin(), numbers.end(), gradient.end(int64_t{row - 1} * kColumns + kTile));
    gradient_end.insert(gradient_end.end(), numbers.begin(), numbers.end());
  }
  auto workspace_end = room<float>(gimlet::adafactor_workspace(kEnd, kTile));
  // Moments of columns that are read, but computed in blocks that do not run.
  std::fill_n(column_moment.data(), 2 * kTile, 1.f);
  std::fill_n(column_moment.end(2 * kTile), kTile, 1.f);
  // The moments are sums of squares, of which the rest adds nothing. The divisors of both means cancel out.
  const gimlet::AdafactorRates rates{0.01f, 0, 1, 1};
  const gimlet::AdafactorRule rule{&rates, 1e-20f, false, 0, INFINITY, INFINITY};
  float squares = 0;
  gimlet::AdafactorMatrix call{};
  call.rule = rule;
  call.gradient_factor = call.copy_factor = 1;
  call.squares = &squares;
  call.mean_of_rows = true;
  const auto update = [&call](int64_t rows, int columns, auto& gradient, auto& param, auto& copy, auto& of_rows,
                              auto& of_columns, auto& workspace) {
    call.gradient = gradient.data();
    call.param = param.data();
    call.copy = copy.data();
    call.row_moment = of_rows.data();
    call.column_moment = of_columns.data();
    call.workspace = workspace.data();
    call.rows = rows;
    call.columns = columns;
    call.gradient_stride = call.copy_stride = columns;
    succeeds("adafactor", gimlet::adafactor_matrix(call, nullptr));
  };
  update(kAll, kColumns, gradient, param, copy, row_moment, column_moment, workspace);
  update(kEnd, kTile, gradient_end, param_end, copy_end, rows_end, columns_end, workspace_end);
  std::vector<double> found, copied;
  for (int row = kEnd; row > 0; --row) {
    const int64_t place = int64_t{row - 1} * kColumns + kTile;
    found.insert(found.end(), param.end(place), param.end(place) + kTile);
    for (int column = 0; column < kTile; ++column) copied.push_back(wide(copy.end(place)[column]));
  }
  compare("adafactor of the end", found, widened(param_end), 1e-5);
  compare("the copy of the end", copied, widened(copy_end), kTolerance<Bfloat16>);
}

}  // namespace

void check_large() {
  emulated::blocks_of_each_end = kLast;
  norms();
  gelus();
  losses();
  diagonals();
  casts();
  magnitudes();
  updates();
  emulated::blocks_of_each_end = INT64_MAX;
}
