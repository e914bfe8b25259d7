// Products of many rows with a kernel that was laid out once, by oneDNN's kernels for blocks.
//
// Each thread takes some rows, which stay in its cache, through all tiles of the kernel. The sums of a tile are in
// float32 and in the cache when they are gated, added to the residual or only rounded. Bfloat16 tiles whose rows lie in
// pairs are multiplied as they are, by CPUs with AMX, and others widened first.

#include <algorithm>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "factors.h"
#include "packed.h"

namespace {

using Narrow = c10::BFloat16;

// Most bytes of a block of rows: with a tile and its sums they fill half of a core's second cache.
constexpr int64_t kMostBytes = 1 << 19;
// Products are compiled for each number of rows, so that these come in few numbers.
constexpr int64_t kRowStep = 32;

// Some rows of the inputs, and the tiles by which a thread multiplies them.
struct Part {
  int64_t first, count, from, end;
};

// Calls `body` for each part of a product: about `most` rows by all tiles, or if there are few rows by some of the tiles.
template <typename Body>
void share_out_parts(int64_t rows, int64_t tiles, int64_t most, const Body& body) {
  const int64_t blocks = quotient_up(rows, most);
  const int64_t count = rounded_up(quotient_up(rows, blocks), kRowStep);
  const int64_t parts = std::min(tiles, quotient_up(2 * threads_awake(), blocks));
  share_out_awake(blocks * parts, /*grain=*/1, [&](int64_t task) {
    const int64_t first = task / parts * count, part = task % parts;
    body(Part{first, std::min(count, rows - first), part * tiles / parts, (part + 1) * tiles / parts});
  });
}

template <typename T>
GIMLET_INLINE void finish_tile(const Product<T>& product, const int64_t* offsets, int64_t rows, int64_t index,
                               const float* sums) {
  for (int64_t panel = 2 * index; panel < std::min(2 * index + 2, product.num_panels()); ++panel) {
    const PanelColumns columns(product, panel);
    const float* const from = sums + panel % 2 * kColumns;
    for (int64_t row = 0; row < rows; ++row) {
      const Floats both[2] = {read(from + row * kTileColumns), read(from + row * kTileColumns + kLanes)};
      finish(product, both, offsets[row], columns);
    }
  }
}

}  // namespace

GIMLET_CLONES void gimlet_finish_tile(const Product<float>& product, const int64_t* offsets, int64_t rows, int64_t index,
                                      const float* sums) {
  finish_tile(product, offsets, rows, index, sums);
}

GIMLET_CLONES void gimlet_finish_tile(const Product<Narrow>& product, const int64_t* offsets, int64_t rows, int64_t index,
                                      const float* sums) {
  finish_tile(product, offsets, rows, index, sums);
}

GIMLET_CLONES void gimlet_widen_tile(const Narrow* from, int64_t count, float* to) {
  for (int64_t i = 0; i < count; i += kLanes) write(read(from + i), to + i);
}

namespace {

template <typename T, typename C>
const C* tile_of(const Product<T>& product, int64_t index, std::vector<C>& room) {
  const int64_t count = product.in * kTileColumns;
  const T* const tile = product.panels + index * count;
  if constexpr (std::is_same_v<T, C>) {
    return tile;
  } else {
    C* const wide = sized(room, count);
    gimlet_widen_tile(tile, count, wide);
    return wide;
  }
}

// `C` is the format in which numbers are multiplied.
template <typename T, typename C>
void compute(const Product<T>& product) {
  constexpr bool pairs = std::is_same_v<C, Narrow>;
  const int64_t fitting = kMostBytes / (product.in * static_cast<int64_t>(sizeof(C))) / kRowStep * kRowStep;
  const int64_t most = std::clamp(fitting, kRowStep, kMostRows);
  share_out_parts(product.rows, quotient_up(product.num_panels(), 2), most, [&](const Part& part) {
    thread_local std::vector<C> room, wide;
    thread_local std::vector<float> memory;
    float* const sums = sized(memory, kMostRows * kTileColumns);
    const Block<C> rows = prepare(product, part.first, part.count, kRowStep, room);
    for (int64_t index = part.from; index < part.end; ++index) {
      const C* const tile = tile_of(product, index, wide);
      at::native::cpublas::brgemm(rounded_up(part.count, kRowStep), kTileColumns, product.in, product.in, kTileColumns,
                                  kTileColumns, /*add_C=*/false, rows.rows, tile, sums, pairs);
      gimlet_finish_tile(product, rows.offsets, part.count, index, sums);
    }
    at::native::cpublas::brgemm_release(pairs);
  });
}

}  // namespace

void compute_by_tiles(const Product<float>& product, bool) { compute<float, float>(product); }

void compute_by_tiles(const Product<Narrow>& product, bool pairs) {
  pairs ? compute<Narrow, Narrow>(product) : compute<Narrow, float>(product);
}
