// Threads for calls that block, so that none of the agent's own ever does.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace mesosgpu {

class Pool {
 public:
  // Starts one thread, and no more than that in all, each when it is first
  // needed. Throws std::system_error where there cannot be even the one.
  explicit Pool(std::size_t most);
  // Returns when all jobs are done, those that wait as well.
  ~Pool();

  // Where no further thread can be started the job waits for one there is.
  void run(std::function<void()> job);

 private:
  void start();
  void work();

  const std::size_t most_;
  std::mutex mutex_;
  std::condition_variable more_;
  std::deque<std::function<void()>> jobs_;
  std::vector<std::thread> threads_;
  std::size_t idle_ = 0;
  bool ending_ = false;
};

}  // namespace mesosgpu
