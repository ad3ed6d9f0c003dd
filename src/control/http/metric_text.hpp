/// \file
/// Metrics as Prometheus reads them: figures that are there already, put into its text format.
#pragma once

#include <map>
#include <memory>
#include <string>

namespace mgi::control {

/// For one answer to one scrape.
class MetricText {
public:
    using Labels = std::map<std::string, std::string>;

    MetricText();
    ~MetricText();
    MetricText(MetricText const&) = delete;
    MetricText& operator=(MetricText const&) = delete;

    /// What goes up and down. Values of one name with other labels stand together.
    void gauge(std::string const& name, std::string const& help, double value,
               Labels const& labels = {});
    /// What only grows since the start; the name ends in "_total".
    void counter(std::string const& name, std::string const& help, double value,
                 Labels const& labels = {});

    [[nodiscard]] std::string text() const;

private:
    struct Families;
    std::unique_ptr<Families> families_;
};

}  // namespace mgi::control
