#include "convert.hpp"

#include <cmath>

namespace mesosgpu {
namespace {

// Labels in which frameworks name the job of a task.
constexpr const char* jobLabels[] = {"mesos-gpu.job", "job"};

std::string findJobLabel(const mesos::Labels& labels) {
  for (const char* name : jobLabels) {
    for (const mesos::Label& label : labels.labels()) {
      if (label.key() == name) {
        return label.value();
      }
    }
  }
  return "";
}

Amount toAmount(const mesos::Resource& resource) {
  switch (resource.type()) {
    case mesos::Value::SET:
      return std::set<std::string>(resource.set().item().begin(), resource.set().item().end());
    case mesos::Value::RANGES: {
      Ranges ranges;
      for (const auto& range : resource.ranges().range()) {
        ranges.emplace_back(range.begin(), range.end());
      }
      return ranges;
    }
    default:
      return static_cast<std::int64_t>(std::llround(resource.scalar().value() * 1000));
  }
}

void setExecutor(const mesos::ExecutorInfo& executor, Request& r) {
  r.framework = executor.framework_id().value();
  r.executor = executor.executor_id().value();
  r.job = findJobLabel(executor.labels());
}

}  // namespace

std::string containerName(const mesos::ContainerID& id) {
  return id.has_parent() ? containerName(id.parent()) + "." + id.value() : id.value();
}

Amounts gpuAmounts(const mesos::Resources& resources) {
  Amounts out;
  for (const mesos::Resource& resource : resources) {
    if (resource.name().compare(0, 3, "gpu") == 0) {
      add(out, resource.name(), toAmount(resource));
    }
  }
  return out;
}

Request makeRequest(const mesos::ContainerID& id, const mesos::slave::ContainerConfig& config) {
  Request r;
  r.container = containerName(id);
  r.directory = config.directory();
  r.rootfs = config.has_rootfs();
  r.resources = gpuAmounts(config.resources());
  if (config.has_executor_info()) {
    setExecutor(config.executor_info(), r);
  }
  if (config.has_task_info()) {
    r.task = config.task_info().task_id().value();
    if (auto of = findJobLabel(config.task_info().labels()); !of.empty()) {
      r.job = of;
    }
  }
  const auto& image = config.docker().manifest().config();
  r.labels.insert(image.labels().begin(), image.labels().end());
  for (const std::string& variable : image.env()) {
    const auto equals = variable.find('=');
    if (equals != std::string::npos) {
      r.environment[variable.substr(0, equals)] = variable.substr(equals + 1);
    }
  }
  return r;
}

Request makeRequest(const mesos::slave::ContainerState& state) {
  Request r;
  r.container = containerName(state.container_id());
  r.directory = state.directory();
  if (state.has_executor_info()) {
    setExecutor(state.executor_info(), r);
  }
  return r;
}

bool isDebug(const mesos::slave::ContainerConfig& config) {
  return config.has_container_class() && config.container_class() == mesos::slave::ContainerClass::DEBUG;
}

void setEnvironment(const std::map<std::string, std::string>& variables, const mesos::slave::ContainerConfig& config,
                    mesos::slave::ContainerLaunchInfo& launch) {
  if (variables.empty()) {
    return;
  }
  // The executor of a command task runs outside the image and passes these
  // variables to the task.
  mesos::Environment* to = config.has_task_info() ? launch.mutable_task_environment() : launch.mutable_environment();
  for (const auto& [name, value] : variables) {
    mesos::Environment::Variable* variable = to->add_variables();
    variable->set_name(name);
    variable->set_value(value);
  }
}

}  // namespace mesosgpu
