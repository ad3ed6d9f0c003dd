# The throughput model behind `mgi plan` (docs/simulation.md): a library of its own, since a runtime
# needs none of it. The Python package and the tests use it.
mgi_glob(simulation_sources src/simulation/*.cpp)
add_library(mgi_simulation STATIC ${simulation_sources})
mgi_target_defaults(mgi_simulation)
mgi_unity(mgi_simulation)
target_include_directories(mgi_simulation PUBLIC "${PROJECT_SOURCE_DIR}/src")
target_link_libraries(mgi_simulation PUBLIC mgi)
