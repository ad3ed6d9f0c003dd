#include "bindings.hpp"

NB_MODULE(_mgi, module) {
    // What a user still holds when the interpreter ends is no defect of the user's.
    nanobind::set_leak_warnings(false);
    module.attr("__version__") = MGI_VERSION;

    mgi::python::bind_errors(module);
    mgi::python::bind_schema(module);
    mgi::python::bind_buffers(module);
    mgi::python::bind_batches(module);
    mgi::python::bind_cluster(module);
    mgi::python::bind_job(module);
    mgi::python::bind_runtime(module);
    mgi::python::bind_channel(module);
    mgi::python::bind_operators(module);
    mgi::python::bind_attach(module);
    mgi::python::bind_dlpack(module);
    mgi::python::bind_gpu_tables(module);
    mgi::python::bind_gpu_operators(module);
    mgi::python::bind_perf(module);
    mgi::python::bind_topology(module);
    mgi::python::bind_planner(module);
    mgi::python::bind_simulation(module);
}
