// Converts between Mesos messages and values of the daemon's API.
#pragma once

#include <mesos/resources.hpp>
#include <mesos/slave/containerizer.hpp>

#include "api.hpp"

namespace mesosgpu {

// "PARENT.CHILD" for a nested container.
std::string containerName(const mesos::ContainerID&);

// Returns the resources whose names start with "gpu".
Amounts gpuAmounts(const mesos::Resources&);

Request makeRequest(const mesos::ContainerID&, const mesos::slave::ContainerConfig&);
Request makeRequest(const mesos::slave::ContainerState&);

// A debug container runs in its parent's cgroup, mounts and environment.
bool isDebug(const mesos::slave::ContainerConfig&);

// Sets variables where the processes in the container's image see them.
void setEnvironment(const std::map<std::string, std::string>&, const mesos::slave::ContainerConfig&, mesos::slave::ContainerLaunchInfo&);

}  // namespace mesosgpu
