#include "planner/limits.hpp"

namespace mgi::planner {

std::string too_large(std::size_t managed, std::size_t vertices, std::size_t links) {
    std::string text;
    if (managed > kMostManaged) {
        text = std::to_string(managed) + " GPUs and CPUs, at most " + std::to_string(kMostManaged);
    } else if (vertices > kFewVertices && links > kMostLinks) {
        text = std::to_string(links) + " links between " + std::to_string(vertices) +
               " vertices, at most " + std::to_string(kMostLinks);
    } else {
        return text;
    }
    return text +
           " of one server can be planned in time; leave out what takes no part (\"gpus\" and "
           "\"remove\" of a --config file), or describe it as several servers";
}

}  // namespace mgi::planner
