// Sums over diagonals.

#include "checks.h"

namespace {

struct Shape {
  int64_t batch;
  int heads, queries, keys, parts;
  std::string name;
};

template <typename T>
Results results(const std::vector<T>& values, const Shape& shape) {
  const int64_t distances = shape.queries + shape.keys - 1, of_part = shape.heads * distances;
  Loose sums(shape.parts * of_part);
  gimlet::DiagonalSums call{};
  call.dtype = kDtype<T>;
  call.values = values.data();
  call.sums = sums.data();
  call.batch = shape.batch;
  call.heads = shape.heads;
  call.queries = shape.queries;
  call.keys = shape.keys;
  call.parts = shape.parts;
  check(shape.name, gimlet::diagonal_sums(call, nullptr) == cudaSuccess);
  std::vector<double> all(of_part);
  for (int64_t index = 0; index < shape.parts * of_part; ++index) all[index % of_part] += sums[index];
  return {all};
}

template <typename T>
void check_shape(const Shape& shape) {
  const int64_t distances = shape.queries + shape.keys - 1;
  const auto values = random_numbers<T>(shape.batch * shape.heads * shape.queries * shape.keys);
  std::vector<double> expected(shape.heads * distances);
  const T* value = values.data();
  for (int64_t matrix = 0; matrix < shape.batch * shape.heads; ++matrix) {
    for (int64_t query = 0; query < shape.queries; ++query) {
      for (int64_t key = 0; key < shape.keys; ++key) {
        expected[matrix % shape.heads * distances + key - query + shape.queries - 1] += wide(*value++);
      }
    }
  }
  compare(shape.name, in_every_order(shape.name, [&] { return results(values, shape); }), {expected}, 1e-5);
}

}  // namespace

void check_relative_position() {
  const auto check_both = [](int64_t batch, int heads, int queries, int keys, int parts) {
    const std::string name =
        "diagonal_sums of " + std::to_string(queries) + " queries and " + std::to_string(keys) + " keys";
    const Shape shape{batch, heads, queries, keys, parts, name};
    check_shape<float>(shape);
    check_shape<__nv_bfloat16>(shape);
  };
  check_both(1, 1, 1, 1, 1);
  check_both(2, 3, 1, 70, 4);
  check_both(3, 2, 70, 1, 4);
  check_both(3, 2, 130, 7, 3);
  check_both(2, 2, 64, 65, 16);
  check_both(2, 3, 129, 128, 1);
}
