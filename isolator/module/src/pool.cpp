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

Pool::Pool(std::size_t most) : most_(most) {
  threads_.reserve(most);
  start();
}

Pool::~Pool() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    ending_ = true;
  }
  more_.notify_all();
  for (auto& thread : threads_) {
    thread.join();
  }
}

void Pool::run(std::function<void()> job) {
  std::lock_guard<std::mutex> lock(mutex_);
  jobs_.push_back(std::move(job));
  if (jobs_.size() > idle_ && threads_.size() < most_) {
    try {
      start();
    } catch (const std::system_error&) {
      // The host cannot start another thread; the existing threads run the job.
    }
  }
  more_.notify_one();
}

void Pool::start() {
  SignalsBlocked blocked;
  threads_.emplace_back([this] { work(); });
}

void Pool::work() {
  std::unique_lock<std::mutex> lock(mutex_);
  for (;;) {
    idle_++;
    more_.wait(lock, [this] { return ending_ || !jobs_.empty(); });
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
