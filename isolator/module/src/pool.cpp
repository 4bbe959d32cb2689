#include "pool.hpp"

#include <pthread.h>
#include <signal.h>

#include <system_error>

namespace mesosgpu {
namespace {

// Blocks all signals while a thread starts. The new thread inherits the mask,
// so signals to the agent reach the agent's own threads.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_;
};

}  // namespace

Pool::Pool(std::size_t maxThreads) : maxThreads_(maxThreads) {
  threads_.reserve(maxThreads);
  startThread();
}

Pool::~Pool() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    stopping_ = true;
  }
  jobAdded_.notify_all();
  for (auto& thread : threads_) {
    thread.join();
  }
}

void Pool::submit(std::function<void()> job) {
  std::lock_guard<std::mutex> lock(mutex_);
  jobs_.push_back(std::move(job));
  if (jobs_.size() > idle_ && threads_.size() < maxThreads_) {
    try {
      startThread();
    } catch (const std::system_error&) {
      // The host cannot start another thread; the existing threads run the job.
    }
  }
  jobAdded_.notify_one();
}

void Pool::startThread() {
  SignalsBlocked blocked;
  threads_.emplace_back([this] { runJobs(); });
}

void Pool::runJobs() {
  std::unique_lock<std::mutex> lock(mutex_);
  for (;;) {
    idle_++;
    jobAdded_.wait(lock, [this] { return stopping_ || !jobs_.empty(); });
    idle_--;
    if (jobs_.empty()) {
      return;
    }
    auto job = std::move(jobs_.front());
    jobs_.pop_front();
    lock.unlock();
    job();
    job = nullptr;  // destroy the job's captures before the lock is taken
    lock.lock();
  }
}

}  // namespace mesosgpu
