#include "pool.hpp"

#include <pthread.h>
#include <signal.h>

namespace mesosgpu {

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
    // A signal to the agent is for the agent's threads.
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    threads_.emplace_back([this] { work(); });
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }
  more_.notify_one();
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
    job = nullptr;  // what it holds goes before the lock is taken again
    lock.lock();
  }
}

}  // namespace mesosgpu
