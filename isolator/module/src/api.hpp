// Requests and responses of the GPU daemon's API as plain values.
// docs/reference/agent-api.md describes each call.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace mesosgpu {

// Amount is a quantity of one resource: a scalar in thousandths (the finest
// resolution in Mesos), the items of a set, or inclusive ranges.
using Ranges = std::vector<std::pair<std::uint64_t, std::uint64_t>>;
using Amount = std::variant<std::int64_t, std::set<std::string>, Ranges>;

// Amounts by resource name. Amounts of the same name (roles, reservations) are
// summed.
using Amounts = std::map<std::string, Amount>;

void add(Amounts& to, const std::string& name, const Amount& amount);

// Returns whether b is a subset of a.
bool contains(const Amounts& a, const Amounts& b);

struct Request {
  std::string container;  // nested: PARENT.CHILD
  std::string directory;  // the sandbox
  bool rootfs = false;    // the container has a root file system of its own
  std::string framework, executor, task, job;
  Amounts resources;  // those whose names start with "gpu"
  std::map<std::string, std::string> labels, environment;  // of its image
};

struct Node {
  std::string path;  // below /dev
  std::uint32_t major = 0, minor = 0;
};

struct Mount {
  std::string source, target;
  bool readOnly = false;
};

struct Grant {
  std::vector<std::string> devices;
  std::vector<Node> nodes;
  std::vector<Mount> mounts;
  std::map<std::string, std::string> environment;
};

struct Problem {
  enum class Kind {
    unavailable,  // no response in time; the same call may succeed later
    broken,       // a response that the API does not define, or a server error
    refused,      // the daemon rejected the call
  };
  Kind kind = Kind::unavailable;
  std::string message;  // the object, the cause and the remedy
  long status = 0;      // HTTP status; 0 without a response
};

struct Done {};

// Result is a value, or the problem that prevented it.
template <typename T>
struct Result {
  T value;
  std::optional<Problem> problem;

  Result(T v) : value(std::move(v)) {}
  Result(Problem p) : problem(std::move(p)) {}
  bool ok() const { return !problem; }
};

}  // namespace mesosgpu
