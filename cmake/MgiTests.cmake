# Every public header must compile on its own, whatever was included before it: one empty source a
# header. Part of lint, not of the default build.
mgi_glob(public_headers include/mgi/*.hpp include/mgi/device/*.hpp)
set(header_sources "")
foreach(header IN LISTS public_headers)
    cmake_path(RELATIVE_PATH header BASE_DIRECTORY "${PROJECT_SOURCE_DIR}/include" OUTPUT_VARIABLE name)
    set(source "${PROJECT_BINARY_DIR}/header_check/${name}.cpp")
    file(CONFIGURE OUTPUT "${source}" CONTENT "#include <${name}>  // IWYU pragma: keep\n")
    list(APPEND header_sources "${source}")
endforeach()
add_library(mgi_header_check OBJECT EXCLUDE_FROM_ALL ${header_sources})
mgi_target_defaults(mgi_header_check)
target_compile_options(mgi_header_check PRIVATE -O0 -g0)
target_link_libraries(mgi_header_check PRIVATE mgi)

# Nearly all C++ tests are one program, mgi_tests, which links once. ctest and IDEs see each of its tests
# (`ctest --preset release -R Suite.name`), and so does `mgi_tests --gtest_filter=Suite.name`.
include(GoogleTest)
find_package(GTest)
if(NOT GTest_FOUND)
    message(FATAL_ERROR
        "No GoogleTest. On Debian or Ubuntu: apt-get install libgtest-dev. "
        "To build without tests: -DMGI_BUILD_TESTS=OFF.")
endif()

# What tests share, compiled once for all test programs.
mgi_glob(support_sources tests/support/*.cpp)
add_library(mgi_test_support STATIC ${support_sources})
mgi_test_defaults(mgi_test_support)
mgi_unity_by_folder(mgi_test_support)
mgi_test_headers(mgi_test_support)
target_include_directories(mgi_test_support PUBLIC "${PROJECT_SOURCE_DIR}/tests" "${PROJECT_SOURCE_DIR}/src")
target_compile_definitions(mgi_test_support PUBLIC MGI_TEST_UCX=$<BOOL:${MGI_UCX_INCLUDE_DIR}>)
if(MGI_UCX_INCLUDE_DIR)
    target_include_directories(mgi_test_support SYSTEM PUBLIC "${MGI_UCX_INCLUDE_DIR}")
endif()
target_link_libraries(mgi_test_support PUBLIC mgi mgi_spdlog mgi_json GTest::gtest)
# The guard against hangs is installed by being linked, also into a program that names nothing of it.
set(MGI_HANG_GUARD "LINKER:-u,_ZN3mgi4test10test_limitEv")

mgi_glob(test_sources tests/*/*.cpp)
list(FILTER test_sources EXCLUDE REGEX
     "/tests/((package|python|cuda|gpu|hostile|relacy|faults|control|cluster|support)/|(fuzz/(entry|control_frames|http_request)|process/(gpu_)?member|gpu_driver/fake_.*)\\.cpp$)")
if(MGI_SANITIZE STREQUAL "thread")
    # What has one thread has nothing for ThreadSanitizer to see.
    list(FILTER test_sources EXCLUDE REGEX
        "/tests/(fuzz|planner|simulation|simd|topology)/|/(link/.*_test|virtual_time_test)\\.cpp$")
    if(MGI_TEST_SCOPE STREQUAL "part")
        # Their threads meet in channels alone, which other tests look at closer.
        list(FILTER test_sources EXCLUDE REGEX
            "/tests/(perf|memory)/|/core/(arrow|schema|names|plain|variable|batch).*_test\\.cpp$|/operators/(group_by|join|table|row_text|gpu_.*|two_level)[a-z_]*_test\\.cpp$")
    endif()
endif()
# The device headers' code is in their tests: without a sanitizer optimized as a user's kernels are.
set(device_tests ${test_sources})
list(FILTER device_tests INCLUDE REGEX "/tests/device/")
list(REMOVE_ITEM test_sources ${device_tests})
add_library(mgi_device_test_objects OBJECT ${device_tests})
mgi_target_defaults(mgi_device_test_objects)
target_compile_options(mgi_device_test_objects PRIVATE $<$<CXX_COMPILER_ID:GNU>:-Wno-stringop-overflow>)  # as of -Wno-restrict
mgi_unity_by_folder(mgi_device_test_objects)
mgi_test_headers(mgi_device_test_objects)
target_link_libraries(mgi_device_test_objects PRIVATE mgi_test_support)

add_executable(mgi_tests ${test_sources})
mgi_test_defaults(mgi_tests)
mgi_unity_by_folder(mgi_tests)
mgi_test_headers(mgi_tests)
# Tests may look behind the public headers: src/ and bench/ are on their include path.
target_include_directories(mgi_tests PRIVATE
    "${PROJECT_SOURCE_DIR}/tests" "${PROJECT_SOURCE_DIR}/src" "${PROJECT_SOURCE_DIR}/bench")
target_compile_definitions(mgi_tests PRIVATE
    MGI_FUZZ_CORPUS="${PROJECT_SOURCE_DIR}/tests/fuzz/corpus")
target_link_libraries(mgi_tests PRIVATE mgi_device_test_objects mgi_test_support GTest::gtest_main)
# What only tests look at that may have been left out above.
if(NOT MGI_SANITIZE STREQUAL "thread")
    target_link_libraries(mgi_tests PRIVATE mgi_readers mgi_simulation)
endif()
if(TARGET mgi_perf AND NOT (MGI_SANITIZE STREQUAL "thread" AND MGI_TEST_SCOPE STREQUAL "part"))
    target_link_libraries(mgi_tests PRIVATE mgi_perf)
endif()
target_link_options(mgi_tests PRIVATE ${MGI_HANG_GUARD})
mgi_discover_tests(mgi_tests)

# A driver of GPUs that is made up: tests/gpu_driver/fake_cuda.hpp.
mgi_glob(fake_cuda_sources tests/gpu_driver/fake_*.cpp)
add_library(mgi_fake_cuda MODULE ${fake_cuda_sources})
mgi_target_defaults(mgi_fake_cuda)
target_include_directories(mgi_fake_cuda PRIVATE
    "${PROJECT_SOURCE_DIR}/tests" "${PROJECT_SOURCE_DIR}/src")
target_link_libraries(mgi_fake_cuda PRIVATE Threads::Threads)
add_dependencies(mgi_tests mgi_fake_cuda)
target_compile_definitions(mgi_tests PRIVATE MGI_FAKE_CUDA="$<TARGET_FILE:mgi_fake_cuda>")

# Processes of their own that tests/process starts.
add_executable(mgi_test_member tests/process/member.cpp tests/process/exchange.cpp)
add_executable(mgi_test_gpu_member tests/process/gpu_member.cpp)
target_compile_definitions(mgi_test_gpu_member PRIVATE
    MGI_FAKE_CUDA="$<TARGET_FILE:mgi_fake_cuda>")
foreach(member mgi_test_member mgi_test_gpu_member)
    mgi_test_defaults(${member})
    mgi_unity(${member})
    target_link_libraries(${member} PRIVATE mgi_test_support)
    add_dependencies(mgi_tests ${member})
endforeach()
set_source_files_properties("${PROJECT_SOURCE_DIR}/tests/process/process_test.cpp" PROPERTIES
    COMPILE_DEFINITIONS "MGI_TEST_MEMBER=\"$<TARGET_FILE:mgi_test_member>\"")
set_source_files_properties("${PROJECT_SOURCE_DIR}/tests/process/gpu_process_test.cpp" PROPERTIES
    COMPILE_DEFINITIONS "MGI_TEST_GPU_MEMBER=\"$<TARGET_FILE:mgi_test_gpu_member>\"")

# The device headers' protocols under hostile schedules: a program of its own, run by seeds.
mgi_glob(hostile_sources tests/hostile/*.cpp)
add_executable(mgi_hostile ${hostile_sources})
mgi_target_defaults(mgi_hostile)
mgi_unity(mgi_hostile)
target_link_libraries(mgi_hostile PRIVATE mgi_test_support)
foreach(hundred RANGE 9)
    add_test(NAME hostile.seeds_${hundred}00 COMMAND mgi_hostile --first ${hundred}00 --seeds 100)
endforeach()

# The device tests alone, without the runtime: what tools/mutate builds to see barriers missed.
mgi_glob(device_test_sources tests/device/*.cpp tests/support/*.cpp src/core/*.cpp src/memory/*.cpp)
list(FILTER device_test_sources EXCLUDE REGEX "/tests/support/(flow|flow_runtimes|meeting|shared_channel)\\.cpp$")
add_executable(mgi_device_tests EXCLUDE_FROM_ALL ${device_test_sources})
mgi_target_defaults(mgi_device_tests)
target_compile_definitions(mgi_device_tests PRIVATE MGI_VERSION="${PROJECT_VERSION}" MGI_TEST_UCX=0)
target_include_directories(mgi_device_tests PRIVATE
    "${PROJECT_SOURCE_DIR}/tests" "${PROJECT_SOURCE_DIR}/src" "${PROJECT_SOURCE_DIR}/include")
target_link_libraries(mgi_device_tests PRIVATE
    mgi_spdlog mgi::cccl Threads::Threads GTest::gtest GTest::gtest_main)

# Faults: every allocation fails once, callbacks throw, channels fail at any time. A program of its
# own, since it replaces operator new.
mgi_glob(faults_sources tests/faults/*.cpp)
add_executable(mgi_faults ${faults_sources})
mgi_test_defaults(mgi_faults)
mgi_unity_by_folder(mgi_faults)
set_source_files_properties("${PROJECT_SOURCE_DIR}/tests/faults/failing_allocations.cpp" PROPERTIES
    SKIP_UNITY_BUILD_INCLUSION ON)  # g++ warns where it sees that this operator new is malloc
mgi_test_headers(mgi_faults)
target_link_options(mgi_faults PRIVATE "-Wl,--wrap=mmap,--wrap=memfd_create,--wrap=fallocate")
target_link_libraries(mgi_faults PRIVATE mgi_test_support GTest::gtest_main ${CMAKE_DL_LIBS})
add_dependencies(mgi_faults mgi_fake_cuda)
target_compile_definitions(mgi_faults PRIVATE MGI_FAKE_CUDA="$<TARGET_FILE:mgi_fake_cuda>")
target_link_options(mgi_faults PRIVATE ${MGI_HANG_GUARD})
mgi_discover_tests(mgi_faults)
