#include "topology/readers/xml.hpp"

#include <algorithm>
#include <cmath>

#include <pugixml.hpp>

#include "topology/readers/numbers.hpp"
#include "topology/readers/utf8.hpp"

namespace mgi::topology {
namespace {

pugi::xml_node node_of(void* node) {
    return pugi::xml_node(static_cast<pugi::xml_node_struct*>(node));
}

/// Whether XML has these characters. References can stand for others: "&#1;", "&#xd800;".
bool is_xml_text(std::string_view text) {
    return first_non_utf8(text) == std::string_view::npos &&
           std::none_of(text.begin(), text.end(), [](char c) {
               return static_cast<unsigned char>(c) < 0x20 && c != '\t' && c != '\n' && c != '\r';
           });
}

void check_attributes(Source const& source, pugi::xml_node const& node) {
    for (pugi::xml_attribute const attribute : node.attributes()) {
        if (is_xml_text(attribute.value())) continue;
        source.fail(source.line_of(std::size_t(node.offset_debug())),
                    "<" + std::string(node.name()) + ">: " + attribute.name() + " is " +
                        in_quotes(attribute.value()) + ", with a character that XML does not have");
    }
}

}  // namespace

struct XmlDocument::Parsed {
    pugi::xml_document document;
};

XmlDocument::XmlDocument(Source const& source)
    : source_(source), parsed_(std::make_unique<Parsed>()) {
    std::string_view const text = source.text();
    pugi::xml_parse_result const result = parsed_->document.load_buffer(
        text.data(), text.size(), pugi::parse_default, pugi::encoding_utf8);
    if (!result) {
        source.fail(source.line_of(std::size_t(result.offset)),
                    std::string("is no well-formed XML: ") + result.description());
    }
    pugi::xml_node const root = parsed_->document.document_element();
    if (!root) source.fail(0, "is XML without an element");
    for (pugi::xml_node node = root.next_sibling(); node; node = node.next_sibling()) {
        if (node.type() != pugi::node_element) continue;
        source.fail(source.line_of(std::size_t(node.offset_debug())),
                    "a second element behind the first, <" + std::string(node.name()) +
                        ">; expected one topology");
    }
    // Walked without recursion, so that no nesting can exhaust the stack.
    int depth = 0;
    for (pugi::xml_node node = root; node;) {
        if (depth > kMostNesting) {
            source.fail(source.line_of(std::size_t(node.offset_debug())),
                        "elements nested more than " + std::to_string(kMostNesting) +
                            " deep, which no topology file has");
        }
        check_attributes(source, node);
        if (node.first_child()) {
            node = node.first_child();
            ++depth;
            continue;
        }
        while (node != root && !node.next_sibling()) {
            node = node.parent();
            --depth;
        }
        if (node == root) break;
        node = node.next_sibling();
    }
}

XmlDocument::~XmlDocument() = default;

XmlElement XmlDocument::root() const {
    return {this, parsed_->document.document_element().internal_object()};
}

std::string_view XmlElement::name() const {
    return node_of(node_).name();
}

std::string_view XmlElement::text(char const* attribute) const {
    return node_of(node_).attribute(attribute).value();
}

bool XmlElement::has(char const* attribute) const {
    return !node_of(node_).attribute(attribute).empty();
}

std::optional<std::int64_t> XmlElement::integer(char const* attribute) const {
    std::string_view const found = text(attribute);
    if (found.empty()) return std::nullopt;
    std::int64_t value = 0;
    if (!read_whole(found, value)) {
        fail(std::string(attribute) + " is " + in_quotes(found) + "; expected a whole number");
    }
    return value;
}

std::int64_t XmlElement::count(char const* attribute) const {
    auto const value = integer(attribute);
    if (!value) fail(std::string("has no ") + attribute + "; expected a whole number");
    if (*value < 0) {
        fail(std::string(attribute) + " is " + std::to_string(*value) + "; expected 0 or more");
    }
    return *value;
}

std::optional<double> XmlElement::number(char const* attribute) const {
    std::string_view const found = text(attribute);
    if (found.empty()) return std::nullopt;
    double value = 0;
    if (!read_whole(found, value) || !std::isfinite(value) || value < 0) {
        fail(std::string(attribute) + " is " + in_quotes(found) +
             "; expected a number that is 0 or more");
    }
    return value;
}

std::string_view XmlElement::required(char const* attribute) const {
    std::string_view const found = text(attribute);
    if (found.empty()) fail(std::string("has no ") + attribute);
    return found;
}

std::vector<XmlElement> XmlElement::children() const {
    std::vector<XmlElement> found;
    for (pugi::xml_node const node : node_of(node_).children()) {
        if (node.type() != pugi::node_element) continue;
        found.push_back({document_, node.internal_object()});
    }
    return found;
}

std::vector<XmlElement> XmlElement::children(std::string_view wanted) const {
    std::vector<XmlElement> found;
    for (XmlElement const& element : children()) {
        if (element.name() == wanted) found.push_back(element);
    }
    return found;
}

std::optional<XmlElement> XmlElement::child(std::string_view wanted) const {
    for (XmlElement const& element : children()) {
        if (element.name() == wanted) return element;
    }
    return std::nullopt;
}

std::string XmlElement::body() const {
    // A comment in the middle leaves two pieces.
    std::string text;
    for (pugi::xml_node const node : node_of(node_).children()) {
        if (node.type() == pugi::node_pcdata || node.type() == pugi::node_cdata) {
            text += node.value();
        }
    }
    return text;
}

std::size_t XmlElement::line() const {
    std::ptrdiff_t const offset = node_of(node_).offset_debug();
    return offset < 0 ? 0 : document_->source().line_of(std::size_t(offset));
}

std::string XmlElement::label() const {
    std::string shown = "<" + std::string(name());
    for (char const* const attribute :
         {"busid", "target", "pci_busid", "numaid", "name", "type", "gp_index"}) {
        if (has(attribute)) {
            shown += " " + std::string(attribute) + "=" + in_quotes(text(attribute));
            break;
        }
    }
    return shown + ">";
}

void XmlElement::fail(std::string const& what) const {
    document_->source().fail(line(), label() + ": " + what);
}

}  // namespace mgi::topology
