// The library of matrix products, as `gimlet_set_products` chose it (`matmul.cpp`).

#pragma once

// Whether products of small bfloat16 matrices are faster in bfloat16 than in float32 on this CPU.
bool small_products_in_bfloat16();
