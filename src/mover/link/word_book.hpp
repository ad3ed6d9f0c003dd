// The words of this end: the latest value of each, until the other end has it.
#pragma once

#include <compare>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <utility>

#include "mover/link/frame.hpp"
#include "mover/link/types.hpp"

namespace mgi::mover::link {

// Names a word, or a report, which is a word of the link's own: (Report, generation, slot).
struct WordName {
    FrameKind frame = FrameKind::Word;
    std::uint64_t channel = 0;
    std::uint32_t kind = 0;
    std::uint32_t source = 0;
    std::uint32_t destination = 0;
    friend auto operator<=>(WordName const&, WordName const&) = default;
};

// A value is said again whenever the wire that carried it has died.
class WordBook {
public:
    static WordName name_of(Word const& word) {
        return {FrameKind::Word, word.channel, word.kind, word.source, word.destination};
    }

    // Older values than the one that is known are nothing new.
    void say(WordName const& name, Word word) {
        if (word.text.size() > kMostText) word.text.resize(kMostText);
        auto const [at, fresh] = words_.try_emplace(name);
        if (!fresh && word.value <= at->second.word.value) return;
        at->second.word = std::move(word);
        wait(at->first, at->second);
    }
    // The next word that waits to be said; it counts as on its way from now on.
    [[nodiscard]] std::optional<std::pair<WordName, Word>> next() {
        while (!waiting_.empty()) {
            WordName const name = waiting_.front();
            waiting_.pop_front();
            auto const at = words_.find(name);
            if (at == words_.end()) continue;  // acknowledged meanwhile
            at->second.waits = false;
            return std::pair(name, at->second.word);
        }
        return std::nullopt;
    }
    void acknowledged(WordName const& name, std::uint64_t value) {
        auto const at = words_.find(name);
        if (at != words_.end() && at->second.word.value == value) words_.erase(at);
    }
    // Its wire died.
    void lost(WordName const& name) {
        auto const at = words_.find(name);
        if (at != words_.end()) wait(name, at->second);
    }
    [[nodiscard]] bool has_waiting() const { return !waiting_.empty(); }
    [[nodiscard]] bool empty() const { return words_.empty(); }

private:
    struct Entry {
        Word word;
        bool waits = false;
    };
    void wait(WordName const& name, Entry& entry) {
        if (entry.waits) return;
        entry.waits = true;
        waiting_.push_back(name);
    }
    std::map<WordName, Entry> words_;
    std::deque<WordName> waiting_;
};

}  // namespace mgi::mover::link
