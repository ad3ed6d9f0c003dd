/// \file
/// Files of certificates, keys and tokens, read whole and checked. What is wrong is an
/// InvalidArgument that names the file.
#pragma once

#include <string>

namespace mgi::control {

/// A PEM file of one certificate or more, of which none is out of date.
std::string read_certificates(std::string const& file);

/// A file that nobody else should read; that others can is a warning. `what` names its kind.
std::string read_secret(std::string const& file, char const* what);

/// Whether the private key is that of the (first) certificate.
void check_key(std::string const& certificate_file, std::string const& certificate,
               std::string const& key_file, std::string const& key);

}  // namespace mgi::control
