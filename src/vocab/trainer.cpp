// SentencePiece's trainer as a plain C function for `src/vocab/train.rs`.
//
// `sentencepiece-sys` builds the trainer into libsentencepiece_train.a and provides neither its
// headers nor the library, so the few called functions are declared here as in SentencePiece 0.2.1.
// No exception leaves this file, and no ownership crosses it.

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <exception>
#include <memory>
#include <string>
#include <unordered_map>

namespace sentencepiece {
namespace util {
class Status {
 public:
  Status();
  ~Status();
  Status(const Status&);
  const char* error_message() const;
  bool ok() const { return rep_ == nullptr; }

 private:
  struct Rep;
  std::unique_ptr<Rep> rep_;
};
}  // namespace util

class SentenceIterator;

class SentencePieceTrainer {
 public:
  static util::Status Train(const std::unordered_map<std::string, std::string>& options,
                            SentenceIterator* sentences, std::string* model);
};
}  // namespace sentencepiece

extern "C" {

// Trains with `count` options. On failure returns false and writes the reason to `message`, cut to
// `capacity` bytes.
bool gimlet_train_sentencepiece(const char* const* names, const char* const* values, size_t count,
                                char* message, size_t capacity) noexcept {
  std::string trouble;
  try {
    std::unordered_map<std::string, std::string> options;
    for (size_t i = 0; i < count; ++i) options[names[i]] = values[i];
    const auto status = sentencepiece::SentencePieceTrainer::Train(options, nullptr, nullptr);
    if (status.ok()) return true;
    trouble = status.error_message();
  } catch (const std::exception& error) {
    trouble = error.what();
  } catch (...) {
    trouble = "an unknown C++ exception";
  }
  const size_t length = std::min(trouble.size(), capacity - 1);
  std::memcpy(message, trouble.data(), length);
  message[length] = '\0';
  return false;
}
}
