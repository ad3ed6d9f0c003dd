# bench/perf, with bench/limits and bench/peers, is a library, because the Python module's `mgi perf`
# runs it; every bench/*.cpp is a program of its own.
mgi_glob(perf_sources bench/perf/*.cpp bench/limits/*.cpp bench/peers/*.cpp)
add_library(mgi_perf STATIC ${perf_sources})
mgi_target_defaults(mgi_perf)
mgi_unity(mgi_perf)
set_target_properties(mgi_perf PROPERTIES CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
target_include_directories(mgi_perf
    PUBLIC "${PROJECT_SOURCE_DIR}/bench"
    PRIVATE "${PROJECT_SOURCE_DIR}/src")
target_link_libraries(mgi_perf PUBLIC mgi)

if(MGI_BUILD_BENCH)
    mgi_glob(bench_sources bench/*.cpp)
    foreach(source IN LISTS bench_sources)
        cmake_path(GET source STEM name)
        add_executable(bench_${name} "${source}")
        mgi_target_defaults(bench_${name})
        target_link_libraries(bench_${name} PRIVATE mgi_perf)
    endforeach()
endif()

# Links over TCP beside plain sockets; looks behind the public headers.
if(MGI_BUILD_BENCH)
    mgi_glob(wires_bench_sources bench/wires/*.cpp)
    add_executable(bench_wires ${wires_bench_sources})
    mgi_target_defaults(bench_wires)
    target_include_directories(bench_wires PRIVATE
        "${PROJECT_SOURCE_DIR}/bench" "${PROJECT_SOURCE_DIR}/src")
    target_link_libraries(bench_wires PRIVATE mgi mgi_json)

    add_executable(bench_lend bench/lend/main.cpp)
    mgi_target_defaults(bench_lend)
    target_include_directories(bench_lend PRIVATE
        "${PROJECT_SOURCE_DIR}/bench" "${PROJECT_SOURCE_DIR}/src")
    target_link_libraries(bench_lend PRIVATE mgi mgi_json)
endif()
