// Loads the module as an agent does and calls its isolator for tests. Each
// input line is a JSON object with one call; Mesos messages in it are JSON.
// Each output line is the outcome of one call, when it is ready.
#include <dlfcn.h>
#include <sys/resource.h>
#include <unistd.h>

#include <fstream>
#include <functional>
#include <iostream>
#include <map>
#include <mutex>

#include <mesos/module/isolator.hpp>
#include <process/process.hpp>
#include <stout/json.hpp>
#include <stout/protobuf.hpp>

using mesos::ContainerID;
using mesos::slave::ContainerConfig;
using mesos::slave::ContainerState;
using mesos::slave::Isolator;
using process::Future;

namespace {

std::mutex out;

void print(const JSON::Object& line) {
  std::lock_guard<std::mutex> lock(out);
  std::cout << stringify(line) << std::endl;
}

JSON::Object show(const Nothing&) { return JSON::Object(); }
JSON::Object show(const mesos::slave::ContainerLimitation& m) { return JSON::protobuf(m); }
JSON::Object show(const mesos::ResourceStatistics& m) { return JSON::protobuf(m); }
JSON::Object show(const mesos::ContainerStatus& m) { return JSON::protobuf(m); }
JSON::Object show(const Option<mesos::slave::ContainerLaunchInfo>& m) {
  return m.isSome() ? JSON::Object(JSON::protobuf(*m)) : JSON::Object();
}

// From now on no thread can start: the address space has no room for its stack.
void starve() {
  std::size_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  rlimit limit{};
  limit.rlim_cur = limit.rlim_max = pages * ::sysconf(_SC_PAGESIZE) + (4 << 20);
  ::setrlimit(RLIMIT_AS, &limit);
}

// Functions that discard the futures of calls, by call number.
std::map<std::string, std::function<void()>> discards;

template <typename T>
void tell(const JSON::Value& id, Future<T> future) {
  discards[stringify(id)] = [future]() mutable { future.discard(); };
  future.onAny([id](const Future<T>& f) {
    JSON::Object line;
    line.values["id"] = id;
    line.values["kind"] = f.isReady() ? "ready" : f.isFailed() ? "failed" : "discarded";
    if (f.isReady()) {
      line.values["value"] = show(f.get());
    } else if (f.isFailed()) {
      line.values["message"] = f.failure();
    }
    print(line);
  });
}

// Returns the Mesos message at that key, or a default one if it is missing.
template <typename T>
T message(const JSON::Object& call, const std::string& key) {
  Result<JSON::Object> v = call.at<JSON::Object>(key);
  return v.isSome() ? protobuf::parse<T>(*v).get() : T();
}

template <typename T>
std::vector<T> messages(const JSON::Object& call, const std::string& key) {
  std::vector<T> all;
  Result<JSON::Array> list = call.at<JSON::Array>(key);
  if (list.isSome()) {
    for (const JSON::Value& v : list->values) {
      all.push_back(protobuf::parse<T>(v).get());
    }
  }
  return all;
}

void make(Isolator& isolator, const JSON::Object& call) {
  const JSON::Value id = call.values.at("id");
  const std::string op = call.at<JSON::String>("op")->value;
  const ContainerID container = message<ContainerID>(call, "container");
  if (op == "starve") {
    starve();
    tell(id, Future<Nothing>(Nothing()));
  } else if (op == "discard") {
    discards.at(stringify(call.values.at("of")))();
    tell(id, Future<Nothing>(Nothing()));
  } else if (op == "recover") {
    hashset<ContainerID> orphans;
    for (const ContainerID& orphan : messages<ContainerID>(call, "orphans")) {
      orphans.insert(orphan);
    }
    tell(id, isolator.recover(messages<ContainerState>(call, "states"), orphans));
  } else if (op == "prepare") {
    tell(id, isolator.prepare(container, message<ContainerConfig>(call, "config")));
  } else if (op == "isolate") {
    tell(id, isolator.isolate(container, call.at<JSON::Number>("pid")->as<pid_t>()));
  } else if (op == "watch") {
    tell(id, isolator.watch(container));
  } else if (op == "update") {
    const auto resources = messages<mesos::Resource>(call, "resources");
    tell(id, isolator.update(container, mesos::Resources(resources)));
  } else if (op == "usage") {
    tell(id, isolator.usage(container));
  } else if (op == "status") {
    tell(id, isolator.status(container));
  } else {
    tell(id, isolator.cleanup(container));
  }
}

}  // namespace

// Arguments: MODULE KEY=VALUE…, the module's file and its parameters.
int main(int argc, char** argv) {
  void* library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
  void* symbol = library ? dlsym(library, "io_mesosgpu_GpuIsolator") : nullptr;
  if (!symbol) {
    std::cerr << dlerror() << std::endl;
    return 1;
  }
  process::initialize();
  if (std::getenv("STARVED")) {
    starve();
  }
  mesos::Parameters parameters;
  for (int i = 2; i < argc; i++) {
    const std::string pair = argv[i];
    mesos::Parameter* p = parameters.add_parameter();
    p->set_key(pair.substr(0, pair.find('=')));
    p->set_value(pair.substr(pair.find('=') + 1));
  }
  std::unique_ptr<Isolator> isolator(static_cast<mesos::modules::Module<Isolator>*>(symbol)->create(parameters));
  JSON::Object first;
  first.values["id"] = 0;
  first.values["kind"] = !isolator ? "refused" : isolator->supportsNesting() && isolator->supportsStandalone() ? "ready" : "failed";
  print(first);
  for (std::string line; isolator && std::getline(std::cin, line);) {
    make(*isolator, JSON::parse<JSON::Object>(line).get());
  }
  isolator.reset();
  // Pending calls end with the process, as in an agent.
  std::cout.flush();
  _exit(0);
}
