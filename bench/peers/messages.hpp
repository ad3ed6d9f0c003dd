/// \file
/// Segments as a library's messages; those of a process to itself stay in a ring of its own.
#pragma once

#include "peers/shared.hpp"
#include "perf/buffer.hpp"

namespace mgi::peers {

/// A library implements sends and receives that are started and asked for; messages between two
/// processes come in the order in which they were sent.
class Messages : public Carrier {
public:
    explicit Messages(Options const& options);

    void barrier() final;
    char* open(std::uint32_t to) final;
    void publish(std::uint32_t to, std::uint32_t rows, bool last) final;
    std::optional<Arrived> arrived(std::uint32_t from) final;
    void release(std::uint32_t from) final;
    bool all_left() final;

protected:
    /// One slot's message, by number among all of them: requests go into arrays of so many.
    struct Message {
        std::uint32_t number;
        std::uint32_t peer;
        char* data;
        std::uint32_t bytes;
    };
    [[nodiscard]] std::uint32_t count() const { return options_.processes * segments_.slots; }
    [[nodiscard]] Options const& options() const { return options_; }

    virtual void meet() = 0;
    virtual void start_send(Message const& message) = 0;
    virtual bool sent(std::uint32_t number) = 0;  ///< true as well where nothing was ever sent
    virtual void start_receive(Message const& message) = 0;
    virtual bool received(std::uint32_t number) = 0;

private:
    struct Head {
        std::uint32_t rows;
        std::uint32_t last;
    };
    static constexpr std::uint32_t kHead = 64;

    [[nodiscard]] std::uint32_t number(std::uint32_t peer, std::uint64_t next) const {
        return (peer * segments_.slots) + std::uint32_t(next % segments_.slots);
    }
    [[nodiscard]] char* message(perf::Buffer<char> const& buffer, std::uint32_t number) const {
        return buffer.get() + (std::uint64_t(number) * (kHead + segments_.bytes));
    }
    [[nodiscard]] std::uint32_t used_bytes(std::uint32_t rows) const;
    void expect(std::uint32_t from, std::uint64_t next);

    Options const options_;
    Segments const segments_;
    perf::Buffer<char> out_;
    perf::Buffer<char> in_;
    std::vector<std::uint64_t> next_out_;  ///< by rank
    std::vector<std::uint64_t> next_in_;
    bool expects_ = false;
    perf::Buffer<char> own_;
    Ring own_out_;
    Ring own_in_;
};

}  // namespace mgi::peers
