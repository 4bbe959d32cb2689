// Threads for blocking calls, so that the agent's threads never block.
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
  // Starts one thread. Further threads start on demand, up to maxThreads in total.
  // Throws std::system_error if the first thread cannot be started.
  explicit Pool(std::size_t maxThreads);
  // Waits until all jobs are done, including queued ones.
  ~Pool();

  // Queues a job. If no further thread can be started, it waits for an existing
  // one.
  void submit(std::function<void()> job);

 private:
  void startThread();
  void runJobs();

  const std::size_t maxThreads_;
  std::mutex mutex_;
  std::condition_variable jobAdded_;
  std::deque<std::function<void()>> jobs_;
  std::vector<std::thread> threads_;
  std::size_t idle_ = 0;
  bool stopping_ = false;
};

}  // namespace mesosgpu
