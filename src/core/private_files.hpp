/// \file
/// Files and folders at places that other users of the machine know, and which none of them may lead astray: by a link, a file or
/// a folder of theirs that is there before, or because they may write there. Modes do not depend on the process' umask.
#pragma once

#include <string>

namespace mgi {

/// A folder that is no link, belongs to this user, and that nobody else may write to.
bool is_private_folder(std::string const& path);

/// Makes a folder and those above it, where they are not there, for others to read. Throws Error(NotFound) with what the system
/// says.
void make_folder(std::string const& path);

/// Throws Error(Refused) where others than this user and root may replace what lies in it: it belongs to somebody else, or all may
/// write there, and it is not sticky as /tmp is. A group's members who may write there are trusted. `advice` ends the text.
void check_folder(std::string const& path, std::string const& advice);

/// Opens a file, which it makes with rights for this user alone where there is none: a descriptor, or -1 and errno; ELOOP for a
/// link, EPERM for a file of somebody else's. Both are refused before anything is read or written.
int open_own_file(std::string const& path, int flags);

/// The same for a new file beside `path`, under a name that is free and that it puts into `name`.
int open_new_file(std::string const& path, std::string& name);

}  // namespace mgi
