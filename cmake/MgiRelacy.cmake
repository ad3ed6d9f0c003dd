# The protocols of include/mgi/device under Relacy, which runs them through interleavings and stale reads
# (tests/relacy). Its own program: Relacy replaces operator new, and has its own way of waiting.
find_path(MGI_RELACY_INCLUDE_DIR relacy/relacy.hpp)
if(NOT MGI_RELACY_INCLUDE_DIR)
    message(STATUS "No Relacy (apt-get install relacy-dev): no mgi_relacy")
    return()
endif()

mgi_glob(relacy_sources tests/relacy/*.cpp src/memory/segment_ranges.cpp src/mover/intake.cpp)
add_executable(mgi_relacy EXCLUDE_FROM_ALL ${relacy_sources})
mgi_target_defaults(mgi_relacy)
target_include_directories(mgi_relacy PRIVATE "${PROJECT_SOURCE_DIR}/include" "${PROJECT_SOURCE_DIR}/src")
target_include_directories(mgi_relacy SYSTEM PRIVATE "${MGI_RELACY_INCLUDE_DIR}")
# Relacy's fibers are switched by longjmp, which a checked one takes for an error.
target_compile_options(mgi_relacy PRIVATE -U_FORTIFY_SOURCE -O2)
target_link_libraries(mgi_relacy PRIVATE mgi::cccl)
# A broken invariant is a failed scenario. The program has all of its sources, so it may have assertions where
# the library has none.
if(MGI_ASSERTIONS)
    target_compile_definitions(mgi_relacy PRIVATE MGI_ASSERTIONS=1)
endif()

if(CMAKE_CONFIGURATION_TYPES)
    return()  # one program for each configuration has no one place
endif()
# Each scenario is a test of ctest's, found when ctest runs, where the program was built.
file(GENERATE OUTPUT "${PROJECT_BINARY_DIR}/relacy_tests.cmake" CONTENT [[
if(EXISTS "$<TARGET_FILE:mgi_relacy>")
    execute_process(COMMAND "$<TARGET_FILE:mgi_relacy>" --list OUTPUT_VARIABLE scenarios)
    string(REGEX MATCHALL "[^\n]+" scenarios "${scenarios}")
    foreach(scenario IN LISTS scenarios)
        string(REGEX REPLACE " .*" "" scenario "${scenario}")
        add_test("relacy.${scenario}" "$<TARGET_FILE:mgi_relacy>" "${scenario}")
    endforeach()
endif()
]])
set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES "${PROJECT_BINARY_DIR}/relacy_tests.cmake")
