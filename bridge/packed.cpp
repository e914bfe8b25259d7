// Matrices in oneDNN's own layout, for products with few rows, for `src/nn/packed.rs`.

#include "guarded.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/List.h>
#include <ATen/Tensor.h>

#include <cstdint>
#include <optional>
#include <string_view>

namespace {

at::Tensor pack(const at::Tensor& transposed, int64_t rows) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("mkldnn::_reorder_linear_weight", "")
                             .typed<at::Tensor(const at::Tensor&, std::optional<int64_t>)>();
  return op.call(transposed, rows);
}

at::Tensor product(const at::Tensor& inputs, const at::Tensor& packed) {
  using Scalars = c10::List<std::optional<at::Scalar>>;
  using Text = std::optional<std::string_view>;
  using Product = at::Tensor(const at::Tensor&, const at::Tensor&, const std::optional<at::Tensor>&,
                             std::string_view, Scalars, Text);
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("mkldnn::_linear_pointwise", "")
                             .typed<Product>();
  return op.call(inputs, packed, std::nullopt, "none", Scalars(), std::nullopt);
}

}  // namespace

extern "C" {

// `packed` becomes the matrix [in, out], given as its transpose [out, in], as products with `rows` rows
// read it best. Null, or a message to be freed with `free`.
char* gimlet_pack_kernel(const at::Tensor* transposed, int64_t rows, at::Tensor* packed) noexcept {
  return guarded([&] { *packed = pack(*transposed, rows); });
}

// `result` becomes `inputs` [rows, in] times a packed matrix. Null, or a message to be freed with `free`.
char* gimlet_packed_product(const at::Tensor* inputs, const at::Tensor* packed,
                            at::Tensor* result) noexcept {
  return guarded([&] { *result = product(*inputs, *packed); });
}

}  // extern "C"
