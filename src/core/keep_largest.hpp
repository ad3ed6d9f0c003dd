// The largest of what several threads say, or several processes.
#pragma once

#include <atomic>

namespace mgi {

// relaxed: the value stands for itself. Whether `value` is the largest, and new.
template <class T>
bool keep_largest(std::atomic<T>& word, T value) {
    T known = word.load(std::memory_order_relaxed);
    while (known < value) {
        if (word.compare_exchange_weak(known, value, std::memory_order_relaxed)) return true;
    }
    return false;
}

}  // namespace mgi
