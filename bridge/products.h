// The library of matrix products, as `gimlet_set_products` chose it (`matmul.cpp`).

#pragma once

#include <c10/core/ScalarType.h>

// Whether products of small bfloat16 matrices are faster in bfloat16 than in float32 on this CPU.
bool small_products_in_bfloat16();

// The format in which an attention of float32 or bfloat16 is computed: bfloat16 is widened where its products are no
// faster.
at::ScalarType attention_format(at::ScalarType of);
