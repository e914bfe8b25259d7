// Converts exceptions of C++ to messages, since none may leave the bridge.

#pragma once

#include <cstring>
#include <exception>

// Runs `body`. Null, or a message to be freed with `free`.
template <typename Body>
char* guarded(const Body& body) noexcept {
  try {
    body();
    return nullptr;
  } catch (const std::exception& error) {
    return strdup(error.what());
  } catch (...) {
    return strdup("an unknown C++ exception");
  }
}
