// Epoch and ids in a file: never given twice, and what is damaged is said.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "control/controller/state_file.hpp"
#include "support/expect_error.hpp"

namespace mgi::control::test {
namespace {

namespace fs = std::filesystem;
using mgi::test::expect_error;

struct ControlStateFile : ::testing::Test {
    fs::path const folder =
        fs::path(::testing::TempDir()) / ("mgi-state-" + std::to_string(getpid()));
    fs::path const file = folder / "state";

    void SetUp() override { fs::create_directories(folder); }
    void TearDown() override { fs::remove_all(folder); }
    std::string text() const {
        std::ifstream in(file);
        std::stringstream all;
        all << in.rdbuf();
        return all.str();
    }
    void write(std::string const& content) const { std::ofstream(file) << content; }
};

TEST_F(ControlStateFile, IdsAndEpochsGoOn) {
    {
        StateFile state(file);
        EXPECT_EQ(state.epoch(), 1u);
        EXPECT_EQ(state.reserve(IdKind::Channel, 100).first, 1u);
        EXPECT_EQ(state.reserve(IdKind::Channel, 100).first, 101u);
        EXPECT_EQ(state.reserve(IdKind::Agent, 5).first, 1u);
    }
    StateFile state(file);
    EXPECT_EQ(state.epoch(), 2u);
    EXPECT_EQ(state.reserve(IdKind::Channel, 1).first, 201u);
    EXPECT_EQ(state.reserve(IdKind::Agent, 1).first, 6u);
    EXPECT_EQ(state.reserve(IdKind::Endpoint, 1).first, 1u);
}

TEST_F(ControlStateFile, TwoControllersDoNotShareIt) {
    StateFile const state(file);
    expect_error(ErrorCode::Refused, {file.string(), "another controller"},
                 [&] { StateFile const second(file); });
}

TEST_F(ControlStateFile, DamageIsSaidWithItsLine) {
    {
        StateFile const state(file);
    }
    std::string const good = text();
    auto const damaged = [&](std::string const& content, std::string const& line) {
        write(content);
        expect_error(ErrorCode::InvalidArgument, {file.string(), "line " + line, "damaged"},
                     [&] { StateFile const state(file); });
    };
    damaged("", "1");
    damaged("something else\n", "1");
    damaged(std::string(100'000, 'x'), "1");
    for (std::size_t keep = 1; keep < good.size(); ++keep) {  // cut short, anywhere
        write(good.substr(0, keep));
        EXPECT_THROW(StateFile{file}, Error) << keep;
    }
    for (std::size_t at = 0; at < good.size(); ++at) {  // one byte changed, anywhere
        std::string bad = good;
        bad[at] = static_cast<char>(bad[at] ^ 1);
        write(bad);
        EXPECT_THROW(StateFile{file}, Error) << at;
    }
    damaged(good + "x", "6");
    write(good);
    EXPECT_EQ(StateFile(file).epoch(), 2u);
}

TEST_F(ControlStateFile, IdsUsedUpAreAnError) {
    StateFile state(file);
    state.reserve(IdKind::Agent, 4'000'000'000u);
    expect_error(ErrorCode::OutOfMemory, {"agent ids are used up"},
                 [&] { state.reserve(IdKind::Agent, 300'000'000u); });
    EXPECT_EQ(state.reserve(IdKind::Agent, 294'967'295u).first, 4'000'000'001u);
    EXPECT_THROW(state.reserve(IdKind::Agent, 1), Error);
}

TEST_F(ControlStateFile, AFolderThatIsNotThereIsAnError) {
    expect_error(ErrorCode::Refused, {"cannot be opened"},
                 [&] { StateFile const state(folder / "none" / "state"); });
}

// What others could have put there, or could replace.
TEST_F(ControlStateFile, OthersLinksAndFoldersAreRefused) {
    std::ofstream(folder / "precious") << "kept";
    fs::create_symlink(folder / "precious", file.string() + ".lock");
    expect_error(ErrorCode::Refused, {".lock", "cannot be opened"},
                 [&] { StateFile const state(file); });
    fs::remove(file.string() + ".lock");
    fs::create_symlink(folder / "precious", file.string() + ".new");
    {
        StateFile const state(file);
    }
    EXPECT_EQ(fs::file_size(folder / "precious"), 4u);
    fs::rename(file, folder / "elsewhere");
    fs::create_symlink(folder / "elsewhere", file);
    expect_error(ErrorCode::Refused, {file.string(), "a file of this user's"},
                 [&] { StateFile const state(file); });
    fs::rename(folder / "elsewhere", file);
    fs::permissions(folder, fs::perms::all);
    expect_error(ErrorCode::Refused, {folder.string(), "written to by everybody", "--state"},
                 [&] { StateFile const state(file); });
    fs::permissions(folder, fs::perms::all | fs::perms::sticky_bit);  // as /tmp
    EXPECT_EQ(StateFile(file).epoch(), 2u);
}

}  // namespace
}  // namespace mgi::control::test
