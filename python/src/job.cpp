#include <mgi/job.hpp>

#include "bindings.hpp"

namespace mgi::python {

void bind_job(nb::module_& module) {
    module.def("job", [] {
        Job const job = Job::from_environment();
        nb::dict fields;
        fields["name"] = job.name;
        fields["rank"] = job.rank;
        fields["size"] = job.size;
        fields["local_rank"] = job.local_rank;
        fields["local_size"] = job.local_size;
        fields["server"] = job.server;
        fields["launcher"] = job.launcher;
        return fields;
    });
}

}  // namespace mgi::python
