// The entry point for Mesos: creates an isolator from the module's parameters.
#include <glog/logging.h>
#include <linux/magic.h>
#include <sys/un.h>
#include <sys/vfs.h>

#include <system_error>

#include <mesos/module/isolator.hpp>
#include <process/dispatch.hpp>
#include <stout/duration.hpp>

#include "process.hpp"

using mesos::ContainerID;
using mesos::slave::ContainerConfig;
using mesos::slave::ContainerLaunchInfo;
using mesos::slave::ContainerState;
using mesosgpu::GpuProcess;
using process::dispatch;
using process::Future;

namespace {

// watch, usage and status keep Mesos's defaults: the daemon's state never
// destroys a container, and the Mesos messages have no fields for GPUs.
class GpuIsolator : public mesos::slave::Isolator {
 public:
  explicit GpuIsolator(mesosgpu::Config config) : process_(std::move(config)) { process::spawn(process_); }
  ~GpuIsolator() override {
    process::terminate(process_);
    process::wait(process_);
  }

  bool supportsNesting() override { return true; }
  bool supportsStandalone() override { return true; }

  Future<Nothing> recover(const std::vector<ContainerState>& states, const hashset<ContainerID>& orphans) override {
    return dispatch(process_, &GpuProcess::recover, states, orphans);
  }
  Future<Option<ContainerLaunchInfo>> prepare(const ContainerID& id, const ContainerConfig& config) override {
    return dispatch(process_, &GpuProcess::prepare, id, config);
  }
  Future<Nothing> isolate(const ContainerID& id, pid_t pid) override { return dispatch(process_, &GpuProcess::isolate, id, pid); }
  Future<Nothing> update(const ContainerID& id, const mesos::Resources& requests,
                         const google::protobuf::Map<std::string, mesos::Value::Scalar>&) override {
    return dispatch(process_, &GpuProcess::update, id, requests);
  }
  Future<Nothing> cleanup(const ContainerID& id) override { return dispatch(process_, &GpuProcess::cleanup, id); }

 private:
  GpuProcess process_;
};

// Sets one parameter of the configuration.
Try<Nothing> setParameter(const mesos::Parameter& p, mesosgpu::Config& config, std::string& hierarchy) {
  if (p.key() == "socket") {
    if (p.value().empty() || p.value()[0] != '/' || p.value().size() >= sizeof(sockaddr_un::sun_path)) {
      return Error("'" + p.value() + "' is no absolute path of at most 107 bytes");
    }
    config.socket = p.value();
  } else if (p.key() == "timeout") {
    Try<Duration> timeout = Duration::parse(p.value());
    if (timeout.isError() || *timeout < Milliseconds(100) || *timeout > Minutes(5)) {
      return Error("'" + p.value() + "' is no duration from 100ms to 5mins");
    }
    config.timeout = std::chrono::milliseconds(static_cast<long>(timeout->ms()));
  } else if (p.key() == "runtime_dir") {
    if (p.value().empty() || p.value()[0] != '/') {
      return Error("'" + p.value() + "' is no absolute path");
    }
    config.runtimeDir = p.value();
  } else if (p.key() == "cgroups_hierarchy") {
    if (p.value().empty() || p.value()[0] != '/') {
      return Error("'" + p.value() + "' is no absolute path");
    }
    hierarchy = p.value();
  } else {
    return Error("unknown parameter: use socket, timeout, runtime_dir or cgroups_hierarchy");
  }
  return Nothing();
}

// With cgroup v1 or hybrid mode, the hierarchies are mounted in a tmpfs.
bool isUnified(const std::string& hierarchy) {
  struct statfs s;
  return ::statfs(hierarchy.c_str(), &s) == 0 && s.f_type == CGROUP2_SUPER_MAGIC;
}

mesos::slave::Isolator* createIsolator(const mesos::Parameters& parameters) {
  mesosgpu::Config config;
  std::string hierarchy = "/sys/fs/cgroup";
  for (const mesos::Parameter& p : parameters.parameter()) {
    Try<Nothing> known = setParameter(p, config, hierarchy);
    if (known.isError()) {
      LOG(ERROR) << "read the GPU isolator's parameter " << p.key() << ": " << known.error();
      return nullptr;
    }
  }
  config.unified = isUnified(hierarchy);
  try {
    return new GpuIsolator(std::move(config));
  } catch (const std::system_error& e) {
    LOG(ERROR) << "start a thread of the GPU isolator: " << e.what() << "; let the agent's service have more (TasksMax of systemd)";
    return nullptr;
  }
}

}  // namespace

// Read from the file by "mesos-gpu version" and "mesos-gpu cluster check".
extern "C" const char io_mesosgpu_info[] __attribute__((used)) = "mesos=" MESOS_VERSION " agent-api=v1";

mesos::modules::Module<mesos::slave::Isolator> io_mesosgpu_GpuIsolator(
    MESOS_MODULE_API_VERSION, MESOS_VERSION, "mesos-gpu", "mesos-gpu", "GPU isolation by the daemon of mesos-gpu agent.", nullptr, createIsolator);
