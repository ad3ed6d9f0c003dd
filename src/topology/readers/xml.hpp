/// \file
/// XML as the readers of topology files need it: attributes of a checked type, and errors that name
/// file, line and element.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "topology/readers/source.hpp"

namespace mgi::topology {

class XmlDocument;

/// Elements nested deeper than this are refused.
inline constexpr int kMostNesting = 200;

/// An element; as cheap to copy as a pointer, and valid as long as its document.
class XmlElement {
public:
    [[nodiscard]] std::string_view name() const;
    /// An attribute's text; empty where it is absent.
    [[nodiscard]] std::string_view text(char const* attribute) const;
    [[nodiscard]] bool has(char const* attribute) const;
    /// A whole number; nothing where it is absent or empty. Anything else is an error.
    [[nodiscard]] std::optional<std::int64_t> integer(char const* attribute) const;
    /// The same for a number that must be there and be at least 0.
    [[nodiscard]] std::int64_t count(char const* attribute) const;
    /// A decimal number, at least 0; nothing where it is absent or empty.
    [[nodiscard]] std::optional<double> number(char const* attribute) const;
    /// Text that must be there.
    [[nodiscard]] std::string_view required(char const* attribute) const;

    [[nodiscard]] std::vector<XmlElement> children() const;
    [[nodiscard]] std::vector<XmlElement> children(std::string_view name) const;
    [[nodiscard]] std::optional<XmlElement> child(std::string_view name) const;
    /// The text between its tags, without that of elements in it.
    [[nodiscard]] std::string body() const;

    [[nodiscard]] std::size_t line() const;
    /// `<pci busid="0000:01:00.0">`, as warnings and errors name it.
    [[nodiscard]] std::string label() const;
    [[noreturn]] void fail(std::string const& what) const;

private:
    friend class XmlDocument;
    XmlElement(XmlDocument const* document, void* node) : document_(document), node_(node) {}

    XmlDocument const* document_;
    void* node_;  ///< pugixml's, whose header stays in xml.cpp
};

class XmlDocument {
public:
    /// Throws Error(InvalidArgument) that names file and line where this is no XML, not one element,
    /// or nested too deep. `source` must outlive the document.
    explicit XmlDocument(Source const& source);
    ~XmlDocument();
    XmlDocument(XmlDocument const&) = delete;
    XmlDocument& operator=(XmlDocument const&) = delete;

    [[nodiscard]] XmlElement root() const;
    [[nodiscard]] Source const& source() const { return source_; }

private:
    struct Parsed;
    Source const& source_;
    std::unique_ptr<Parsed> parsed_;
};

}  // namespace mgi::topology
