// Prepares a container's own root file system for GPU nodes and the driver
// volume. Mesos mounts both before it enters the root.
#pragma once

#include <mesos/slave/containerizer.hpp>
#include <stout/nothing.hpp>
#include <stout/try.hpp>

#include "api.hpp"

namespace mesosgpu {

// Creates the nodes in the container's devices directory and the mount targets
// in the root. Mesos's filesystem/linux isolator creates that directory below
// the agent's --runtime_dir and removes it with the container. The nodes belong
// to the container alone: changing their mode affects no other container.
Try<Nothing> prepareRootfs(const Grant&, const mesos::ContainerID&, const std::string& rootfs, const std::string& runtimeDir,
                     mesos::slave::ContainerLaunchInfo&);

}  // namespace mesosgpu
