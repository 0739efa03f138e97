// Runs an exported network: example FOLDER [THREADS [RUNS [INPUT.bin:2,3,224,224 ...]]]
//
// Inputs are files of raw numbers, as they lie in memory, with their shape where it is not fixed; ones without
// them. Each output becomes a file output0.bin, output1.bin, ... in the working folder.
#include <algorithm>
#include <chrono>
#include <fstream>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

#include "relay_layout.hpp"

namespace {

struct Array {
  std::vector<char> bytes;
  std::vector<int64_t> shape;
};

// A whole number of at most 18 digits.
int64_t number(const std::string& what, const std::string& text) {
  if (text.empty() || text.size() > 18 || text.find_first_not_of("0123456789") != std::string::npos) {
    throw relay_layout::Error(what + ": expected a whole number from 0 on, got '" + text + "'");
  }
  return std::stoll(text);
}

Array array_of(const relay_layout::TensorInfo& info, const std::string& argument) {
  Array array;
  const size_t colon = argument.rfind(':');
  if (colon != std::string::npos) {
    std::istringstream sizes(argument.substr(colon + 1));
    for (std::string size; std::getline(sizes, size, ',');) array.shape.push_back(number(argument, size));
  } else {
    for (const relay_layout::Extent& extent : info.shape) array.shape.push_back(extent.size);
  }
  size_t count = relay_layout::bytes_of(info.dtype);
  for (int64_t size : array.shape) {
    if (size < 0) throw relay_layout::Error("input '" + info.name + "': give its shape, as in x.bin:2,3,224,224");
    count *= static_cast<size_t>(size);
  }
  const std::string path = argument.substr(0, colon);
  if (path.empty()) {
    array.bytes.assign(count, 0);
    return array;
  }
  std::ostringstream bytes;
  std::ifstream file(path, std::ios::binary);
  if (!file || (!(bytes << file.rdbuf()) && count > 0)) {
    throw relay_layout::Error(path + ": cannot be read, or is empty");
  }
  const std::string stored = bytes.str();
  array.bytes.assign(stored.begin(), stored.end());
  if (array.bytes.size() != count) {
    throw relay_layout::Error(path + ": holds " + std::to_string(array.bytes.size()) + " bytes, input '" + info.name +
                              "' takes " + std::to_string(count));
  }
  return array;
}

int run(int argc, char** argv) {
  if (argc < 2) throw relay_layout::Error("usage: example FOLDER [THREADS [RUNS [INPUT.bin:SHAPE ...]]]");
  const int64_t threads = argc > 2 ? number("THREADS", argv[2]) : 0;
  const int64_t runs = argc > 3 ? number("RUNS", argv[3]) : 10;
  if (threads > 65536) throw relay_layout::Error("THREADS: at most 65536");
  relay_layout::Network network(argv[1], static_cast<int>(threads));
  if (argc > static_cast<int>(network.inputs().size()) + 4) {
    throw relay_layout::Error("the network takes " + std::to_string(network.inputs().size()) + " inputs, and " +
                              std::to_string(argc - 4) + " are given");
  }
  std::vector<Array> arrays;
  std::vector<relay_layout::Input> inputs;
  for (size_t index = 0; index < network.inputs().size(); ++index) {
    const int argument = static_cast<int>(index) + 4;
    arrays.push_back(array_of(network.inputs()[index], argument < argc ? argv[argument] : ""));
  }
  for (const Array& array : arrays) inputs.push_back({array.bytes.data(), array.shape});
  const auto outputs = network.run(inputs);
  for (size_t index = 0; index < outputs.size(); ++index) {
    std::cout << "output '" << network.outputs()[index].name << "': " << network.outputs()[index].dtype << " [";
    const std::vector<int64_t> shape = outputs[index].shape();
    for (size_t axis = 0; axis < shape.size(); ++axis) std::cout << (axis == 0 ? "" : ", ") << shape[axis];
    std::cout << "]\n";
    const std::string path = "output" + std::to_string(index) + ".bin";
    std::ofstream file(path, std::ios::binary);
    file.write(outputs[index].data<char>(), static_cast<std::streamsize>(outputs[index].size_bytes()));
    file.close();
    if (!file) throw relay_layout::Error(path + ": cannot be written");
  }
  std::vector<double> times;
  for (int64_t call = 0; call < runs; ++call) {
    const auto start = std::chrono::steady_clock::now();
    network.run(inputs);
    times.push_back(std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count());
  }
  if (!times.empty()) {
    std::sort(times.begin(), times.end());
    std::cout << "median of " << runs << " runs: " << times[times.size() / 2] << " ms\n";
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::exception& error) {
    std::cerr << "error: " << error.what() << "\n";
    return 2;
  }
}
