# The control plane: mgi_control (state machine, controller, agent), mgi_election (etcd's client, the only
# code that links libcurl) and the program mgi-control, which `mgi controller`, `mgi agent` and `mgi status`
# run.
find_package(Protobuf QUIET)
find_package(OpenSSL QUIET)
find_package(CURL 7.81 QUIET)
find_path(MGI_CLI11_INCLUDE_DIR CLI/CLI.hpp)
find_library(MGI_FMT_LIBRARY fmt)
find_path(MGI_PROMETHEUS_INCLUDE_DIR prometheus/text_serializer.h)
find_library(MGI_PROMETHEUS_LIBRARY prometheus-cpp-core)

set(missing "")
foreach(needed IN ITEMS
        Protobuf_LIBRARY:libprotobuf-dev Protobuf_PROTOC_EXECUTABLE:protobuf-compiler
        OPENSSL_SSL_LIBRARY:libssl-dev CURL_FOUND:libcurl4-openssl-dev
        MGI_CLI11_INCLUDE_DIR:libcli11-dev MGI_FMT_LIBRARY:libfmt-dev
        MGI_PROMETHEUS_INCLUDE_DIR:prometheus-cpp-dev
        MGI_PROMETHEUS_LIBRARY:prometheus-cpp-dev)
    string(REPLACE ":" ";" needed "${needed}")
    list(GET needed 0 variable)
    list(GET needed 1 package)
    if(NOT ${variable})
        list(APPEND missing ${package})
    endif()
endforeach()
list(REMOVE_DUPLICATES missing)
list(JOIN missing " " missing)
if(missing)
    set(advice "no control plane without: ${missing}. On Debian or Ubuntu: apt-get install ${missing}")
    if(MGI_BUILD_CONTROL STREQUAL "AUTO")
        message(STATUS "${advice}")
        return()
    endif()
    message(FATAL_ERROR "${advice}. To build without: -DMGI_BUILD_CONTROL=OFF.")
endif()
find_package(Threads REQUIRED)

# Generated code, compiled as it is.
set(proto_dir "${PROJECT_BINARY_DIR}/proto")
function(mgi_proto_library target name)
    set(proto "${PROJECT_SOURCE_DIR}/src/control/proto/${name}.proto")
    set(base "${proto_dir}/control/proto/${name}")
    add_custom_command(
        OUTPUT "${base}.pb.cc" "${base}.pb.h"
        COMMAND "${CMAKE_COMMAND}" -E make_directory "${proto_dir}"
        COMMAND "${Protobuf_PROTOC_EXECUTABLE}" --cpp_out=${proto_dir}
                -I "${PROJECT_SOURCE_DIR}/src" ${proto}
        DEPENDS ${proto}
        VERBATIM)
    add_library(${target} STATIC "${base}.pb.cc" "${base}.pb.h")
    mgi_target_defaults(${target})
    mgi_optimize_little(${target})
    target_compile_options(${target} PRIVATE -w)
    target_include_directories(${target} SYSTEM PUBLIC "${proto_dir}" ${Protobuf_INCLUDE_DIRS})
    target_link_libraries(${target} PUBLIC ${Protobuf_LIBRARY} Threads::Threads)
endfunction()
mgi_proto_library(mgi_control_proto control)
mgi_proto_library(mgi_etcd_proto etcd)

mgi_glob(control_sources
    src/control/state/*.cpp src/control/net/*.cpp src/control/rpc/*.cpp src/control/http/*.cpp
    src/control/controller/*.cpp src/control/agent/*.cpp)
# The status page is built in.
set(page "${PROJECT_SOURCE_DIR}/src/control/http/page.html")
file(READ "${page}" MGI_PAGE)
configure_file(src/control/http/page.cpp.in "${PROJECT_BINARY_DIR}/page.cpp" @ONLY)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${page}")
add_library(mgi_control STATIC ${control_sources} "${PROJECT_BINARY_DIR}/page.cpp")
mgi_target_defaults(mgi_control)
mgi_optimize_little(mgi_control)
mgi_unity(mgi_control)
target_compile_definitions(mgi_control PRIVATE MGI_VERSION="${PROJECT_VERSION}")
target_include_directories(mgi_control PUBLIC "${PROJECT_SOURCE_DIR}/src")
target_link_libraries(mgi_control
    PUBLIC mgi mgi_control_proto ${MGI_FMT_LIBRARY}
    PRIVATE mgi_json mgi_spdlog mgi_readers OpenSSL::SSL OpenSSL::Crypto ${MGI_PROMETHEUS_LIBRARY})

mgi_glob(election_sources src/control/election/*.cpp)
add_library(mgi_election STATIC ${election_sources})
mgi_target_defaults(mgi_election)
mgi_optimize_little(mgi_election)
mgi_unity(mgi_election)
target_link_libraries(mgi_election
    PUBLIC mgi_control mgi_etcd_proto
    PRIVATE mgi_spdlog CURL::libcurl)

mgi_glob(program_sources src/control/cli/*.cpp)
if(program_sources)
    add_executable(mgi-control ${program_sources})
    mgi_target_defaults(mgi-control)
    mgi_optimize_little(mgi-control)
    mgi_unity(mgi-control)
    target_compile_definitions(mgi-control PRIVATE MGI_VERSION="${PROJECT_VERSION}")
    target_include_directories(mgi-control PRIVATE "${PROJECT_SOURCE_DIR}/src")
    target_link_libraries(mgi-control PRIVATE mgi_election mgi_json mgi_readers mgi_spdlog)
    if(TARGET mgi_python)
        add_dependencies(mgi_python mgi-control)
        install(TARGETS mgi-control RUNTIME DESTINATION mgi/bin COMPONENT python)
    endif()
endif()

# The control plane's own tests: a program of its own, so that mgi_tests links neither protobuf nor libcurl.
mgi_glob(control_tests tests/control/*/*.cpp tests/fuzz/control_frames.cpp tests/fuzz/http_request.cpp)
if(MGI_SANITIZE STREQUAL "thread")
    # The state machine has one thread; other rooms' tests drive it through the rig.
    list(FILTER control_tests EXCLUDE REGEX "/state/(.*_test|oracle|simulat.*)\\.cpp$")
    if(MGI_TEST_SCOPE STREQUAL "part")
        # Their threads are those of etcd's client, a lock around each table.
        list(FILTER control_tests EXCLUDE REGEX "/control/election/")
    endif()
endif()
if(MGI_BUILD_TESTS AND control_tests)
    add_executable(mgi_control_tests ${control_tests})
    mgi_test_defaults(mgi_control_tests)
    mgi_unity_by_folder(mgi_control_tests)
    mgi_test_headers(mgi_control_tests)
    target_link_libraries(mgi_control_tests PRIVATE
        mgi_election mgi_test_support mgi_readers OpenSSL::SSL OpenSSL::Crypto GTest::gtest_main)
    target_link_options(mgi_control_tests PRIVATE ${MGI_HANG_GUARD})
    mgi_discover_tests(mgi_control_tests)

    # The application of tests/python/test_cluster.py's clusters of processes.
    add_executable(mgi_cluster_app tests/cluster/app.cpp)
    mgi_target_defaults(mgi_cluster_app)
    target_link_libraries(mgi_cluster_app PRIVATE mgi mgi_json)
endif()

if(MGI_BUILD_BENCH)
    mgi_glob(control_bench_sources bench/control/*.cpp)
    add_executable(bench_control ${control_bench_sources})
    mgi_target_defaults(bench_control)
    target_include_directories(bench_control PRIVATE "${PROJECT_SOURCE_DIR}/src")
    target_link_libraries(bench_control PRIVATE mgi_control mgi_json mgi_spdlog)
endif()
