// Prints the engine that cuDNN would choose on an H200 for every attention of the published models, and fails if it has none.
// Where it has one, a machine without a GPU ends at loading its kernel, for want of libcuda.

#include "attention_graph.h"

#include <cudnn_frontend.h>

#include <cstdio>
#include <fstream>
#include <iterator>
#include <regex>
#include <string>

namespace cudnn_frontend {
void* cudnn_dlhandle = nullptr;
}

using namespace gimlet::cudnn;
namespace fe = cudnn_frontend;

namespace {

// Heads, their width, and lengths of queries and keys.
struct Model {
  const char* name;
  int64_t heads, width, inputs, targets;
};

constexpr Model kModels[] = {
    {"T5 1.1 small", 6, 64, 512, 114},   {"base", 12, 64, 512, 128},       {"large", 16, 64, 512, 62},
    {"xl", 32, 64, 512, 114},            {"xxl", 64, 64, 1024, 256},       {"T5 3B", 32, 128, 512, 114},
    {"T5 11B", 128, 128, 512, 114},      {"ByT5", 12, 64, 1024, 189},      {"long rows", 12, 64, 4096, 910},
    {"of the quickstart", 4, 32, 96, 24},
};

// One attention: who attends to whom.
struct Kind {
  const char* name;
  bool has_bias, is_causal;
};

constexpr Kind kKinds[] = {{"encoder", true, false}, {"decoder", true, true}, {"encoding", false, false}};

Attention described(const Model& model, const Kind& kind, bool is_ragged, bool is_backward) {
  const bool is_own = kind.has_bias;
  Attention made;
  made.is_backward = is_backward;
  made.keeps_normalizers = !is_backward;
  made.is_causal = kind.is_causal;
  made.is_ragged = is_ragged;
  made.bias_needs_gradient = kind.has_bias && is_backward;
  made.batch = is_ragged ? 96 : 32;
  made.heads = model.heads;
  made.width = model.width;
  made.queries = kind.is_causal || !is_own ? model.targets : model.inputs;
  made.keys = kind.is_causal ? model.targets : model.inputs;
  if (is_ragged) {
    made.all_queries = 32 * made.queries;
    made.all_keys = 32 * made.keys;
  }
  const int64_t heads = model.heads * model.width;
  // Parts of one tensor lie side by side for each position.
  const auto lie = [&](int64_t length, int64_t parts) {
    return Strides{length * parts * heads, model.width, parts * heads};
  };
  const auto queries = lie(made.queries, is_own ? 3 : 1), keys = lie(made.keys, is_own ? 3 : 2);
  made.strides = {{kQuery, queries}, {kKey, keys}, {kValue, keys}, {kOut, lie(made.queries, 1)}};
  if (is_backward) {
    made.strides[kOutGradient] = made.strides[kOut];
    made.strides[kQueryGradient] = queries;
    made.strides[kKeyGradient] = made.strides[kValueGradient] = lie(made.keys, is_own ? 3 : 1);
  }
  if (kind.has_bias) made.strides[kBias] = {model.heads * made.queries * made.keys, made.queries * made.keys, made.keys};
  return made;
}

// The number of the engine, or cuDNN's reason.
std::string engine_of(const Attention& attention, const std::shared_ptr<fe::DeviceProperties>& device) {
  std::string said;
  try {
    const auto graph = attention_graph(attention);
    graph->set_device_properties(device);
    said = planned(*graph, nullptr);
  } catch (const std::exception& error) {
    said = error.what();
  }
  std::smatch found;
  const bool ends_at_loading = said.find("libcuda") != std::string::npos;
  if (ends_at_loading && std::regex_search(said, found, std::regex("\"engineId\":(\\d+)"))) return found[1];
  return "none: " + said;
}

}  // namespace

int main(int, char** arguments) {
  fe::cudnn_dlhandle = dlopen("libcudnn.so.9", RTLD_NOW);
  if (!fe::cudnn_dlhandle) return std::fprintf(stderr, "%s\n", dlerror()), 1;
  std::ifstream file(arguments[1]);
  std::vector<uint8_t> description((std::istreambuf_iterator<char>(file)), {});
  description.push_back(0);
  const auto device = std::make_shared<fe::DeviceProperties>();
  auto status = device->deserialize(description);
  if (status.is_bad()) return std::fprintf(stderr, "%s\n", status.get_message().c_str()), 1;
  bool all = true;
  for (const Model& model : kModels) {
    for (const Kind& kind : kKinds) {
      std::printf("%s, %s:", model.name, kind.name);
      for (const bool is_ragged : {false, true}) {
        for (const bool is_backward : {false, true}) {
          const auto engine = engine_of(described(model, kind, is_ragged, is_backward), device);
          all &= engine.find("none") == std::string::npos;
          std::printf(" %s %s %s", is_ragged ? "ragged" : "whole", is_backward ? "backward" : "forward", engine.c_str());
        }
      }
      std::printf("\n");
    }
  }
  return all ? 0 : 1;
}
