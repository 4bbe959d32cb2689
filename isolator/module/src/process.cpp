#include "process.hpp"

#include <glog/logging.h>

#include <algorithm>

#include <process/after.hpp>
#include <process/clock.hpp>
#include <process/defer.hpp>
#include <process/delay.hpp>
#include <process/id.hpp>

#include "convert.hpp"
#include "rootfs.hpp"

using mesos::ContainerID;
using mesos::slave::ContainerConfig;
using mesos::slave::ContainerLaunchInfo;
using mesos::slave::ContainerState;
using process::defer;
using process::Failure;
using process::Future;
using process::Promise;

namespace mesosgpu {
namespace {

// Maximum number of concurrent calls.
constexpr std::size_t threads = 16;

// Maximum delay for a container without GPUs.
constexpr std::chrono::milliseconds optionalTimeout(1000);

// Delays before a call is repeated: while another call is running, while a
// caller waits for the daemon, and otherwise.
const Duration syncRetryInterval = Milliseconds(20), callRetryInterval = Milliseconds(200), backgroundRetryInterval = Seconds(1);

constexpr const char* unconfinedHint =
    "; with cgroup v2 no container is launched, with GPUs or without, before the daemon has answered once since the agent's start: it confines them all";

Duration timeUntil(Deadline deadline) {
  return Nanoseconds(std::chrono::duration_cast<std::chrono::nanoseconds>(deadline - Clock::now()).count());
}

// The daemon rejects a whole list for one invalid ID, and frameworks choose the
// IDs of nested containers.
bool isValidContainerId(const std::string& id) {
  return id.size() <= 512 && id.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-") == std::string::npos;
}

bool isUnavailable(const Problem& p) { return p.kind == Problem::Kind::unavailable; }

// A call that is rejected while other containers release devices may succeed
// later.
template <typename T>
Result<T> retryIfReleasing(Result<T> r, bool releasing) {
  if (!r.ok() && r.problem->status == 409 && releasing) {
    r.problem->kind = Problem::Kind::unavailable;
  }
  return r;
}

}  // namespace

GpuProcess::GpuProcess(Config config)
    : ProcessBase(process::ID::generate("mesos-gpu-isolator")),
      config_(std::move(config)),
      client_(std::make_shared<Client>(config_.socket)),
      pool_(threads) {}

GpuProcess::Container* GpuProcess::find(const std::string& id) {
  auto at = containers_.find(id);
  return at == containers_.end() ? nullptr : &at->second;
}

GpuProcess::Container* GpuProcess::find(const std::string& id, unsigned long version) {
  Container* c = find(id);
  return c && c->preparedVersion <= version ? c : nullptr;
}

bool GpuProcess::needsDaemon(const Container& c) {
  if (!c.request.resources.empty() || isUnconfined()) {
    return true;
  }
  // A nested container with its own root needs nodes for inherited GPUs.
  const auto dot = c.request.container.find('.');
  const Container* root = dot == std::string::npos ? nullptr : find(c.request.container.substr(0, dot));
  return root && c.request.rootfs && !root->request.resources.empty();
}

Deadline GpuProcess::deadline(bool needsDaemon) const {
  return Clock::now() + (needsDaemon ? config_.timeout : std::min(config_.timeout, optionalTimeout));
}

template <typename T>
Future<Result<T>> GpuProcess::callDaemon(std::function<Result<T>(const Client&)> call) {
  auto promise = std::make_shared<Promise<Result<T>>>();
  pool_.submit([promise, call, client = client_] { promise->set(call(*client)); });
  return process::undiscardable(promise->future());
}

template <typename T>
Future<Result<T>> GpuProcess::retryUntil(Deadline deadline, std::function<Future<Result<T>>()> call) {
  return call().then(defer(self(), [=](const Result<T>& r) -> Future<Result<T>> {
    if (r.ok() || !isUnavailable(*r.problem) || timeUntil(deadline) <= callRetryInterval) {
      return r;
    }
    return process::after(callRetryInterval).then(defer(self(), [=](const Nothing&) { return retryUntil<T>(deadline, call); }));
  }));
}

Future<Nothing> GpuProcess::recover(const std::vector<ContainerState>& states, const hashset<ContainerID>& orphans) {
  for (const ContainerState& state : states) {
    Container& c = containers_[containerName(state.container_id())];
    c.request = makeRequest(state);
    c.known = true;
    c.pid = static_cast<int>(state.pid());
  }
  for (const ContainerID& orphan : orphans) {
    Container& c = containers_[containerName(orphan)];
    c.request.container = containerName(orphan);
    c.known = true;
  }
  changes_++;
  return syncContainers().then([](const Result<Done>&) { return Nothing(); });
}

Future<Result<Done>> GpuProcess::syncContainers() {
  if (runningSync_.isSome()) {
    return *runningSync_;
  }
  if (syncedChanges_ == changes_) {
    return Result<Done>(Done{});
  }
  if (adoptionsInFlight_ > 0) {
    return process::after(syncRetryInterval).then(defer(self(), [=](const Nothing&) { return syncContainers(); }));
  }
  std::vector<std::string> liveIds;
  for (const auto& [id, c] : containers_) {
    if (c.known && isValidContainerId(id)) {
      liveIds.push_back(id);
    }
  }
  const auto changes = changes_;
  const auto by = deadline(true);
  runningSync_ = process::undiscardable(
      callDaemon<Done>([liveIds, by](const Client& client) { return client.recover(liveIds, by); })
          .then(defer(self(), [=](const Result<Done>& r) -> Result<Done> {
            runningSync_ = None();
            if (r.ok()) {
              syncedChanges_ = changes;
              LOG(INFO) << "The GPU daemon has recovered " << liveIds.size() << " live containers";
            } else {
              LOG_IF(WARNING, !syncScheduled_) << r.problem->message << "; the call is repeated until the daemon answers";
              scheduleSync();
            }
            return r;
          })));
  return *runningSync_;
}

void GpuProcess::scheduleSync() {
  if (syncScheduled_) {
    return;
  }
  syncScheduled_ = true;
  process::after(backgroundRetryInterval).onReady(defer(self(), [=](const Nothing&) {
    syncContainers().onReady(defer(self(), [=](const Result<Done>&) {
      syncScheduled_ = false;
      if (syncedChanges_ != changes_) {
        scheduleSync();
      }
    }));
  }));
}

void GpuProcess::requestSync() {
  changes_++;
  scheduleSync();
}

Future<Result<Grant>> GpuProcess::prepareAfterSync(const std::string& id, Deadline by) {
  const Problem timedOut{Problem::Kind::unavailable, "the GPU daemon at " + config_.socket + " has not answered in time; look at its log, or give the module a longer timeout"};
  return syncContainers()
      .after(std::max(Duration::zero(), timeUntil(by)), [=](const Future<Result<Done>>&) { return Future<Result<Done>>(Result<Done>(timedOut)); })
      .then(defer(self(), [=](const Result<Done>& syncResult) -> Future<Result<Grant>> {
        if (!syncResult.ok()) {
          Problem p = *syncResult.problem;
          p.message = "prepare container " + id + ": " + p.message;
          return Result<Grant>(p);
        }
        if (runningSync_.isSome() || syncedChanges_ != changes_) {
          return prepareAfterSync(id, by);  // another recovery has started in the meantime
        }
        const Container* c = find(id);
        if (!c) {
          return Result<Grant>(Problem{Problem::Kind::refused, "prepare container " + id + ": it has been cleaned up"});
        }
        const Request request = c->request;
        const auto version = c->version;
        const bool releasing = pushReleases(id);
        adoptionsInFlight_++;
        return process::undiscardable(callDaemon<Grant>([=](const Client& client) { return client.prepare(request, by); })
                                          .then(defer(self(), [=](const Result<Grant>& r) {
                                            adoptionsInFlight_--;
                                            Container* c = find(id, version);
                                            if (!c) {
                                              requestSync();
                                            } else if (r.ok()) {
                                              c->known = true;
                                              c->granted = request.resources;
                                            }
                                            return retryIfReleasing(r, releasing);
                                          })));
      }));
}

Future<Option<ContainerLaunchInfo>> GpuProcess::prepare(const ContainerID& containerId, const ContainerConfig& config) {
  const std::string id = containerName(containerId);
  Container& added = containers_[id];
  added = Container();
  added.request = makeRequest(containerId, config);
  added.granted = Amounts();
  added.debug = isDebug(config);
  added.preparedVersion = added.version = ++lastVersion_;
  if (added.debug) {
    return None();
  }
  const bool isRequired = needsDaemon(added);
  const auto by = deadline(isRequired);
  std::function<Future<Result<Grant>>()> call = [=] { return prepareAfterSync(id, by); };
  return (isRequired ? retryUntil<Grant>(by, call) : call())
      .then(defer(self(), [=](const Result<Grant>& r) -> Future<Option<ContainerLaunchInfo>> {
        ContainerLaunchInfo launch;
        Option<std::string> problem = r.ok() ? Option<std::string>::none() : r.problem->message;
        if (r.ok() && config.has_rootfs()) {
          Try<Nothing> prepared = prepareRootfs(r.value, containerId, config.rootfs(), config_.runtimeDir, launch);
          problem = prepared.isError() ? Option<std::string>("prepare container " + id + ": " + prepared.error()) : None();
        }
        const Container* c = find(id);
        if (problem.isSome() && (c ? needsDaemon(*c) : isRequired)) {
          return Failure(*problem + (isUnconfined() ? unconfinedHint : ""));
        }
        if (problem.isSome()) {
          LOG(WARNING) << *problem << "; it has no GPUs and is launched";
          return None();
        }
        setEnvironment(r.value.environment, config, launch);
        return launch;
      }));
}

Future<Nothing> GpuProcess::isolate(const ContainerID& containerId, pid_t pid) {
  const std::string id = containerName(containerId);
  Container* c = find(id);
  if (c) {
    c->pid = pid;
  }
  if (!c || !c->known || c->debug) {
    return Nothing();
  }
  const bool isRequired = needsDaemon(*c);
  const auto by = deadline(isRequired);
  std::function<Future<Result<Done>>()> call = [=] {
    return callDaemon<Done>([=](const Client& client) { return client.isolate(id, pid, by); });
  };
  return (isRequired ? retryUntil<Done>(by, call) : call()).then([=](const Result<Done>& r) -> Future<Nothing> {
    if (!r.ok() && isRequired) {
      return Failure(r.problem->message);
    }
    LOG_IF(WARNING, !r.ok()) << r.problem->message << "; it has no GPUs and is launched";
    return Nothing();
  });
}

Future<Nothing> GpuProcess::update(const ContainerID& containerId, const mesos::Resources& resources) {
  const std::string id = containerName(containerId);
  Container* c = find(id);
  if (!c || c->debug) {
    return Nothing();
  }
  const Amounts wanted = gpuAmounts(resources);
  if (c->granted.isSome() && *c->granted == wanted && c->request.resources == wanted) {
    return Nothing();
  }
  // After an agent restart an update never adds resources.
  const bool restarted = c->version == 0;
  const bool grows = !restarted && !(contains(c->request.resources, wanted) && (c->granted.isNone() || contains(*c->granted, wanted)));
  c->request.resources = wanted;
  c->version = ++lastVersion_;
  auto promise = std::make_shared<Promise<Nothing>>();
  Waiter waiter{c->version, grows ? Option<Deadline>(deadline(true)) : None(), promise};
  c->waiters.push_back(std::move(waiter));
  pushUpdate(id);
  // An update to no resources need not wait for the daemon. The daemon's own
  // records, not Mesos's, prevent devices from being assigned twice, and
  // cleanup reports the end of the task.
  return wanted.empty() ? Future<Nothing>(Nothing()) : promise->future();
}

bool GpuProcess::pushReleases(const std::string& id) {
  bool releasing = false;
  for (const auto& [other, c] : containers_) {
    if (other != id && !c.waiters.empty() && (c.granted.isNone() || !contains(c.request.resources, *c.granted))) {
      releasing = true;
      pushUpdate(other);
    }
  }
  return releasing;
}

void GpuProcess::pushUpdate(const std::string& id) {
  Container* c = find(id);
  if (!c || c->updating || c->waiters.empty()) {
    return;
  }
  if (runningSync_.isSome()) {
    runningSync_->onAny(defer(self(), [=](const Future<Result<Done>>&) { pushUpdate(id); }));
    return;
  }
  c->updating = true;
  adoptionsInFlight_++;
  auto by = deadline(true);
  bool grows = false;
  for (const Waiter& w : c->waiters) {
    grows = grows || w.deadline.isSome();
    by = w.deadline.isSome() ? std::min(by, *w.deadline) : by;
  }
  const bool releasing = grows && pushReleases(id);
  const auto version = c->version;
  const Request sent = c->request;
  sendUpdate(*c, by).onReady(defer(self(), [=](const Result<Done>& r) { handleUpdateResult(id, sent, version, retryIfReleasing(r, releasing)); }));
}

Future<Result<Done>> GpuProcess::sendUpdate(const Container& c, Deadline by) {
  const Request sent = c.request;
  const auto version = c.version;
  const int pid = c.pid;
  auto isolate = [=](const Result<Grant>& prepared) -> Future<Result<Done>> {
    if (!prepared.ok() || !find(sent.container, version)) {
      return prepared.ok() ? Result<Done>(Done{}) : Result<Done>(*prepared.problem);
    }
    return callDaemon<Done>([=](const Client& client) { return client.isolate(sent.container, pid, by); });
  };
  // A container that has ended meanwhile is unknown to the daemon and must not
  // be adopted again.
  auto adoptContainer = [=](const Result<Done>& updated) -> Future<Result<Done>> {
    if (updated.ok() || updated.problem->status != 404 || !find(sent.container, version)) {
      return updated;
    }
    return callDaemon<Grant>([=](const Client& client) { return client.prepare(sent, by); }).then(defer(self(), isolate));
  };
  if (!c.known) {
    return adoptContainer(Problem{Problem::Kind::refused, "", 404});
  }
  return callDaemon<Done>([=](const Client& client) -> Result<Done> {
           auto updated = client.update(sent.container, sent.resources, by);
           return updated.ok() ? Result<Done>(Done{}) : Result<Done>(*updated.problem);
         })
      .then(defer(self(), adoptContainer));
}

void GpuProcess::handleUpdateResult(const std::string& id, const Request& sent, unsigned long version, const Result<Done>& r) {
  adoptionsInFlight_--;
  Container* c = find(id, version);
  if (!c) {
    requestSync();
    return;
  }
  c->updating = false;
  if (r.ok()) {
    c->known = true;
    c->granted = sent.resources;
  }
  std::vector<Waiter> waiting;
  for (Waiter& w : c->waiters) {
    const bool timedOut = w.deadline.isSome() && (!r.ok() && (!isUnavailable(*r.problem) || timeUntil(*w.deadline) <= callRetryInterval));
    if (w.version > version) {
      waiting.push_back(w);
    } else if (r.ok()) {
      w.promise->set(Nothing());
    } else if (timedOut || r.problem->kind == Problem::Kind::refused) {
      w.promise->fail(r.problem->message);
    } else {
      waiting.push_back(w);
    }
  }
  LOG_IF(WARNING, !r.ok() && c->warnedVersion != version) << r.problem->message << "; the call is repeated until the daemon answers";
  c->warnedVersion = version;
  c->waiters = std::move(waiting);
  if (r.ok()) {
    pushUpdate(id);
  } else if (!c->waiters.empty()) {
    const bool urgent = std::any_of(c->waiters.begin(), c->waiters.end(), [](const Waiter& w) { return w.deadline.isSome(); });
    process::Clock::cancel(c->retryTimer);
    c->retryTimer = process::delay(urgent ? callRetryInterval : backgroundRetryInterval, self(), &GpuProcess::pushUpdate, id);
  }
}

Future<Nothing> GpuProcess::cleanup(const ContainerID& containerId) {
  const std::string id = containerName(containerId);
  bool debug = false, isRequired = false;
  if (Container* c = find(id)) {
    debug = c->debug;
    isRequired = !c->request.resources.empty() || c->granted.isNone() || !c->granted->empty();
    for (Waiter& w : c->waiters) {
      w.promise->set(Nothing());  // cleanup releases all resources of the container
    }
    containers_.erase(id);
  }
  if (debug) {
    return Nothing();
  }
  const auto by = deadline(isRequired);
  // A concurrent recovery that lists the container would adopt it again.
  return process::undiscardable((runningSync_.isSome() ? *runningSync_ : Future<Result<Done>>(Result<Done>(Done{})))
      .then(defer(self(), [=](const Result<Done>&) {
        return callDaemon<Done>([=](const Client& client) { return client.cleanup(id, by); });
      }))
      .then(defer(self(), [=](const Result<Done>& r) -> Nothing {
        if (!r.ok()) {
          LOG(WARNING) << r.problem->message << "; the next recovery reports it to the daemon";
          requestSync();
        }
        return Nothing();
      })));
}

}  // namespace mesosgpu
