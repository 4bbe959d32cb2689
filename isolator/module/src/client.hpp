// A client of the GPU daemon's API (docs/isolator-api.md). It knows nothing
// of Mesos. Every call blocks until it is answered or its deadline is there;
// none throws. One Client may be used by many threads at once.
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
  // The socket's path is absolute and has at most 107 bytes; Client does not
  // look at it before the first call. A Client must live until main returns
  // or be made after it began: libcurl is set up by the first.
  explicit Client(std::string socket);

  Result<Done> recover(const std::vector<std::string>& containers, Deadline) const noexcept;
  Result<Grant> prepare(const Request&, Deadline) const noexcept;
  Result<Done> isolate(const std::string& container, int pid, Deadline) const noexcept;
  // Returns the devices that the container holds now.
  Result<std::vector<std::string>> update(const std::string& container, const Amounts&, Deadline) const noexcept;
  Result<Done> cleanup(const std::string& container, Deadline) const noexcept;

  // Ends the calls under way, and all later ones, with Problem::Kind::away.
  void stop() noexcept { stopped_ = true; }

 private:
  struct Call;
  // Posts a body and returns the answer's.
  Result<std::string> post(const Call&, const std::string& body, Deadline) const;
  template <typename T, typename Encode, typename Decode>
  Result<T> ask(const Call&, Deadline, Encode, Decode) const noexcept;

  std::string socket_;
  std::atomic<bool> stopped_{false};
};

}  // namespace mesosgpu
