// What the isolator asks of the GPU daemon and what it answers, as plain
// values. docs/isolator-api.md describes each call.
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

// Amount is what a container has of one resource: a scalar in thousandths (no
// resource of Mesos is finer), the items of a set, or ranges from first to last.
using Ranges = std::vector<std::pair<std::uint64_t, std::uint64_t>>;
using Amount = std::variant<std::int64_t, std::set<std::string>, Ranges>;

// Amounts by name. Several of one name (roles, reservations) are summed.
using Amounts = std::map<std::string, Amount>;

void add(Amounts& to, const std::string& name, const Amount& amount);

// Tells whether b asks for nothing that is not in a.
bool contains(const Amounts& a, const Amounts& b);

struct Request {
  std::string container;  // nested: its parents before it, dots between
  std::string directory;  // the sandbox
  bool rootfs = false;    // it has a root file system of its own
  std::string framework, executor, task, job;
  Amounts resources;  // those whose names begin with "gpu"
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
    away,     // nobody answered in time: the same call may succeed later
    broken,   // it answered what the API does not know, or that it is in trouble
    refused,  // it understood and said no
  };
  Kind kind = Kind::away;
  std::string message;  // what, where, and what to do
  long status = 0;      // of HTTP; 0 where there was no answer
};

struct Done {};

// Result is a value, or why there is none.
template <typename T>
struct Result {
  T value;
  std::optional<Problem> problem;

  Result(T v) : value(std::move(v)) {}
  Result(Problem p) : problem(std::move(p)) {}
  bool ok() const { return !problem; }
};

}  // namespace mesosgpu
