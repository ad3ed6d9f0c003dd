// Files at places that others know, too.
#include "core/private_files.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>

#include "support/expect_error.hpp"

namespace mgi {
namespace {

namespace fs = std::filesystem;

class PrivateFiles : public ::testing::Test {
protected:
    fs::path const folder_ =
        fs::path(::testing::TempDir()) / ("mgi-private-" + std::to_string(getpid()));

    void SetUp() override { fs::create_directory(folder_); }
    void TearDown() override { fs::remove_all(folder_); }
    [[nodiscard]] std::string at(char const* name) const { return (folder_ / name).string(); }
};

TEST_F(PrivateFiles, AFolderOfOthersIsNotPrivate) {
    chmod(folder_.c_str(), 0700);
    EXPECT_TRUE(is_private_folder(folder_.string()));
    chmod(folder_.c_str(), 0720);
    EXPECT_FALSE(is_private_folder(folder_.string()));
    chmod(folder_.c_str(), 0755);
    EXPECT_TRUE(is_private_folder(folder_.string()));
    fs::create_directory_symlink(folder_, at("link"));
    EXPECT_FALSE(is_private_folder(at("link")));
    EXPECT_FALSE(is_private_folder(at("none")));
    EXPECT_FALSE(is_private_folder(""));
    if (geteuid() != 0) return;
    ASSERT_EQ(chown(folder_.c_str(), 12345, 0), 0);
    EXPECT_FALSE(is_private_folder(folder_.string()));
    test::expect_error(ErrorCode::Refused, {folder_.string(), "belongs to user 12345", "advice"},
                       [&] { check_folder(folder_.string(), "advice"); });
}

TEST_F(PrivateFiles, FoldersAreMadeForOthersToReadWhateverTheUmask) {
    mode_t const before = umask(0);
    make_folder(at("a/b/c"));
    make_folder(at("a/b/c"));
    umask(before);
    EXPECT_TRUE(is_private_folder(at("a")));
    EXPECT_TRUE(is_private_folder(at("a/b/c")));
    std::ofstream(at("file")) << "no folder";
    test::expect_error(ErrorCode::NotFound, {at("file/d")}, [&] { make_folder(at("file/d")); });
}

TEST_F(PrivateFiles, FilesAreNeitherLinksNorOthers) {
    int const fd = open_own_file(at("mine"), O_RDWR);
    ASSERT_GE(fd, 0);
    close(fd);
    EXPECT_EQ(fs::status(at("mine")).permissions(), fs::perms::owner_read | fs::perms::owner_write);
    fs::create_symlink(at("mine"), at("link"));
    EXPECT_EQ(open_own_file(at("link"), O_RDWR), -1);
    EXPECT_EQ(errno, ELOOP);
    ASSERT_EQ(mkfifo(at("pipe").c_str(), 0600), 0);
    EXPECT_EQ(open_own_file(at("pipe"), O_RDWR), -1);  // and does not wait for its other end
    EXPECT_EQ(errno, EPERM);
    if (geteuid() != 0) return;
    ASSERT_EQ(chown(at("mine").c_str(), 12345, 0), 0);
    EXPECT_EQ(open_own_file(at("mine"), O_RDWR), -1);
    EXPECT_EQ(errno, EPERM);
}

TEST_F(PrivateFiles, NewFilesHaveNamesOfTheirOwn) {
    std::string first;
    std::string second;
    for (std::string* const name : {&first, &second}) {
        int const fd = open_new_file(at("state"), *name);
        ASSERT_GE(fd, 0);
        close(fd);
        EXPECT_TRUE(name->starts_with(at("state.")));
    }
    EXPECT_NE(first, second);
}

}  // namespace
}  // namespace mgi
