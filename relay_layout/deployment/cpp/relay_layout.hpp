// Runs a network that `relay-layout export` wrote, without Python. C++17, Linux.
//
//   relay_layout::Network network("folder", /*threads=*/2);
//   std::vector<float> image(1 * 3 * 224 * 224);
//   auto outputs = network.run({{image.data(), {1, 3, 224, 224}}});
//   const float* scores = outputs[0].data<float>();
//
// Shapes are those that tensors have in memory: {1, 224, 224, 3} for an input that lies in NHWC. What is wrong
// with a folder, this machine or an input is a relay_layout::Error of one line.
#pragma once

#include <dlpack/dlpack.h>
#include <fcntl.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <tvm/ffi/container/array.h>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/extra/module.h>
#include <tvm/ffi/function.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <iomanip>
#include <iterator>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace relay_layout {

class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// One dimension: a size, or a name that stands for any size between two bounds.
struct Extent {
  int64_t size = -1;
  std::string name;
  int64_t least = 0;
  int64_t most = INT64_MAX;

  std::string text() const { return name.empty() ? std::to_string(size) : name; }
};

// What goes in or comes out: dimensions as they lie in memory, in the order that `layout` names.
struct TensorInfo {
  std::string name;
  std::string dtype;
  std::string layout;
  std::vector<Extent> shape;
  // real = scale * (integer - zero point), of one pair or one for each place of a dimension; empty for floats.
  std::vector<double> scales;
  std::vector<int64_t> zero_points;
};

// Bytes of one number of a dtype.
inline size_t bytes_of(const std::string& dtype) {
  const DLDataType kind = tvm::ffi::StringToDLDataType(dtype);
  return static_cast<size_t>(kind.bits * kind.lanes + 7) / 8;
}

// An input: memory of the caller's, which the call reads, and its shape.
struct Input {
  const void* data;
  std::vector<int64_t> shape;
};

// An output, in memory of the network's that stays as it is until the next call.
class Output {
 public:
  explicit Output(tvm::ffi::Tensor tensor) : tensor_(std::move(tensor)) {}

  template <typename T>
  const T* data() const {
    return static_cast<const T*>(bytes());
  }
  std::vector<int64_t> shape() const { return {tensor_.shape().begin(), tensor_.shape().end()}; }
  size_t size_bytes() const { return tvm::ffi::GetDataSize(*tensor_.GetDLTensorPtr()); }

 private:
  const void* bytes() const { return static_cast<const char*>(tensor_.data_ptr()) + tensor_.byte_offset(); }

  tvm::ffi::Tensor tensor_;
};

namespace detail {

// A step of a condition in postfix order: a number, the size of an input in memory, or an operation.
struct Step {
  std::string operation;
  double number = 0;
  size_t input = 0;
  size_t axis = 0;
};

struct Condition {
  std::string text;
  std::vector<Step> steps;
};

struct Weight {
  std::string dtype;
  std::vector<int64_t> shape;
  size_t offset = 0;
};

// A feature of a processor: flags of /proc/cpuinfo, by any of which it is there, or a bit of an auxiliary vector.
struct Feature {
  std::string name;
  std::vector<std::string> flags;
  unsigned long word = 0;
  unsigned bit = 0;
};

inline tvm::ffi::Tensor tensor_over(const void* data, const std::vector<int64_t>& shape, DLDataType dtype) {
  struct Managed {
    DLManagedTensor tensor;
    std::vector<int64_t> shape;
  };
  auto* managed = new Managed{{}, shape};
  DLTensor& view = managed->tensor.dl_tensor;
  view.data = const_cast<void*>(data);
  view.device = DLDevice{kDLCPU, 0};
  view.ndim = static_cast<int32_t>(shape.size());
  view.dtype = dtype;
  view.shape = managed->shape.data();
  managed->tensor.manager_ctx = managed;
  managed->tensor.deleter = [](DLManagedTensor* self) { delete static_cast<Managed*>(self->manager_ctx); };
  return tvm::ffi::Tensor::FromDLPack(&managed->tensor);
}

// Words as /proc/cpuinfo and LLVM write them, without the signs in which they differ.
inline std::string plain_word(std::string word) {
  word.erase(std::remove_if(word.begin(), word.end(), [](char c) { return c == '_' || c == '.' || c == '-'; }),
             word.end());
  return word;
}

inline std::set<std::string> processor_flags() {
  std::ifstream listing("/proc/cpuinfo");
  std::set<std::string> found;
  for (std::string line; std::getline(listing, line);) {
    const size_t colon = line.find(':');
    const std::string field = line.substr(0, line.find_last_not_of(" \t", colon - 1) + 1);
    if (colon == std::string::npos || field != "flags") continue;
    std::istringstream words(line.substr(colon + 1));
    for (std::string word; words >> word;) found.insert(plain_word(word));
    break;
  }
  return found;
}

inline double applied(const std::string& operation, std::vector<double>& values) {
  const double right = values.back();
  values.pop_back();
  if (operation == "negative") return -right;
  if (operation == "not") return right == 0;
  if (operation == "float") return right;
  if (operation == "ceil") return std::ceil(right);
  if (operation == "floor") return std::floor(right);
  if (operation == "trunc") return std::trunc(right);
  const double left = values.back();
  values.pop_back();
  if (operation == "+") return left + right;
  if (operation == "-") return left - right;
  if (operation == "*") return left * right;
  if (operation == "/") return left / right;
  if (operation == "//") return std::floor(left / right);
  if (operation == "%") return left - std::floor(left / right) * right;
  if (operation == "==") return left == right;
  if (operation == "!=") return left != right;
  if (operation == "<") return left < right;
  if (operation == "<=") return left <= right;
  if (operation == ">") return left > right;
  if (operation == ">=") return left >= right;
  if (operation == "and") return left != 0 && right != 0;
  if (operation == "or") return left != 0 || right != 0;
  if (operation == "max") return std::max(left, right);
  if (operation == "min") return std::min(left, right);
  throw Error("network.txt: operation '" + operation + "' of a condition is not known");
}

// Whether the last line of a text is the sum of what is above it: FNV-1a of 64 bits.
inline bool is_sealed(const std::string& text) {
  const size_t above = text.rfind("\nsum ") + 1;
  uint64_t sum = 0xcbf29ce484222325;
  for (size_t place = 0; place < above; ++place) {
    sum = (sum ^ static_cast<unsigned char>(text[place])) * 0x100000001b3;
  }
  std::ostringstream line;
  line << "sum " << std::hex << std::setw(16) << std::setfill('0') << sum << "\n";
  return text.compare(above, std::string::npos, line.str()) == 0;
}

// A file in memory, read as it is needed and never written.
class Mapping {
 public:
  explicit Mapping(const std::string& path) {
    const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    struct stat status {};
    if (file < 0 || fstat(file, &status) != 0) {
      if (file >= 0) close(file);
      throw Error(path + ": cannot be read; export the network again");
    }
    size_ = static_cast<size_t>(status.st_size);
    if (size_ > 0) address_ = mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0);
    close(file);
    if (address_ == MAP_FAILED) throw Error(path + ": cannot be mapped into memory");
  }
  ~Mapping() {
    if (size_ > 0 && address_ != MAP_FAILED) munmap(address_, size_);
  }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  const char* data() const { return static_cast<const char*>(address_); }

 private:
  void* address_ = nullptr;
  size_t size_ = 0;
};

}  // namespace detail

// A loaded network. Calls from several threads take turns.
class Network {
 public:
  // `threads` is how many a call uses, all cores for 0.
  explicit Network(const std::string& folder, int threads = 0)
      : threads_(threads > 0 ? threads : std::max(1, static_cast<int>(std::thread::hardware_concurrency()))) {
    read(folder);
    check_machine();
    // The pool's size is fixed when it is first used.
    setenv("TVM_NUM_THREADS", std::to_string(threads_).c_str(), 0);
    module_ = tvm::ffi::Module::LoadFromFile(library_path_);
    use_threads();
    machine_ = function(module_.value(), "vm_load_executable")().cast<tvm::ffi::Module>();
    constexpr int kPooledAllocator = 2;
    function(machine_.value(), "vm_initialization")(static_cast<int>(kDLCPU), 0, kPooledAllocator);
    bind();
  }

  const std::vector<TensorInfo>& inputs() const { return inputs_; }
  const std::vector<TensorInfo>& outputs() const { return outputs_; }

  // Outputs in the order of `outputs()` for inputs in the order of `inputs()`.
  std::vector<Output> run(const std::vector<Input>& given) {
    check(given);
    std::vector<tvm::ffi::AnyView> arguments;
    std::vector<tvm::ffi::Tensor> tensors;
    for (size_t index = 0; index < given.size(); ++index) {
      const DLDataType dtype = tvm::ffi::StringToDLDataType(inputs_[index].dtype);
      tensors.push_back(detail::tensor_over(given[index].data, given[index].shape, dtype));
    }
    arguments.assign(tensors.begin(), tensors.end());
    arguments.insert(arguments.end(), destinations_.begin(), destinations_.end());
    std::lock_guard<std::mutex> turn(lock_);
    // What is kept is of use for a call of the same sizes, and sizes may differ in every call.
    if (++calls_ % 8 == 0) tvm::ffi::Function::GetGlobalRequired("vm.builtin.memory_manager.clear")();
    const tvm::ffi::Any found = call(entry_, arguments);
    std::vector<Output> results;
    if (auto single = found.as<tvm::ffi::Tensor>()) {
      results.emplace_back(*single);
    } else {
      for (const tvm::ffi::Tensor& tensor : found.cast<tvm::ffi::Array<tvm::ffi::Tensor>>()) {
        results.emplace_back(tensor);
      }
    }
    return results;
  }

 private:
  static tvm::ffi::Function function(const tvm::ffi::Module& module, const char* name) {
    auto found = module->GetFunction(name);
    if (!found.has_value()) throw Error(std::string("network.so: has no function '") + name + "'");
    return found.value();
  }

  static tvm::ffi::Any call(const tvm::ffi::Function& function, const std::vector<tvm::ffi::AnyView>& arguments) {
    tvm::ffi::Any result;
    try {
      function.CallPacked(arguments.data(), static_cast<int32_t>(arguments.size()), &result);
    } catch (const tvm::ffi::Error& error) {
      throw Error("the network failed: " + error.message());
    }
    return result;
  }

  void read(const std::string& folder) {
    const std::string path = folder + "/network.txt";
    std::stringstream file;
    file << std::ifstream(path, std::ios::binary).rdbuf();
    const std::string text = file.str();
    std::string line, word;
    int version = 0;
    if (!std::getline(file, line)) throw Error(path + ": cannot be read; export the network again");
    std::istringstream head(line);
    if (!(head >> word >> version) || word != "relay-layout-network" || version != 3) {
      throw Error(path + ": is of another version; export the network again and build with its header");
    }
    if (!detail::is_sealed(text)) {
      throw Error(path + ": is damaged or ends early; copy it again or export the network again");
    }
    while (std::getline(file, line)) {
      std::istringstream words(line);
      words >> word;
      if (word == "machine") {
        words >> std::quoted(target_) >> machine_name_;
      } else if (word == "flags") {
        detail::Feature feature;
        words >> feature.name;
        for (std::string name; words >> name;) feature.flags.push_back(detail::plain_word(name));
        features_.push_back(feature);
      } else if (word == "capability") {
        detail::Feature feature;
        words >> feature.name >> feature.word >> feature.bit;
        features_.push_back(feature);
      } else if (word == "input" || word == "output") {
        (word == "input" ? inputs_ : outputs_).push_back(read_tensor(words));
      } else if (word == "condition") {
        conditions_.push_back(read_condition(words));
      } else if (word == "weight") {
        detail::Weight weight;
        size_t rank = 0;
        words >> weight.dtype >> weight.offset >> rank;
        weight.shape.resize(std::min<size_t>(rank, 64));
        for (int64_t& size : weight.shape) words >> size;
        weights_.push_back(weight);
      } else if (word == "file") {
        read_file(folder, words);
      }
      if (words.fail() && word != "flags" && word != "condition") throw Error(path + ": damaged: " + line);
    }
  }

  // A library that was copied in part would end the program when it is used.
  void read_file(const std::string& folder, std::istream& words) {
    std::string kind, name;
    off_t size = 0;
    struct stat status {};
    if (!(words >> kind >> name >> size)) return;
    const std::string path = folder + "/" + name;
    if (stat(path.c_str(), &status) != 0) throw Error(path + ": cannot be read; export the network again");
    if (status.st_size != size) {
      throw Error(path + ": has " + std::to_string(status.st_size) + " bytes, and had " + std::to_string(size) +
                  " when it was exported; copy or export it again");
    }
    if (kind == "library") {
      library_path_ = path;
    } else {
      weights_file_.emplace(path);
    }
  }

  static TensorInfo read_tensor(std::istream& words) {
    TensorInfo info;
    size_t rank = 0, pairs = 0;
    words >> std::quoted(info.name) >> info.dtype >> std::quoted(info.layout) >> rank;
    for (size_t axis = 0; axis < std::min<size_t>(rank, 64); ++axis) {
      Extent extent;
      words >> std::quoted(extent.name) >> extent.least >> extent.most;
      if (extent.name.empty()) extent.size = extent.least;
      info.shape.push_back(extent);
    }
    words >> pairs;
    for (size_t pair = 0; pair < pairs && words; ++pair) {
      words >> info.scales.emplace_back() >> info.zero_points.emplace_back();
    }
    return info;
  }

  static detail::Condition read_condition(std::istream& words) {
    detail::Condition condition;
    words >> std::quoted(condition.text);
    for (std::string word; words >> word;) {
      detail::Step step;
      if (word == "size") {
        words >> step.input >> step.axis;
      } else if (word == "number") {
        words >> step.number;
      }
      step.operation = word;
      condition.steps.push_back(step);
    }
    return condition;
  }

  void check_machine() const {
    utsname here{};
    uname(&here);
    if (machine_name_ != here.machine) {
      throw Error("the network was built for " + machine_name_ + ", this machine is " + here.machine);
    }
    const std::set<std::string> flags = detail::processor_flags();
    for (const detail::Feature& feature : features_) {
      const bool there =
          feature.flags.empty()
              ? (getauxval(feature.word) >> feature.bit & 1) != 0
              : flags.empty() || std::any_of(feature.flags.begin(), feature.flags.end(),
                                             [&](const std::string& flag) { return flags.count(flag) > 0; });
      if (!there) {
        throw Error("the network was built for " + target_ + " and needs the CPU feature " + feature.name +
                    ", which this machine lacks");
      }
    }
  }

  void use_threads() const {
    constexpr int kFastestCoresFirst = 1;
    if (auto own = module_.value()->GetFunction("SET_THREADS_NAME", true)) {
      own.value()(threads_);
    } else {
      tvm::ffi::Function::GetGlobalRequired("runtime.config_threadpool")(kFastestCoresFirst, threads_);
    }
  }

  std::vector<tvm::ffi::Any> made_by(const char* name) const {
    const tvm::ffi::Any tensors = function(machine_.value(), name)();
    const auto array = tensors.cast<tvm::ffi::Array<tvm::ffi::Any>>();
    return {array.begin(), array.end()};
  }

  void bind() {
    destinations_ = made_by("main_destinations");
    std::vector<tvm::ffi::Any> kept;
    for (const detail::Weight& weight : weights_) {
      const DLDataType dtype = tvm::ffi::StringToDLDataType(weight.dtype);
      kept.emplace_back(detail::tensor_over(weights_file_->data() + weight.offset, weight.shape, dtype));
    }
    for (const tvm::ffi::Any& tensor : made_by("main_workspace")) kept.push_back(tensor);
    std::vector<tvm::ffi::AnyView> arguments = {"main", "bound_main", 1};
    arguments.insert(arguments.end(), kept.begin(), kept.end());
    call(function(machine_.value(), "save_function"), arguments);
    entry_ = function(machine_.value(), "bound_main");
  }

  void check(const std::vector<Input>& given) const {
    if (given.size() != inputs_.size()) {
      throw Error(std::to_string(given.size()) + " inputs are given, the network takes " +
                  std::to_string(inputs_.size()));
    }
    std::map<std::string, int64_t> sizes;
    for (size_t index = 0; index < given.size(); ++index) check_input(inputs_[index], given[index], sizes);
    for (const detail::Condition& condition : conditions_) {
      std::vector<double> values;
      for (const detail::Step& step : condition.steps) {
        if (step.operation == "size") {
          values.push_back(static_cast<double>(given.at(step.input).shape.at(step.axis)));
        } else {
          values.push_back(step.operation == "number" ? step.number : detail::applied(step.operation, values));
        }
      }
      if (values.empty() || values.back() == 0) {
        throw Error("the model was exported for inputs of which " + condition.text);
      }
    }
  }

  static void check_input(const TensorInfo& info, const Input& given, std::map<std::string, int64_t>& sizes) {
    bool fits = given.shape.size() == info.shape.size();
    for (size_t axis = 0; fits && axis < info.shape.size(); ++axis) {
      const Extent& extent = info.shape[axis];
      const int64_t size = given.shape[axis];
      if (extent.name.empty()) {
        fits = size == extent.size;
      } else {
        fits = extent.least <= size && size <= extent.most && sizes.emplace(extent.name, size).first->second == size;
      }
    }
    if (fits && (given.data != nullptr || count(given.shape) == 0)) return;
    std::ostringstream message;
    message << "input '" << info.name << "': expected " << info.dtype << " [";
    for (const Extent& extent : info.shape) message << (&extent == &info.shape[0] ? "" : ", ") << extent.text();
    message << "], got " << (fits ? "no memory" : "[");
    for (size_t axis = 0; !fits && axis < given.shape.size(); ++axis) {
      message << (axis == 0 ? "" : ", ") << given.shape[axis];
    }
    throw Error(message.str() + (fits ? "" : "]"));
  }

  static int64_t count(const std::vector<int64_t>& shape) {
    int64_t product = 1;
    for (int64_t size : shape) product *= size;
    return product;
  }

  int threads_;
  std::optional<detail::Mapping> weights_file_;
  std::string library_path_, target_, machine_name_;
  std::vector<detail::Feature> features_;
  std::vector<TensorInfo> inputs_, outputs_;
  std::vector<detail::Condition> conditions_;
  std::vector<detail::Weight> weights_;
  tvm::ffi::Optional<tvm::ffi::Module> module_, machine_;
  std::vector<tvm::ffi::Any> destinations_;
  tvm::ffi::Function entry_;
  size_t calls_ = 0;
  std::mutex lock_;
};

}  // namespace relay_layout
