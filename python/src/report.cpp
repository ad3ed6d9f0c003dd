#include "report.hpp"

#include "bindings.hpp"

namespace mgi::python {
namespace {

nb::dict as_dict(LaneStats const& lane) {
    nb::dict dict;
    dict["source"] = lane.source;
    dict["destination"] = lane.destination;
    dict["rows"] = lane.rows;
    dict["bytes"] = lane.bytes;
    dict["segments"] = lane.segments;
    dict["waits"] = lane.waits;
    return dict;
}

nb::dict as_dict(QueueStats const& queue) {
    nb::dict dict;
    dict["destination"] = queue.destination;
    dict["segments"] = queue.segments;
    dict["taken"] = queue.taken;
    dict["rows"] = queue.rows;
    return dict;
}

nb::dict as_dict(Hop const& hop) {
    nb::dict dict;
    dict["destination"] = hop.destination;
    dict["next"] = hop.next;
    dict["path"] = nb::cast(hop.path);
    dict["gbps"] = hop.gbps;
    return dict;
}

nb::dict as_dict(ForwardingTable const& table) {
    nb::dict dict;
    nb::list entries;
    for (Hop const& hop : table.hops) entries.append(as_dict(hop));
    dict["vertex"] = table.vertex;
    dict["entries"] = entries;
    return dict;
}

}  // namespace

nb::dict as_dict(ChannelStats const& stats) {
    nb::dict dict;
    nb::list lanes;
    nb::list queues;
    for (LaneStats const& lane : stats.lanes) lanes.append(as_dict(lane));
    for (QueueStats const& queue : stats.queues) queues.append(as_dict(queue));
    dict["name"] = stats.name;
    dict["rows"] = stats.rows;
    dict["bytes"] = stats.bytes;
    dict["segments"] = stats.segments;
    dict["memory_bytes"] = stats.memory_bytes;
    dict["detached_bytes"] = stats.detached_bytes;
    dict["lanes"] = lanes;
    dict["queues"] = queues;
    return dict;
}

nb::dict as_dict(Plan const& plan) {
    nb::dict dict;
    nb::list tables;
    for (ForwardingTable const& table : plan.tables) tables.append(as_dict(table));
    dict["transfer"] = to_string(plan.transfer);
    dict["segment_rows"] = plan.segment_rows;
    dict["segment_bytes"] = plan.segment_bytes;
    dict["text_bytes"] = plan.text_bytes;
    dict["slots"] = plan.slots;
    dict["credits"] = plan.credits;
    dict["lanes"] = plan.lanes;
    dict["tile_rows"] = plan.tile_rows;
    dict["chunk_rows"] = plan.chunk_rows;
    dict["pool_bytes"] = plan.pool_bytes;
    dict["tables"] = tables;
    return dict;
}

nb::dict as_dict(Graph const& graph) {
    nb::list vertices;
    for (Vertex const& vertex : graph.vertices) {
        nb::dict dict;
        dict["id"] = vertex.id;
        dict["name"] = vertex.name;
        dict["kind"] = to_string(vertex.kind);
        dict["managed"] = vertex.managed;
        vertices.append(dict);
    }
    nb::list edges;
    for (Edge const& edge : graph.edges) {
        nb::dict dict;
        dict["from"] = edge.from;
        dict["to"] = edge.to;
        dict["gbps"] = edge.gbps;
        dict["kind"] = edge.kind;
        edges.append(dict);
    }
    nb::dict dict;
    dict["vertices"] = vertices;
    dict["edges"] = edges;
    return dict;
}

nb::dict as_dict(Device const& device) {
    nb::dict dict;
    dict["name"] = device.name;
    dict["cores"] = nb::cast(device.cores);
    dict["memory_bytes"] = device.memory_bytes;
    dict["numa_node"] = device.numa_node;
    return dict;
}

}  // namespace mgi::python
