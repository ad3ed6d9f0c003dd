/// \file
/// The GPU infrastructure graph (GIG, paper section 4.1): what there is on a server, and how fast it
/// is connected.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace mgi {

enum class VertexKind : std::uint8_t { Cpu, Gpu, Nic, Switch, Network };

struct Vertex {
    std::uint32_t id = 0;
    std::string name;  ///< "cpu:0"
    VertexKind kind = VertexKind::Cpu;
    bool managed = true;  ///< MGI has buffers and executors there
};

/// Directed; a link that works both ways is two edges.
struct Edge {
    std::uint32_t from = 0;
    std::uint32_t to = 0;
    double gbps = 0;   ///< gigabytes a second
    std::string kind;  ///< "memory", "nvlink", "pcie", ...
};

struct Graph {
    std::vector<Vertex> vertices;
    std::vector<Edge> edges;
};

/// Where endpoints live: a set of cores and its memory, or a GPU.
struct Device {
    std::uint32_t index = 0;
    std::string name;        ///< "cpu:0", "cuda:0"
    std::vector<int> cores;  ///< operating system's numbers; none of a GPU
    std::uint64_t memory_bytes = 0;
    int numa_node = -1;                 ///< -1: not known
    VertexKind kind = VertexKind::Cpu;  ///< or Gpu
    int ordinal = -1;                   ///< N of "cuda:N", as the driver counts; -1: no GPU
    std::string bus_id;                 ///< of a GPU: "0000:0a:00.0"
    std::string uuid;                   ///< of a GPU: "GPU-0123...", as nvidia-smi prints it
};

char const* to_string(VertexKind kind) noexcept;

}  // namespace mgi
