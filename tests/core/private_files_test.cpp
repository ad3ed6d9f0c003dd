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
    fs::create_directory(folder_ / "within");
    for (mode_t const mode : {0755, 01777}) {  // whose owner may rename what others have there
        chmod(folder_.c_str(), mode);
        for (std::string const& path : {folder_.string(), at("within")}) {
            test::expect_error(ErrorCode::Refused,
                               {folder_.string(), "belongs to user 12345", "advice"},
                               [&] { check_folder(path, "advice"); });
        }
    }
}

TEST_F(PrivateFiles, AFolderWithinOneThatAllMayWriteToIsRefused) {
    fs::create_directories(folder_ / "a" / "b");
    check_folder(at("a/b"), "advice");
    check_folder(at("none"), "advice");
    chmod(at("a").c_str(), 0777);
    test::expect_error(ErrorCode::Refused, {at("a"), "written to by everybody", "advice"},
                       [&] { check_folder(at("a/b"), "advice"); });
    chmod(at("a").c_str(), 01777);
    check_folder(at("a/b"), "advice");
}

TEST_F(PrivateFiles, FoldersAreMadeForOthersToReadWhateverTheUmask) {
    mode_t const before = umask(0);
    make_folder(at("a/b/c"), "advice");
    make_folder(at("a/b/c"), "advice");
    umask(before);
    EXPECT_TRUE(is_private_folder(at("a")));
    EXPECT_TRUE(is_private_folder(at("a/b/c")));
    std::ofstream(at("file")) << "no folder";
    test::expect_error(ErrorCode::NotFound, {at("file/d"), "advice"},
                       [&] { make_folder(at("file/d"), "advice"); });
}

TEST_F(PrivateFiles, FilesAreNeitherLinksNorOthers) {
    int const fd = open_own_file(at("mine"), O_RDWR | O_CREAT);
    ASSERT_GE(fd, 0);
    close(fd);
    EXPECT_EQ(fs::status(at("mine")).permissions(), fs::perms::owner_read | fs::perms::owner_write);
    fs::create_symlink(at("mine"), at("link"));
    EXPECT_EQ(open_own_file(at("link"), O_RDWR), -1);
    EXPECT_EQ(errno, ELOOP);
    ASSERT_EQ(mkfifo(at("pipe").c_str(), 0600), 0);
    EXPECT_EQ(open_own_file(at("pipe"), O_RDWR), -1);  // and does not wait for its other end
    EXPECT_EQ(errno, EPERM);
    EXPECT_EQ(open_own_file(at("none"), O_RDONLY), -1);
    EXPECT_EQ(errno, ENOENT);
    if (geteuid() != 0) return;
    ASSERT_EQ(chown(at("mine").c_str(), 12345, 0), 0);
    EXPECT_EQ(open_own_file(at("mine"), O_RDWR), -1);
    EXPECT_EQ(errno, EPERM);
}

}  // namespace
}  // namespace mgi
