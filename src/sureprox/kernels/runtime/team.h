// The threads that help a calling thread. They sleep when there is nothing to do, and nobody waits for one that has not
// begun: beside busy processes a thread that is asked for help may come milliseconds later, or when all is done.
#pragma once
#include <unistd.h>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

// Looks again and again, for a few microseconds: as long as it takes to put a thread to sleep and to wake it up.
template <class Condition> bool soon(const Condition& condition) {
    constexpr std::chrono::microseconds PATIENCE(20);
    const auto until = std::chrono::steady_clock::now() + PATIENCE;
    do {
        for (int i = 0; i < 16; i++) {
            if (condition()) return true;
#if defined(__x86_64__) || defined(__i386__)
            __builtin_ia32_pause();
#endif
        }
    } while (std::chrono::steady_clock::now() < until);
    return false;
}

class Team {
    std::mutex lock;  // of all that is not atomic; what is atomic changes under it too
    std::condition_variable wake, done;
    std::vector<std::thread> helpers;
    const std::function<void()>* job = nullptr;  // none while nobody may begin
    int places = 0;                              // for helpers that have not begun yet
    bool over = false;
    std::atomic<uint64_t> round{0};  // the number of the job
    std::atomic<int> active{0};      // helpers at work

    void help() {
        for (uint64_t seen = 0;;) {
            soon([&] { return round.load(std::memory_order_relaxed) != seen; });
            std::unique_lock<std::mutex> hold(lock);
            wake.wait(hold, [&] { return over || round != seen; });
            if (over) return;
            seen = round;
            if (!job || places == 0) continue;
            places--, active++;
            const auto& work = *job;
            hold.unlock();
            work();
            hold.lock();
            if (--active == 0) done.notify_one();
        }
    }

    void grow(size_t count) {
        try {
            while (helpers.size() < count) helpers.emplace_back([this] { help(); });
        } catch (const std::system_error&) {  // no more threads for this process: fewer will do
        }
    }

  public:
    Team() = default;
    Team(const Team&) = delete;
    ~Team() {
        {
            std::lock_guard<std::mutex> hold(lock);
            over = true;
        }
        wake.notify_all();
        for (auto& helper : helpers) helper.join();
    }

    // work() in this thread and in at most `count` others; back when all that have begun are done.
    void run(int count, const std::function<void()>& work) {
        grow(count);
        {
            std::lock_guard<std::mutex> hold(lock);
            job = &work, places = count, round++;
        }
        wake.notify_all();
        work();
        std::unique_lock<std::mutex> hold(lock);
        job = nullptr;
        if (active == 0) return;
        hold.unlock();
        soon([&] { return active.load(std::memory_order_relaxed) == 0; });
        hold.lock();
        done.wait(hold, [&] { return active == 0; });
    }
};

// The team of the calling thread. A forked process has the memory of its parent's teams, but none of their threads.
inline Team& team() {
    struct Own {
        Team* team = nullptr;
        pid_t process = 0;
        ~Own() {
            if (process == getpid()) delete team;
        }
    };
    thread_local Own own;
    if (own.process != getpid()) own.team = new Team, own.process = getpid();
    return *own.team;
}
