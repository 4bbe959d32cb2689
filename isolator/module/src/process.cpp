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
constexpr std::chrono::milliseconds brief(1000);

// Delays before a call is repeated: while another call is running, while a
// caller waits for the daemon, and otherwise.
const Duration shortPause = Milliseconds(20), pause = Milliseconds(200), longPause = Seconds(1);

constexpr const char* unconfinedToo =
    "; with cgroup v2 no container is launched, with GPUs or without, before the daemon has answered once since the agent's start: it confines them all";

Duration until(Deadline deadline) {
  return Nanoseconds(std::chrono::duration_cast<std::chrono::nanoseconds>(deadline - Clock::now()).count());
}

// The daemon rejects a whole list for one invalid ID, and frameworks choose the
// IDs of nested containers.
bool speakable(const std::string& id) {
  return id.size() <= 512 && id.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-") == std::string::npos;
}

bool isAway(const Problem& p) { return p.kind == Problem::Kind::away; }

// A call that is rejected while other containers release devices may succeed
// later.
template <typename T>
Result<T> hopeful(Result<T> r, bool givenBack) {
  if (!r.ok() && r.problem->status == 409 && givenBack) {
    r.problem->kind = Problem::Kind::away;
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

GpuProcess::Container* GpuProcess::find(const std::string& id, unsigned long turn) {
  Container* c = find(id);
  return c && c->since <= turn ? c : nullptr;
}

bool GpuProcess::required(const Container& c) {
  if (!c.request.resources.empty() || unconfined()) {
    return true;
  }
  // A nested container with its own root needs nodes for inherited GPUs.
  const auto dot = c.request.container.find('.');
  const Container* root = dot == std::string::npos ? nullptr : find(c.request.container.substr(0, dot));
  return root && c.request.rootfs && !root->request.resources.empty();
}

Deadline GpuProcess::deadline(bool required) const {
  return Clock::now() + (required ? config_.timeout : std::min(config_.timeout, brief));
}

template <typename T>
Future<Result<T>> GpuProcess::ask(std::function<Result<T>(const Client&)> call) {
  auto promise = std::make_shared<Promise<Result<T>>>();
  pool_.run([promise, call, client = client_] { promise->set(call(*client)); });
  return process::undiscardable(promise->future());
}

template <typename T>
Future<Result<T>> GpuProcess::persist(Deadline deadline, std::function<Future<Result<T>>()> once) {
  return once().then(defer(self(), [=](const Result<T>& r) -> Future<Result<T>> {
    if (r.ok() || !isAway(*r.problem) || until(deadline) <= pause) {
      return r;
    }
    return process::after(pause).then(defer(self(), [=](const Nothing&) { return persist<T>(deadline, once); }));
  }));
}

Future<Nothing> GpuProcess::recover(const std::vector<ContainerState>& states, const hashset<ContainerID>& orphans) {
  for (const ContainerState& state : states) {
    Container& c = containers_[text(state.container_id())];
    c.request = request(state);
    c.known = true;
    c.pid = static_cast<int>(state.pid());
  }
  for (const ContainerID& orphan : orphans) {
    Container& c = containers_[text(orphan)];
    c.request.container = text(orphan);
    c.known = true;
  }
  changes_++;
  return sync().then([](const Result<Done>&) { return Nothing(); });
}

Future<Result<Done>> GpuProcess::sync() {
  if (syncing_.isSome()) {
    return *syncing_;
  }
  if (told_ == changes_) {
    return Result<Done>(Done{});
  }
  if (entering_ > 0) {
    return process::after(shortPause).then(defer(self(), [=](const Nothing&) { return sync(); }));
  }
  std::vector<std::string> live;
  for (const auto& [id, c] : containers_) {
    if (c.known && speakable(id)) {
      live.push_back(id);
    }
  }
  const auto changes = changes_;
  const auto by = deadline(true);
  syncing_ = process::undiscardable(
      ask<Done>([live, by](const Client& client) { return client.recover(live, by); })
          .then(defer(self(), [=](const Result<Done>& r) -> Result<Done> {
            syncing_ = None();
            if (r.ok()) {
              told_ = changes;
              LOG(INFO) << "The GPU daemon knows of " << live.size() << " live containers";
            } else {
              LOG_IF(WARNING, !syncScheduled_) << r.problem->message << "; it is told again until it has heard";
              syncLater();
            }
            return r;
          })));
  return *syncing_;
}

void GpuProcess::syncLater() {
  if (syncScheduled_) {
    return;
  }
  syncScheduled_ = true;
  process::after(longPause).onReady(defer(self(), [=](const Nothing&) {
    sync().onReady(defer(self(), [=](const Result<Done>&) {
      syncScheduled_ = false;
      if (told_ != changes_) {
        syncLater();
      }
    }));
  }));
}

void GpuProcess::syncAgain() {
  changes_++;
  syncLater();
}

Future<Result<Grant>> GpuProcess::enter(const std::string& id, Deadline by) {
  const Container* c = find(id);
  if (!c) {
    return Result<Grant>(Problem{Problem::Kind::refused, "prepare container " + id + ": it has been cleaned up"});
  }
  const Request request = c->request;
  const auto turn = c->turn;
  const bool givenBack = giveBack(id);
  entering_++;
  return process::undiscardable(ask<Grant>([=](const Client& client) { return client.prepare(request, by); })
                                    .then(defer(self(), [=](const Result<Grant>& r) {
                                      entering_--;
                                      Container* c = find(id, turn);
                                      if (!c) {
                                        syncAgain();
                                      } else if (r.ok()) {
                                        c->known = true;
                                        c->granted = request.resources;
                                      }
                                      return hopeful(r, givenBack);
                                    })));
}

Future<Result<Grant>> GpuProcess::grant(const std::string& id, Deadline by) {
  const Problem late{Problem::Kind::away, "the GPU daemon at " + config_.socket + " has not answered in time; look at its log, or give the module a longer timeout"};
  return sync()
      .after(std::max(Duration::zero(), until(by)), [=](const Future<Result<Done>>&) { return Future<Result<Done>>(Result<Done>(late)); })
      .then(defer(self(), [=](const Result<Done>& synced) -> Future<Result<Grant>> {
        if (!synced.ok()) {
          Problem p = *synced.problem;
          p.message = "prepare container " + id + ": " + p.message;
          return Result<Grant>(p);
        }
        // Another recovery may have started in the meantime.
        return syncing_.isSome() || told_ != changes_ ? grant(id, by) : enter(id, by);
      }));
}

Future<Option<ContainerLaunchInfo>> GpuProcess::prepare(const ContainerID& containerId, const ContainerConfig& config) {
  const std::string id = text(containerId);
  Container& fresh = containers_[id];
  fresh = Container();
  fresh.request = request(containerId, config);
  fresh.granted = Amounts();
  fresh.debug = isDebug(config);
  fresh.since = fresh.turn = ++turns_;
  if (fresh.debug) {
    return None();
  }
  const bool must = required(fresh);
  const auto by = deadline(must);
  std::function<Future<Result<Grant>>()> once = [=] { return grant(id, by); };
  return (must ? persist<Grant>(by, once) : once())
      .then(defer(self(), [=](const Result<Grant>& r) -> Future<Option<ContainerLaunchInfo>> {
        ContainerLaunchInfo launch;
        Option<std::string> problem = r.ok() ? Option<std::string>::none() : r.problem->message;
        if (r.ok() && config.has_rootfs()) {
          Try<Nothing> furnished = furnish(r.value, containerId, config.rootfs(), config_.runtimeDir, launch);
          problem = furnished.isError() ? Option<std::string>("prepare container " + id + ": " + furnished.error()) : None();
        }
        const Container* c = find(id);
        if (problem.isSome() && (c ? required(*c) : must)) {
          return Failure(*problem + (unconfined() ? unconfinedToo : ""));
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
  const std::string id = text(containerId);
  Container* c = find(id);
  if (c) {
    c->pid = pid;
  }
  if (!c || !c->known || c->debug) {
    return Nothing();
  }
  const bool must = required(*c);
  const auto by = deadline(must);
  std::function<Future<Result<Done>>()> once = [=] {
    return ask<Done>([=](const Client& client) { return client.isolate(id, pid, by); });
  };
  return (must ? persist<Done>(by, once) : once()).then([=](const Result<Done>& r) -> Future<Nothing> {
    if (!r.ok() && must) {
      return Failure(r.problem->message);
    }
    LOG_IF(WARNING, !r.ok()) << r.problem->message << "; it has no GPUs and is launched";
    return Nothing();
  });
}

Future<Nothing> GpuProcess::update(const ContainerID& containerId, const mesos::Resources& resources) {
  const std::string id = text(containerId);
  Container* c = find(id);
  if (!c || c->debug) {
    return Nothing();
  }
  const Amounts wanted = gpus(resources);
  if (c->granted.isSome() && *c->granted == wanted && c->request.resources == wanted) {
    return Nothing();
  }
  // After an agent restart an update never adds resources.
  const bool restarted = c->turn == 0;
  const bool grows = !restarted && !(contains(c->request.resources, wanted) && (c->granted.isNone() || contains(*c->granted, wanted)));
  c->request.resources = wanted;
  c->turn = ++turns_;
  auto promise = std::make_shared<Promise<Nothing>>();
  Waiter waiter{c->turn, grows ? Option<Deadline>(deadline(true)) : None(), promise};
  c->waiters.push_back(std::move(waiter));
  push(id);
  // An update to no resources need not wait for the daemon. The daemon's own
  // records, not Mesos's, prevent devices from being assigned twice, and
  // cleanup reports the end of the task.
  return wanted.empty() ? Future<Nothing>(Nothing()) : promise->future();
}

bool GpuProcess::giveBack(const std::string& id) {
  bool any = false;
  for (const auto& [other, c] : containers_) {
    if (other != id && !c.waiters.empty() && (c.granted.isNone() || !contains(c.request.resources, *c.granted))) {
      any = true;
      push(other);
    }
  }
  return any;
}

void GpuProcess::push(const std::string& id) {
  Container* c = find(id);
  if (!c || c->asking || c->waiters.empty()) {
    return;
  }
  if (syncing_.isSome()) {
    syncing_->onAny(defer(self(), [=](const Future<Result<Done>>&) { push(id); }));
    return;
  }
  c->asking = true;
  entering_++;
  auto by = deadline(true);
  bool grows = false;
  for (const Waiter& w : c->waiters) {
    grows = grows || w.deadline.isSome();
    by = w.deadline.isSome() ? std::min(by, *w.deadline) : by;
  }
  const bool givenBack = grows && giveBack(id);
  const auto turn = c->turn;
  const Request told = c->request;
  tell(*c, by).onReady(defer(self(), [=](const Result<Done>& r) { pushed(id, told, turn, hopeful(r, givenBack)); }));
}

Future<Result<Done>> GpuProcess::tell(const Container& c, Deadline by) {
  const Request told = c.request;
  const auto turn = c.turn;
  const int pid = c.pid;
  auto isolate = [=](const Result<Grant>& prepared) -> Future<Result<Done>> {
    if (!prepared.ok() || !find(told.container, turn)) {
      return prepared.ok() ? Result<Done>(Done{}) : Result<Done>(*prepared.problem);
    }
    return ask<Done>([=](const Client& client) { return client.isolate(told.container, pid, by); });
  };
  // A container that has ended meanwhile is unknown to the daemon and must not
  // be adopted again.
  auto takeIn = [=](const Result<Done>& updated) -> Future<Result<Done>> {
    if (updated.ok() || updated.problem->status != 404 || !find(told.container, turn)) {
      return updated;
    }
    return ask<Grant>([=](const Client& client) { return client.prepare(told, by); }).then(defer(self(), isolate));
  };
  if (!c.known) {
    return takeIn(Problem{Problem::Kind::refused, "", 404});
  }
  return ask<Done>([=](const Client& client) -> Result<Done> {
           auto updated = client.update(told.container, told.resources, by);
           return updated.ok() ? Result<Done>(Done{}) : Result<Done>(*updated.problem);
         })
      .then(defer(self(), takeIn));
}

void GpuProcess::pushed(const std::string& id, const Request& told, unsigned long turn, const Result<Done>& r) {
  entering_--;
  Container* c = find(id, turn);
  if (!c) {
    syncAgain();
    return;
  }
  c->asking = false;
  if (r.ok()) {
    c->known = true;
    c->granted = told.resources;
  }
  std::vector<Waiter> waiting;
  for (Waiter& w : c->waiters) {
    const bool late = w.deadline.isSome() && (!r.ok() && (!isAway(*r.problem) || until(*w.deadline) <= pause));
    if (w.turn > turn) {
      waiting.push_back(w);
    } else if (r.ok()) {
      w.promise->set(Nothing());
    } else if (late || r.problem->kind == Problem::Kind::refused) {
      w.promise->fail(r.problem->message);
    } else {
      waiting.push_back(w);
    }
  }
  LOG_IF(WARNING, !r.ok() && c->warned != turn) << r.problem->message << "; it is told again until it has heard";
  c->warned = turn;
  c->waiters = std::move(waiting);
  if (r.ok()) {
    push(id);
  } else if (!c->waiters.empty()) {
    const bool hurry = std::any_of(c->waiters.begin(), c->waiters.end(), [](const Waiter& w) { return w.deadline.isSome(); });
    process::Clock::cancel(c->again);
    c->again = process::delay(hurry ? pause : longPause, self(), &GpuProcess::push, id);
  }
}

Future<Nothing> GpuProcess::cleanup(const ContainerID& containerId) {
  const std::string id = text(containerId);
  bool debug = false, must = false;
  if (Container* c = find(id)) {
    debug = c->debug;
    must = !c->request.resources.empty() || c->granted.isNone() || !c->granted->empty();
    for (Waiter& w : c->waiters) {
      w.promise->set(Nothing());  // cleanup releases all resources of the container
    }
    containers_.erase(id);
  }
  if (debug) {
    return Nothing();
  }
  const auto by = deadline(must);
  // A concurrent recovery that lists the container would adopt it again.
  return process::undiscardable((syncing_.isSome() ? *syncing_ : Future<Result<Done>>(Result<Done>(Done{})))
      .then(defer(self(), [=](const Result<Done>&) {
        return ask<Done>([=](const Client& client) { return client.cleanup(id, by); });
      }))
      .then(defer(self(), [=](const Result<Done>& r) -> Nothing {
        if (!r.ok()) {
          LOG(WARNING) << r.problem->message << "; it learns of it when it is back";
          syncAgain();
        }
        return Nothing();
      })));
}

}  // namespace mesosgpu
