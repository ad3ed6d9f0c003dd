#include "control/http/metric_text.hpp"

#include <prometheus/metric_family.h>
#include <prometheus/text_serializer.h>

#include <vector>

namespace mgi::control {

struct MetricText::Families {
    std::vector<prometheus::MetricFamily> list;
    std::map<std::string, std::size_t> by_name;

    prometheus::ClientMetric& add(std::string const& name, std::string const& help,
                                  prometheus::MetricType type, Labels const& labels) {
        auto const [at, is_new] = by_name.try_emplace(name, list.size());
        if (is_new) {
            prometheus::MetricFamily& family = list.emplace_back();
            family.name = name;
            family.help = help;
            family.type = type;
        }
        prometheus::ClientMetric& metric = list[at->second].metric.emplace_back();
        for (auto const& [label, value] : labels) metric.label.push_back({label, value});
        return metric;
    }
};

MetricText::MetricText() : families_(std::make_unique<Families>()) {}
MetricText::~MetricText() = default;

void MetricText::gauge(std::string const& name, std::string const& help, double value,
                       Labels const& labels) {
    families_->add(name, help, prometheus::MetricType::Gauge, labels).gauge.value = value;
}

void MetricText::counter(std::string const& name, std::string const& help, double value,
                         Labels const& labels) {
    families_->add(name, help, prometheus::MetricType::Counter, labels).counter.value = value;
}

std::string MetricText::text() const {
    return prometheus::TextSerializer().Serialize(families_->list);
}

}  // namespace mgi::control
