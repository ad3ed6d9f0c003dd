/// \file
/// Files and folders at places that other users of the machine know, and which none of them may lead astray: by a link, a file or
/// a folder of theirs that is there before, or because they may write there, whatever the umask.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace mgi {

/// A container without root has a user namespace, in which the kernel shows the machine's root, and every other user that has no
/// number there, as one user: this one. None in the machine's own namespace, where that number is a user's.
std::optional<std::uint32_t> user_without_number();

/// A folder that is no link, belongs to this user, and that nobody else may write to.
bool is_private_folder(std::string const& path);

/// Makes a folder and those above it, where they are not there, for others to read at most. Throws Error(NotFound) with what the
/// system says; `advice` ends the text.
void make_folder(std::string const& path, std::string const& advice);

/// Throws Error(Refused) where others than this user and root may replace what lies in a folder: it, or one above it, belongs to
/// somebody else, or all may write there and it is not sticky as /tmp is. A group's members who may write there are trusted. What is not
/// there is no error. `advice` ends the text.
void check_folder(std::string const& path, std::string const& advice);

/// Opens a file for `flags`: a descriptor, or -1 and errno; ELOOP for a link, EPERM for what is no file of this user's. Both are
/// refused before anything is read or written. With O_CREAT it is made with rights for this user alone where there is none.
int open_own_file(std::string const& path, int flags);

}  // namespace mgi
