// Adafactor's update (Shazeer & Stern 2018, arXiv:1804.04235; T5X's variant) of one parameter in float32, and of its
// copy in bfloat16.
//
// A matrix takes four launches: sums of squares, the moments, the size of the update, the update.
// The limits of the update are computed on the device before the last launch, so that the host does
// not wait. Blocks write partial sums, which are added up in a fixed order.

#include "common.cuh"

namespace gimlet {
namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / kWarp;
constexpr int kSize = Pack<float>::kSize;
constexpr int kPacks = 4;                         // of a lane in a row
constexpr int kTile = kWarp * kPacks * kSize;     // columns of a block
constexpr int kMostParts = 128;                   // blocks that share the rows of a tile
constexpr int kFewestRows = 32;                   // of a block, if there are so many
constexpr int kVectorThreads = 1024;

// The division of a matrix among blocks, and the starts of partial sums in the workspace.
struct Plan {
  int tiles, parts, moment_blocks;
  int64_t rows_per_part;
  int64_t row_sums;        // [tiles, rows]
  int64_t column_sums;     // [parts, columns]
  int64_t param_squares;   // [parts, tiles]
  int64_t update_squares;  // [parts, tiles]
  int64_t moment_sums;     // [moment_blocks]
  int64_t squares;         // [moment_blocks]: of the gradient
  int64_t end;

  Plan(int64_t rows, int columns) {
    tiles = (columns + kTile - 1) / kTile;
    rows_per_part = (rows + kMostParts - 1) / kMostParts;
    if (rows_per_part < kFewestRows) rows_per_part = kFewestRows;
    parts = static_cast<int>((rows + rows_per_part - 1) / rows_per_part);
    moment_blocks = static_cast<int>((rows + columns + kThreads - 1) / kThreads);
    row_sums = 0;
    column_sums = row_sums + tiles * rows;
    param_squares = column_sums + static_cast<int64_t>(parts) * columns;
    update_squares = param_squares + static_cast<int64_t>(parts) * tiles;
    moment_sums = update_squares + static_cast<int64_t>(parts) * tiles;
    squares = moment_sums + moment_blocks;
    end = squares + moment_blocks;
  }

  dim3 grid() const { return dim3(tiles, parts); }
};

__device__ int block_index() { return blockIdx.y * gridDim.x + blockIdx.x; }

// Unlike fmaxf and fminf these keep NaN.
__device__ float at_least(float value, float low) { return value < low ? low : value; }
__device__ float at_most(float value, float high) { return value > high ? high : value; }

// The sum of numbers in memory, known to all threads of the block.
__device__ float block_sum(const float* values, int count) {
  float sum = 0;
  for (int index = threadIdx.x; index < count; index += blockDim.x) sum += values[index];
  return block_reduce(sum, 0.f, Sum());
}

// Calls `body` with each row of the block's part that belongs to the warp.
template <typename Body>
__device__ void for_each_row(int64_t rows, const Plan& plan, Body body) {
  const int64_t first = blockIdx.y * plan.rows_per_part;
  const int64_t end = min(rows, first + plan.rows_per_part);
  for (int64_t row = first + threadIdx.x / kWarp; row < end; row += kWarps) body(row);
}

// The first column of the lane's pack of that number.
__device__ int pack_column(int pack) {
  return blockIdx.x * kTile + (pack * kWarp + static_cast<int>(threadIdx.x) % kWarp) * kSize;
}

template <typename T>
__device__ Pack<float> load_gradient(const AdafactorMatrix& call, int64_t row, int column) {
  const T* from = static_cast<const T*>(call.gradient) + row * call.gradient_stride + column;
  const auto pack = *reinterpret_cast<const Pack<T, kSize>*>(from);
  Pack<float> gradient;
#pragma unroll
  for (int i = 0; i < kSize; ++i) gradient.values[i] = wide(pack.values[i]) * call.gradient_factor;
  return gradient;
}

__device__ void store_copy(const AdafactorMatrix& call, int64_t row, int column, const Pack<float>& param) {
  Pack<__nv_bfloat16, kSize> pack;
#pragma unroll
  for (int i = 0; i < kSize; ++i) pack.values[i] = narrow<__nv_bfloat16>(param.values[i] * call.copy_factor);
  store(static_cast<__nv_bfloat16*>(call.copy) + row * call.copy_stride + column, pack);
}

// Sums of squared gradients over rows and over columns, and of squared parameters.
template <typename T>
__global__ void sum_squares(AdafactorMatrix call, Plan plan) {
  __shared__ float by_warp[kWarps][kTile];
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  float of_columns[kPacks][kSize] = {};
  float of_params = 0;
  for_each_row(call.rows, plan, [&](int64_t row) {
    float of_row = 0;
#pragma unroll
    for (int p = 0; p < kPacks; ++p) {
      const int column = pack_column(p);
      if (column >= call.columns) break;
      const Pack<float> gradient = load_gradient<T>(call, row, column);
#pragma unroll
      for (int i = 0; i < kSize; ++i) {
        const float square = gradient.values[i] * gradient.values[i];
        of_row += square;
        of_columns[p][i] += square;
      }
      if (!call.rule.by_parameter_scale) continue;
      const Pack<float> param = load(call.param + row * call.columns + column);
#pragma unroll
      for (int i = 0; i < kSize; ++i) of_params += param.values[i] * param.values[i];
    }
    for (int distance = kWarp / 2; distance > 0; distance /= 2) {
      of_row += __shfl_xor_sync(0xffffffffu, of_row, distance);
    }
    if (lane == 0) call.workspace[plan.row_sums + blockIdx.x * call.rows + row] = of_row;
  });
#pragma unroll
  for (int p = 0; p < kPacks; ++p) {
#pragma unroll
    for (int i = 0; i < kSize; ++i) by_warp[warp][(p * kWarp + lane) * kSize + i] = of_columns[p][i];
  }
  of_params = block_reduce(of_params, 0.f, Sum());
  if (threadIdx.x == 0) call.workspace[plan.param_squares + block_index()] = of_params;
  __syncthreads();
  float* sums = call.workspace + plan.column_sums;
  for (int index = threadIdx.x; index < kTile; index += kThreads) {
    const int column = blockIdx.x * kTile + index;
    if (column >= call.columns) break;
    float sum = 0;
#pragma unroll
    for (int w = 0; w < kWarps; ++w) sum += by_warp[w][index];
    sums[static_cast<int64_t>(blockIdx.y) * call.columns + column] = sum;
  }
}

// The sum of `count` numbers, `stride` apart.
__device__ float total(const float* sums, int count, int64_t stride) {
  float sum = 0;
#pragma unroll 4
  for (int index = 0; index < count; ++index) sum += sums[index * stride];
  return sum;
}

// One number of a moment, from its old value and a mean of squares.
__device__ float mixed(const AdafactorRule& rule, float* moment, float square) {
  *moment = rule.rates->decay * *moment + rule.rates->mixing * (square + rule.epsilon);
  return *moment;
}

// Both moments, and partial sums of the one that is divided by its mean, and of all squares.
__global__ void mix_moments(AdafactorMatrix call, Plan plan) {
  const int64_t index = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  const int64_t column = index - call.rows;
  float averaged = 0, squares = 0;
  if (index < call.rows) {
    squares = total(call.workspace + plan.row_sums + index, plan.tiles, call.rows);
    const float moment = mixed(call.rule, call.row_moment + index, squares / static_cast<float>(call.columns));
    if (call.mean_of_rows) averaged = moment;
  } else if (column < call.columns) {
    const float sum = total(call.workspace + plan.column_sums + column, plan.parts, call.columns);
    const float moment = mixed(call.rule, call.column_moment + column, sum / static_cast<float>(call.rows));
    if (!call.mean_of_rows) averaged = moment;
  }
  averaged = block_reduce(averaged, 0.f, Sum());
  squares = block_reduce(squares, 0.f, Sum());
  if (threadIdx.x == 0) {
    call.workspace[plan.moment_sums + blockIdx.x] = averaged;
    call.workspace[plan.squares + blockIdx.x] = squares;
  }
}

// The factors that convert gradients to an update.
struct Factors {
  float row_mean;
  float of_columns[kPacks][kSize];

  __device__ Factors(const AdafactorMatrix& call, const Plan& plan) {
    const float sum = block_sum(call.workspace + plan.moment_sums, plan.moment_blocks);
    const float count = call.mean_of_rows ? static_cast<float>(call.rows) : static_cast<float>(call.columns);
    row_mean = call.mean_of_rows ? sum / count : 1.f;
    const float column_mean = call.mean_of_rows ? 1.f : sum / count;
#pragma unroll
    for (int p = 0; p < kPacks; ++p) {
      const int column = pack_column(p);
      if (column >= call.columns) break;
      const Pack<float> moment = load(call.column_moment + column);
#pragma unroll
      for (int i = 0; i < kSize; ++i) of_columns[p][i] = rsqrtf(moment.values[i] / column_mean);
    }
  }

  __device__ float of_row(const AdafactorMatrix& call, int64_t row) const {
    return rsqrtf(call.row_moment[row] / row_mean);
  }
};

template <typename T>
__global__ void sum_update(AdafactorMatrix call, Plan plan) {
  const Factors factors(call, plan);
  float sum = 0;
  for_each_row(call.rows, plan, [&](int64_t row) {
    const float of_row = factors.of_row(call, row);
#pragma unroll
    for (int p = 0; p < kPacks; ++p) {
      const int column = pack_column(p);
      if (column >= call.columns) break;
      const Pack<float> gradient = load_gradient<T>(call, row, column);
#pragma unroll
      for (int i = 0; i < kSize; ++i) {
        const float update = gradient.values[i] * of_row * factors.of_columns[p][i];
        sum += update * update;
      }
    }
  });
  sum = block_reduce(sum, 0.f, Sum());
  if (threadIdx.x == 0) call.workspace[plan.update_squares + block_index()] = sum;
  if (!call.squares || block_index() > 0) return;
  const float squares = block_sum(call.workspace + plan.squares, plan.moment_blocks);
  if (threadIdx.x == 0) *call.squares = squares;
}

// The factor of an update, from sums of squares over `count` numbers.
__device__ float step_size(const AdafactorRule& rule, float param_squares, float update_squares, float count) {
  float size = rule.rates->learning_rate;
  if (rule.by_parameter_scale) {
    const float scale = at_least(sqrtf(param_squares / count), rule.least_scale);
    size *= at_most(scale, rule.greatest_scale);
  }
  return size / at_least(sqrtf(update_squares / count) / rule.threshold, 1.f);
}

template <typename T>
__global__ void apply_update(AdafactorMatrix call, Plan plan) {
  const Factors factors(call, plan);
  const int blocks = plan.tiles * plan.parts;
  const float param_squares = block_sum(call.workspace + plan.param_squares, blocks);
  const float update_squares = block_sum(call.workspace + plan.update_squares, blocks);
  const float count = static_cast<float>(call.rows) * static_cast<float>(call.columns);
  const float size = step_size(call.rule, param_squares, update_squares, count);
  const float kept = call.rule.rates->kept;
  for_each_row(call.rows, plan, [&](int64_t row) {
    const float of_row = factors.of_row(call, row);
#pragma unroll
    for (int p = 0; p < kPacks; ++p) {
      const int column = pack_column(p);
      if (column >= call.columns) break;
      const int64_t place = row * call.columns + column;
      const Pack<float> gradient = load_gradient<T>(call, row, column);
      Pack<float> param = load(call.param + place);
#pragma unroll
      for (int i = 0; i < kSize; ++i) {
        const float update = gradient.values[i] * of_row * factors.of_columns[p][i];
        param.values[i] = param.values[i] * kept - size * update;
      }
      store(call.param + place, param);
      if (call.copy) store_copy(call, row, column, param);
    }
  });
}

// A vector: all of it in one block, in which each thread handles the same numbers again.
__global__ void update_vector(AdafactorVector call) {
  const float kept = call.rule.rates->kept;
  float param_squares = 0, update_squares = 0, squares = 0;
  for (int index = threadIdx.x; index < call.count; index += kVectorThreads) {
    const float gradient = call.gradient[index], param = call.param[index];
    const float moment = mixed(call.rule, call.moment + index, gradient * gradient);
    const float update = gradient * rsqrtf(moment);
    squares += gradient * gradient;
    param_squares += param * param;
    update_squares += update * update;
  }
  param_squares = block_reduce(param_squares, 0.f, Sum());
  update_squares = block_reduce(update_squares, 0.f, Sum());
  squares = block_reduce(squares, 0.f, Sum());
  if (call.squares && threadIdx.x == 0) *call.squares = squares;
  const float count = static_cast<float>(call.count);
  const float size = step_size(call.rule, param_squares, update_squares, count);
  for (int index = threadIdx.x; index < call.count; index += kVectorThreads) {
    const float update = call.gradient[index] * rsqrtf(call.moment[index]);
    call.param[index] = call.param[index] * kept - size * update;
  }
}

}  // namespace

int64_t adafactor_workspace(int64_t rows, int columns) { return Plan(rows, columns).end; }

cudaError_t adafactor_matrix(const AdafactorMatrix& call, cudaStream_t stream) {
  const Plan plan(call.rows, call.columns);
  return with_type(call.gradient_dtype, [&](auto type) {
    using T = decltype(type);
    launch(sum_squares<T>, plan.grid(), kThreads, stream, call, plan);
    launch(mix_moments, plan.moment_blocks, kThreads, stream, call, plan);
    launch(sum_update<T>, plan.grid(), kThreads, stream, call, plan);
    launch(apply_update<T>, plan.grid(), kThreads, stream, call, plan);
  });
}

cudaError_t adafactor_vector(const AdafactorVector& call, cudaStream_t stream) {
  launch(update_vector, 1, kVectorThreads, stream, call);
  return cudaGetLastError();
}

}  // namespace gimlet
