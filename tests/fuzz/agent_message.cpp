#include <mgi/error.hpp>

#include "control/local/use_words.hpp"
#include "control/local/words.hpp"
#include "fuzz/targets.hpp"

namespace mgi::fuzz {

void agent_message(Input input) {
    using namespace control;
    std::string const bytes(input.all());
    try {
        Json const message = message_from(bytes);
        // What was read is written and read as the same.
        std::string const frame = frame_of(message);
        require(frame_of(message_from(std::string_view(frame).substr(4))) == frame,
                "a message is what it was");
        (void)plan_in(message);
    } catch (Error const& error) {
        require(error.code() == ErrorCode::InvalidArgument, "what is refused is an argument",
                error.what());
    }
    try {
        (void)use_in(message_from(bytes));
    } catch (Error const& error) {
        require(error.code() == ErrorCode::InvalidArgument, "what is refused is an argument",
                error.what());
    }
    try {
        FrameReader reader(1u << 12);
        for (std::size_t at = 0; at < bytes.size(); at += 7) {
            std::string const piece = bytes.substr(at, 7);
            reader.add(piece.data(), piece.size());
            while (auto const message = reader.next()) (void)spec_in(*message);
        }
    } catch (Error const& error) {
        require(error.code() == ErrorCode::InvalidArgument, "what is refused is an argument",
                error.what());
    }
}

}  // namespace mgi::fuzz
