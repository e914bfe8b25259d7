// PyTorch ships the headers of c10d without those of Gloo; ProcessGroupGloo.hpp needs no more of this one.

#pragma once

#include <chrono>

namespace gloo {
class Context {
 public:
  void setTimeout(std::chrono::milliseconds timeout);
};
}  // namespace gloo
