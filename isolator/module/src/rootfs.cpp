#include "rootfs.hpp"

#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <string>
#include <vector>

#include <stout/os/exists.hpp>
#include <stout/os/mkdir.hpp>
#include <stout/path.hpp>

namespace mesosgpu {
namespace {

std::string devicesDir(const mesos::ContainerID& id, const std::string& runtimeDir) {
  const std::string above = id.has_parent() ? Path(devicesDir(id.parent(), runtimeDir)).dirname() : runtimeDir;
  return path::join(above, "containers", id.value(), "devices");
}

Try<Nothing> makeNode(const Node& node, const std::string& at) {
  Try<Nothing> parent = os::mkdir(Path(at).dirname());
  if (parent.isError()) {
    return Error("make the directory of node " + at + ": " + parent.error());
  }
  if (::unlink(at.c_str()) != 0 && errno != ENOENT) {
    return ErrnoError("replace node " + at);
  }
  if (::mknod(at.c_str(), S_IFCHR | 0666, makedev(node.major, node.minor)) != 0) {
    return ErrnoError("make node " + at);
  }
  // The umask does not apply: the cgroup decides which processes can open the
  // node.
  if (::chmod(at.c_str(), 0666) != 0) {
    return ErrnoError("open node " + at + " to every user");
  }
  return Nothing();
}

// Owns the descriptor of an open directory.
class Directory {
 public:
  explicit Directory(int fd) : fd_(fd) {}
  Directory(Directory&& other) noexcept : fd_(other.fd_) { other.fd_ = -1; }
  Directory& operator=(Directory&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Directory() {
    if (fd_ >= 0) {
      ::close(fd_);
    }
  }
  int fd() const { return fd_; }

 private:
  int fd_;
};

// Creates a mount target in a root file system from an image: a directory, or a
// file if the source is a file. Symbolic links in the root may point anywhere
// on the host, so they are not followed.
Try<Nothing> makeTarget(const std::string& rootfs, const Mount& mount) {
  const std::string& target = mount.target;
  struct stat source;
  if (::stat(mount.source.c_str(), &source) != 0) {
    return ErrnoError("look at " + mount.source + ", to be mounted at " + target);
  }
  constexpr int flags = O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
  Directory at(::open(rootfs.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (at.fd() < 0) {
    return ErrnoError("open the container's root " + rootfs);
  }
  std::vector<std::string> names = strings::tokenize(target, "/");
  const std::string file = S_ISDIR(source.st_mode) || names.empty() ? "" : names.back();
  if (!file.empty()) {
    names.pop_back();
  }
  for (const std::string& name : names) {
    if (::mkdirat(at.fd(), name.c_str(), 0755) != 0 && errno != EEXIST) {
      return ErrnoError("make " + target + " in the container's root " + rootfs);
    }
    Directory next(::openat(at.fd(), name.c_str(), flags));
    if (next.fd() < 0) {
      return ErrnoError("make " + target + " in the container's root " + rootfs + ": its part '" + name +
                        "' must be a directory in the image, and no symbolic link");
    }
    at = std::move(next);
  }
  if (file.empty()) {
    return Nothing();
  }
  struct stat there;
  if (::mknodat(at.fd(), file.c_str(), S_IFREG | 0644, 0) != 0 && errno != EEXIST) {
    return ErrnoError("make file " + target + " in the container's root " + rootfs);
  }
  if (::fstatat(at.fd(), file.c_str(), &there, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(there.st_mode)) {
    return Error("mount on " + target + " in the container's root " + rootfs + ": the image has something there that is no file");
  }
  return Nothing();
}

void addMount(const std::string& source, const std::string& target, unsigned flags, mesos::slave::ContainerLaunchInfo& launch) {
  mesos::slave::ContainerMountInfo* mount = launch.add_mounts();
  mount->set_source(source);
  mount->set_target(target);
  mount->set_flags(flags);
}

}  // namespace

Try<Nothing> prepareRootfs(const Grant& grant, const mesos::ContainerID& id, const std::string& rootfs, const std::string& runtimeDir,
                     mesos::slave::ContainerLaunchInfo& launch) {
  const std::string devices = devicesDir(id, runtimeDir);
  if (!grant.nodes.empty() && !os::exists(devices)) {
    return Error("there is no directory " + devices +
                 " for the container's nodes; the agent needs the filesystem/linux isolator, and the module's parameter runtime_dir "
                 "must be the agent's --runtime_dir");
  }
  for (const Node& node : grant.nodes) {
    const std::string at = path::join(devices, node.path.substr(std::string("/dev/").size()));
    Try<Nothing> made = makeNode(node, at);
    if (made.isError()) {
      return made;
    }
    addMount(at, path::join(rootfs, node.path), MS_BIND, launch);
  }
  for (const Mount& mount : grant.mounts) {
    Try<Nothing> made = makeTarget(rootfs, mount);
    if (made.isError()) {
      return made;
    }
    addMount(mount.source, path::join(rootfs, mount.target), MS_BIND | MS_REC | (mount.readOnly ? MS_RDONLY : 0), launch);
  }
  return Nothing();
}

}  // namespace mesosgpu
