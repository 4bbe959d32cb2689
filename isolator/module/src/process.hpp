// The isolator's actor: it turns Mesos's calls into the daemon's and keeps
// what the two must agree on while the daemon is away. It decides nothing
// about devices, and never blocks: calls wait on threads of their own.
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
  // Only cgroup v2 is there. The daemon confines what has no GPUs as well, by
  // a program that stays when it goes; nobody else does.
  bool unified = false;
};

class GpuProcess : public process::Process<GpuProcess> {
 public:
  explicit GpuProcess(Config);

  // Succeeds with or without the daemon, which is told until it has heard.
  process::Future<Nothing> recover(const std::vector<mesos::slave::ContainerState>&, const hashset<mesos::ContainerID>& orphans);
  process::Future<Option<mesos::slave::ContainerLaunchInfo>> prepare(const mesos::ContainerID&, const mesos::slave::ContainerConfig&);
  process::Future<Nothing> isolate(const mesos::ContainerID&, pid_t);
  process::Future<Nothing> update(const mesos::ContainerID&, const mesos::Resources&);
  // Always succeeds: what the daemon did not hear it learns by recover.
  process::Future<Nothing> cleanup(const mesos::ContainerID&);

 protected:
  void finalize() override { client_->stop(); }

 private:
  // Waiter waits until the daemon has heard of a container's resources.
  struct Waiter {
    unsigned long turn;  // of the total it asked for
    Option<Deadline> deadline;  // none: it waits as long as it takes
    std::shared_ptr<process::Promise<Nothing>> promise;
  };

  struct Container {
    Request request;          // its resources are those Mesos wants it to have
    Option<Amounts> granted;  // those the daemon agreed to; none: not known since the agent's restart
    bool known = false;       // the daemon has prepared it
    bool debug = false;
    int pid = 0;
    unsigned long since = 0;   // the turn at which it was prepared
    unsigned long turn = 0;    // that of the total Mesos asked for last; 0: none since the agent's restart
    unsigned long warned = 0;  // the last that the log speaks of
    bool asking = false;
    process::Timer again;  // the next time it is told
    std::vector<Waiter> waiters;
  };

  Container* find(const std::string& id);
  // The container of that turn, and no later one of its name: frameworks may
  // use those of nested ones again.
  Container* find(const std::string& id, unsigned long turn);
  bool unconfined() const { return config_.unified && told_ == 0; }
  // Tells whether a launch must fail where the daemon does not answer.
  bool required(const Container&);
  Deadline deadline(bool required) const;

  // Runs a call on a thread. Nobody can discard what it returns.
  template <typename T>
  process::Future<Result<T>> ask(std::function<Result<T>(const Client&)>);
  // Repeats a call that nobody answers while there is time.
  template <typename T>
  process::Future<Result<T>> persist(Deadline, std::function<process::Future<Result<T>>()>);

  // Tells the daemon which containers live, if it may not know. It lets go of
  // those that are not named, and takes in from its cgroup one that is named
  // and new to it: so no call that takes one in is under way meanwhile.
  process::Future<Result<Done>> sync();
  void syncLater();
  // Has the daemon told once more who lives: it may hold one that is gone.
  void syncAgain();
  // The daemon's answer for a container: at once, and once it knows who else
  // lives.
  process::Future<Result<Grant>> enter(const std::string& id, Deadline);
  process::Future<Result<Grant>> grant(const std::string& id, Deadline);

  // Tells the daemon at once what containers other than this one have less.
  // True where it has not heard of all: it may refuse what it will have soon.
  bool giveBack(const std::string& id);
  // Brings a container's resources to the daemon.
  void push(const std::string& id);
  process::Future<Result<Done>> tell(const Container&, Deadline);
  void pushed(const std::string& id, const Request& told, unsigned long turn, const Result<Done>&);

  const Config config_;
  const std::shared_ptr<Client> client_;
  Pool pool_;
  std::map<std::string, Container> containers_;
  // sync has still to tell the daemon something where these differ.
  unsigned long changes_ = 0, told_ = 0;
  unsigned long turns_ = 0;
  Option<process::Future<Result<Done>>> syncing_;
  bool syncScheduled_ = false;
  int entering_ = 0;  // calls under way that take a container in
};

}  // namespace mesosgpu
