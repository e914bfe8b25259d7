// PyTorch ships the headers of c10d without those of Gloo; ProcessGroupGloo.hpp needs no more of this one.

#pragma once

namespace gloo {
namespace transport {
class Device;
class UnboundBuffer {
 public:
  virtual ~UnboundBuffer();
};
}  // namespace transport
}  // namespace gloo
