// Mesos's messages as the daemon API's values, and back.
#pragma once

#include <mesos/resources.hpp>
#include <mesos/slave/containerizer.hpp>

#include "api.hpp"

namespace mesosgpu {

// "PARENT.CHILD" for a nested container.
std::string text(const mesos::ContainerID&);

// The resources whose names begin with "gpu".
Amounts gpus(const mesos::Resources&);

Request request(const mesos::ContainerID&, const mesos::slave::ContainerConfig&);
Request request(const mesos::slave::ContainerState&);

// A debug container runs in its parent's cgroup, mounts and environment.
bool isDebug(const mesos::slave::ContainerConfig&);

// Puts variables where the processes of the container's image will see them.
void setEnvironment(const std::map<std::string, std::string>&, const mesos::slave::ContainerConfig&, mesos::slave::ContainerLaunchInfo&);

}  // namespace mesosgpu
