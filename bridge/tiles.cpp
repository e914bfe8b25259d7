// Products of many bfloat16 rows with a kernel that was laid out once, where the CPU multiplies tiles of bfloat16 (AMX).
//
// Each thread takes some rows, which stay in its cache, through all tiles of the kernel. The sums of a tile are in
// float32 and in the cache when they are gated, added to the residual or only rounded.

#include <algorithm>
#include <cstdint>
#include <vector>

#include "factors.h"
#include "packed.h"

namespace {

// Rows at a time: with a tile and its sums they fill half of a core's second cache.
constexpr int64_t kTileRows = 128;
// Products are compiled for each number of rows, so that these come in few numbers.
constexpr int64_t kRowStep = 32;

using Narrow = c10::BFloat16;

// The inputs of some rows, and where their results begin.
struct TileRows {
  const Narrow* rows;
  int64_t count, offsets[kTileRows];
};

}  // namespace

GIMLET_CLONES void gimlet_convert_rows(const Product<Narrow>& product, int64_t first, int64_t count, Narrow* to) {
  convert_rows(product, first, count, to);
}

GIMLET_CLONES void gimlet_finish_tile(const Product<Narrow>& product, const TileRows& rows, int64_t index,
                                      const float* sums) {
  for (int64_t panel = 2 * index; panel < std::min(2 * index + 2, product.num_panels()); ++panel) {
    const PanelColumns columns(product, panel);
    const float* const from = sums + panel % 2 * kColumns;
    for (int64_t row = 0; row < rows.count; ++row) {
      const Floats both[2] = {read(from + row * kTileColumns), read(from + row * kTileColumns + kLanes)};
      finish(product, both, rows.offsets[row], columns);
    }
  }
}

namespace {

// `room` is memory for rows that are normalized, or are not a whole number of steps.
TileRows prepare(const Product<Narrow>& product, int64_t first, int64_t count, std::vector<Narrow>& room) {
  TileRows rows{product.inputs + first * product.in, count, {}};
  for (int64_t i = 0; i < count; ++i) rows.offsets[i] = product.offset_of_row(first + i);
  if (product.scale != nullptr || count % kRowStep != 0) {
    Narrow* const to = sized(room, kTileRows * product.in);
    gimlet_convert_rows(product, first, count, to);
    rows.rows = to;
  }
  return rows;
}

}  // namespace

void compute_by_tiles(const Product<Narrow>& product) {
  const int64_t tiles = quotient_up(product.num_panels(), 2);
  share_out_rows(product.rows, tiles, kTileRows, kRowStep, [&](const RowsByPanels& part) {
    thread_local std::vector<Narrow> room;
    thread_local std::vector<float> memory;
    float* const sums = sized(memory, kTileRows * kTileColumns);
    const TileRows rows = prepare(product, part.first, part.count, room);
    for (int64_t index = part.from; index < part.end; ++index) {
      const Narrow* const tile = product.panels + index * product.in * kTileColumns;
      at::native::cpublas::brgemm(rounded_up(part.count, kRowStep), kTileColumns, product.in, product.in, kTileColumns,
                                  kTileColumns, /*add_C=*/false, rows.rows, tile, sums, /*is_vnni=*/true);
      gimlet_finish_tile(product, rows, index, sums);
    }
    at::native::cpublas::brgemm_release();
  });
}
