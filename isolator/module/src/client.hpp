// A client of the GPU daemon's API (docs/reference/agent-api.md). It does not depend
// on Mesos. Every call blocks until it is answered or its deadline expires. No
// call throws. Many threads may use one Client concurrently.
#pragma once

#include <atomic>
#include <chrono>
#include <string>
#include <vector>

#include "api.hpp"

namespace mesosgpu {

using Clock = std::chrono::steady_clock;
using Deadline = Clock::time_point;

class Client {
 public:
  // The socket's path is absolute and has at most 107 bytes; it is first
  // checked by a call. The first Client initializes libcurl. A static Client
  // must therefore live until main returns; any other must be created after
  // main has started.
  explicit Client(std::string socket);

  Result<Done> recover(const std::vector<std::string>& containers, Deadline) const noexcept;
  Result<Grant> prepare(const Request&, Deadline) const noexcept;
  Result<Done> isolate(const std::string& container, int pid, Deadline) const noexcept;
  // Returns the devices that the container holds now.
  Result<std::vector<std::string>> update(const std::string& container, const Amounts&, Deadline) const noexcept;
  Result<Done> cleanup(const std::string& container, Deadline) const noexcept;

  // Ends current and future calls with Problem::Kind::unavailable.
  void stop() noexcept { stopped_ = true; }

 private:
  struct Call;
  // Posts a body and returns the body of the response.
  Result<std::string> post(const Call&, const std::string& body, Deadline) const;
  template <typename T, typename Encode, typename Decode>
  Result<T> callDaemon(const Call&, Deadline, Encode, Decode) const noexcept;

  std::string socket_;
  std::atomic<bool> stopped_{false};
};

}  // namespace mesosgpu
