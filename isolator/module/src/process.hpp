// The isolator's actor. It translates Mesos's calls into the daemon's, and
// tracks the state that both must agree on while the daemon is not available.
// It makes no decisions about devices. It never blocks: calls run on a thread
// pool.
#pragma once

#include <map>
#include <memory>

#include <mesos/slave/isolator.hpp>
#include <process/future.hpp>
#include <process/process.hpp>
#include <process/timer.hpp>

#include "client.hpp"
#include "pool.hpp"

namespace mesosgpu {

struct Config {
  std::string socket = "/run/mesos-gpu/agent.sock";
  std::chrono::milliseconds timeout{5000};
  std::string runtimeDir = "/var/run/mesos";
  // Only cgroup v2 is mounted. The daemon then also confines containers without
  // GPUs, with a BPF program that remains when the daemon ends.
  bool unified = false;
};

class GpuProcess : public process::Process<GpuProcess> {
 public:
  explicit GpuProcess(Config);

  // Always succeeds. If the daemon is not available, the recovery is repeated
  // until it succeeds.
  process::Future<Nothing> recover(const std::vector<mesos::slave::ContainerState>&, const hashset<mesos::ContainerID>& orphans);
  process::Future<Option<mesos::slave::ContainerLaunchInfo>> prepare(const mesos::ContainerID&, const mesos::slave::ContainerConfig&);
  process::Future<Nothing> isolate(const mesos::ContainerID&, pid_t);
  process::Future<Nothing> update(const mesos::ContainerID&, const mesos::Resources&);
  // Always succeeds. If the daemon misses the call, the next recover replaces
  // it.
  process::Future<Nothing> cleanup(const mesos::ContainerID&);

 protected:
  void finalize() override { client_->stop(); }

 private:
  // Waiter is an update that waits until the daemon has accepted the resources.
  struct Waiter {
    unsigned long version;      // of the update
    Option<Deadline> deadline;  // none: no timeout
    std::shared_ptr<process::Promise<Nothing>> promise;
  };

  struct Container {
    Request request;          // its resources are the total that Mesos requested last
    Option<Amounts> granted;  // resources that the daemon accepted; none: not known since the agent's restart
    bool known = false;       // the daemon has prepared it
    bool debug = false;
    int pid = 0;
    unsigned long preparedVersion = 0;  // version of its prepare
    unsigned long version = 0;          // version of the latest update; 0: none since the agent's restart
    unsigned long warnedVersion = 0;    // version of the latest warning in the log
    bool updating = false;
    process::Timer retryTimer;  // next attempt to update the daemon
    std::vector<Waiter> waiters;
  };

  Container* find(const std::string& id);
  // Returns the container of that version, not a later one of the same ID:
  // frameworks may reuse the IDs of nested containers.
  Container* find(const std::string& id, unsigned long version);
  bool isUnconfined() const { return config_.unified && syncedChanges_ == 0; }
  // Returns whether a launch must fail if the daemon does not answer.
  bool needsDaemon(const Container&);
  Deadline deadline(bool needsDaemon) const;

  // Runs a call on the pool. The returned future cannot be discarded.
  template <typename T>
  process::Future<Result<T>> callDaemon(std::function<Result<T>(const Client&)>);
  // Repeats a call without a response until the deadline.
  template <typename T>
  process::Future<Result<T>> retryUntil(Deadline, std::function<process::Future<Result<T>>()>);

  // Sends the daemon the list of live containers if it may be outdated. The
  // daemon releases containers that are not in the list, and adopts listed ones
  // that it does not know from their cgroups. Therefore no call that adopts a
  // container runs at the same time.
  process::Future<Result<Done>> syncContainers();
  void scheduleSync();
  // Schedules another recovery, because the daemon may hold a container that is
  // gone.
  void requestSync();
  // Sends prepare once no recovery is needed or running.
  process::Future<Result<Grant>> prepareAfterSync(const std::string& id, Deadline);

  // Immediately sends updates that release resources of other containers.
  // Returns true if some are not confirmed yet: the daemon may reject a request
  // that can succeed soon.
  bool pushReleases(const std::string& id);
  // Sends a container's resources to the daemon.
  void pushUpdate(const std::string& id);
  process::Future<Result<Done>> sendUpdate(const Container&, Deadline);
  void handleUpdateResult(const std::string& id, const Request& sent, unsigned long version, const Result<Done>&);

  const Config config_;
  const std::shared_ptr<Client> client_;
  Pool pool_;
  std::map<std::string, Container> containers_;
  // A recovery is needed if these differ.
  unsigned long changes_ = 0, syncedChanges_ = 0;
  unsigned long lastVersion_ = 0;
  Option<process::Future<Result<Done>>> runningSync_;
  bool syncScheduled_ = false;
  int adoptionsInFlight_ = 0;  // running calls that adopt a container
};

}  // namespace mesosgpu
