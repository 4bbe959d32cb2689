// What a container with a root file system of its own needs in it: GPU nodes
// and the driver volume. Mesos mounts both before it enters the root.
#pragma once

#include <mesos/slave/containerizer.hpp>
#include <stout/nothing.hpp>
#include <stout/try.hpp>

#include "api.hpp"

namespace mesosgpu {

// Makes the nodes in the container's devices directory, which Mesos's
// filesystem/linux isolator has made below the agent's --runtime_dir and
// removes with the container, and the mounts' targets in the root. They are
// nodes of the container's own, so that whoever changes their mode in there
// changes nothing for others.
Try<Nothing> furnish(const Grant&, const mesos::ContainerID&, const std::string& rootfs, const std::string& runtimeDir,
                     mesos::slave::ContainerLaunchInfo&);

}  // namespace mesosgpu
