# Fuzz targets with libFuzzer (clang; preset `fuzz`): tests/fuzz/targets.hpp says what there is, and
# tools/fuzz.sh runs one. They see the library's rooms that parse, with a sanitizer in every object.
if(NOT CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    message(FATAL_ERROR
        "Fuzzing needs clang (this is ${CMAKE_CXX_COMPILER_ID}). On Debian or Ubuntu: apt-get install "
        "clang, then cmake --preset fuzz.")
endif()

set(MGI_FUZZ_TARGETS core_list numa_nodes arrow_schema arrow_batch nested_value plan topology_file corrections
    agent_message control_frames plan_bytes cluster wire http_request)
mgi_glob(fuzzed_sources src/core/*.cpp src/gpu/*.cpp src/topology/*.cpp src/topology/readers/*.cpp src/topology/machine/*.cpp
         src/planner/*.cpp src/simulation/*.cpp src/memory/*.cpp src/control/local/*.cpp
         src/control/net/*.cpp src/control/rpc/*.cpp src/control/http/request.cpp
         src/mover/choice.cpp src/mover/link/*.cpp src/transport/wire/*.cpp tests/fuzz/*.cpp)
list(FILTER fuzzed_sources EXCLUDE REGEX "/tests/fuzz/(entry|replay_test)\\.cpp$")
# The messages of agents and controller have names that the graph and links have, too.
set_source_files_properties(tests/fuzz/control_frames.cpp tests/fuzz/http_request.cpp
    PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
add_library(mgi_fuzzed STATIC ${fuzzed_sources})
mgi_target_defaults(mgi_fuzzed)
mgi_unity(mgi_fuzzed)
target_compile_definitions(mgi_fuzzed PRIVATE MGI_VERSION="${PROJECT_VERSION}")
target_include_directories(mgi_fuzzed PUBLIC
    "${PROJECT_SOURCE_DIR}/include" "${PROJECT_SOURCE_DIR}/src" "${PROJECT_SOURCE_DIR}/tests")
find_package(pugixml CONFIG REQUIRED)
find_package(JsonHeaders REQUIRED)
find_package(Protobuf REQUIRED)
find_package(OpenSSL REQUIRED)
find_library(MGI_FMT_LIBRARY fmt REQUIRED)
# Frames between agents and controller.
set(proto_base "${PROJECT_BINARY_DIR}/fuzzed_proto")
set(proto "${PROJECT_SOURCE_DIR}/src/control/proto/control.proto")
add_custom_command(
    OUTPUT "${proto_base}/control/proto/control.pb.cc" "${proto_base}/control/proto/control.pb.h"
    COMMAND "${CMAKE_COMMAND}" -E make_directory "${proto_base}"
    COMMAND "${Protobuf_PROTOC_EXECUTABLE}" --cpp_out=${proto_base} -I "${PROJECT_SOURCE_DIR}/src" ${proto}
    DEPENDS ${proto}
    VERBATIM)
add_library(mgi_fuzzed_proto STATIC "${proto_base}/control/proto/control.pb.cc")
target_compile_features(mgi_fuzzed_proto PUBLIC cxx_std_20)
target_compile_options(mgi_fuzzed_proto PRIVATE -w)
target_include_directories(mgi_fuzzed_proto SYSTEM PUBLIC "${proto_base}" ${Protobuf_INCLUDE_DIRS})
target_link_libraries(mgi_fuzzed_proto PUBLIC ${Protobuf_LIBRARY} Threads::Threads)
target_link_libraries(mgi_fuzzed PUBLIC mgi::cccl mgi_spdlog Threads::Threads pugixml::pugixml mgi_json
    mgi_fuzzed_proto OpenSSL::SSL OpenSSL::Crypto ${MGI_FMT_LIBRARY})

add_custom_target(mgi_fuzz)
foreach(name IN LISTS MGI_FUZZ_TARGETS)
    add_executable(fuzz_${name} tests/fuzz/entry.cpp)
    mgi_target_defaults(fuzz_${name})
    target_compile_definitions(fuzz_${name} PRIVATE MGI_FUZZ_TARGET=${name})
    target_link_options(fuzz_${name} PRIVATE -fsanitize=fuzzer)
    target_link_libraries(fuzz_${name} PRIVATE mgi_fuzzed)
    add_dependencies(mgi_fuzz fuzz_${name})
endforeach()

# The tests of the same rooms, under the same sanitizers, with the same objects: what parses, decodes,
# allocates and lays memory out, without a runtime. The preset `asan` has all tests.
find_package(GTest REQUIRED)
mgi_glob(fuzzed_tests tests/core/*.cpp tests/topology/*.cpp tests/memory/*.cpp tests/planner/*.cpp tests/link/*.cpp
         tests/local/*.cpp tests/simulation/*.cpp tests/fuzz/replay_test.cpp tests/wire/handshake_test.cpp tests/wire/records_test.cpp
         tests/support/hang_guard.cpp tests/support/order.cpp tests/support/tables.cpp tests/support/rows.cpp bench/perf/plan_cluster.cpp)
list(FILTER fuzzed_tests EXCLUDE REGEX "/topology/gpus_test\\.cpp$")  # which needs a mock driver
add_executable(mgi_fuzzed_tests ${fuzzed_tests})
mgi_test_defaults(mgi_fuzzed_tests)
mgi_unity_by_folder(mgi_fuzzed_tests)
mgi_test_headers(mgi_fuzzed_tests)
target_include_directories(mgi_fuzzed_tests PRIVATE "${PROJECT_SOURCE_DIR}/bench")
target_compile_definitions(mgi_fuzzed_tests PRIVATE
    MGI_FUZZ_CORPUS="${PROJECT_SOURCE_DIR}/tests/fuzz/corpus")
target_link_libraries(mgi_fuzzed_tests PRIVATE mgi_fuzzed GTest::gtest GTest::gtest_main ${CMAKE_DL_LIBS})

# Hostile schedules under the same sanitizers.
mgi_glob(hostile_sources tests/hostile/*.cpp
         tests/support/offered.cpp tests/support/rows.cpp tests/support/tables.cpp)
if(NOT TARGET mgi_hostile)
    add_executable(mgi_hostile ${hostile_sources})
    mgi_target_defaults(mgi_hostile)
    mgi_unity(mgi_hostile)
    target_link_libraries(mgi_hostile PRIVATE mgi_fuzzed GTest::gtest)
endif()
