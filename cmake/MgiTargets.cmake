# What every target of this build shares: flags, warnings, sanitizers, and the way sources are found.

# mgi_glob(<variable> <pattern>...): the files under the project's root that match, in a stable order.
# The build looks again each time it runs, so that a file added or removed is noticed.
function(mgi_glob variable)
    list(TRANSFORM ARGN PREPEND "${PROJECT_SOURCE_DIR}/")
    file(GLOB files CONFIGURE_DEPENDS ${ARGN})
    set(${variable} ${files} PARENT_SCOPE)
endfunction()

# mgi_target_defaults(<target>): how our own C++ is compiled. Nothing of this reaches a user's targets.
function(mgi_target_defaults target)
    set_target_properties(${target} PROPERTIES
        CXX_STANDARD 20 CXX_STANDARD_REQUIRED ON CXX_EXTENSIONS OFF POSITION_INDEPENDENT_CODE ON)
    target_compile_options(${target} PRIVATE
        $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Wshadow -Wnon-virtual-dtor -Woverloaded-virtual
        -Wcast-align -Wundef -Wvla>)
    if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
        # False alarms inside std::string and std::vector once g++ 12 has inlined them (GCC PR105651,
        # PR105329): the first says nothing true, the others stay warnings.
        target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-Wno-restrict>)
    endif()
    if(MGI_WARNINGS_AS_ERRORS)
        target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-Werror
            -Wno-error=maybe-uninitialized -Wno-error=stringop-overflow -Wno-error=array-bounds>)
    endif()

    if(MGI_NATIVE)
        target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-march=native>)
    elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
        # Every server of the last twelve years; gives 16-byte compare-and-swap, popcnt and SSE4.2.
        target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-march=x86-64-v2>)
    endif()

    # All of a build's objects or none: they share the headers' templates (include/mgi/device/assert.hpp).
    if(MGI_ASSERTIONS STREQUAL "AUTO" AND NOT MGI_SANITIZE)
        target_compile_definitions(${target} PRIVATE $<$<CONFIG:Debug>:MGI_ASSERTIONS=1>)
    elseif(MGI_ASSERTIONS)
        target_compile_definitions(${target} PRIVATE MGI_ASSERTIONS=1)
    endif()

    if(MGI_SANITIZE)
        set(flags -fsanitize=${MGI_SANITIZE} -fno-omit-frame-pointer)
        if(MGI_SANITIZE MATCHES "undefined")
            # Null, the end of an object and a pointer that wraps AddressSanitizer sees where they are
            # touched; a pointer that wraps and `vptr` were a sixth of what this build costs.
            list(APPEND flags -fno-sanitize-recover=undefined
                -fno-sanitize=null,object-size,pointer-overflow,vptr)
        endif()
        if(CMAKE_CXX_COMPILER_ID MATCHES "Clang" AND MGI_SANITIZE MATCHES "address")
            # What g++ and newer clangs define by themselves.
            list(APPEND flags -D__SANITIZE_ADDRESS__=1)
        endif()
        target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:${flags}>)
        target_link_options(${target} PRIVATE -fsanitize=${MGI_SANITIZE})
    endif()
endfunction()

# mgi_unity(<target> [SOURCE...]): where CMAKE_UNITY_BUILD says so, the target's sources are compiled some
# at a time, which reads their headers once for all of them: a third of the time. Names in unnamed
# namespaces must then differ within the target; SOURCEs are those that are left alone. Other targets
# are always compiled source by source.
set(MGI_UNITY "${CMAKE_UNITY_BUILD}")
set(CMAKE_UNITY_BUILD OFF)
function(mgi_unity target)
    if(MGI_UNITY)
        set_target_properties(${target} PROPERTIES UNITY_BUILD ON)
        # That a unit's main source is not the one that a class is from says nothing about who sees it.
        target_compile_options(${target} PRIVATE
            $<$<CXX_COMPILER_ID:GNU>:$<$<COMPILE_LANGUAGE:CXX>:-Wno-subobject-linkage>>)
        foreach(source IN LISTS ARGN)
            set_source_files_properties("${PROJECT_SOURCE_DIR}/${source}" PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
        endforeach()
    endif()
endfunction()

# mgi_unity_by_folder(<target>): the same, for tests: the sources of one folder are one unit, or a few where
# they are many, and only their names must differ. Sources with options of their own stay alone.
function(mgi_unity_by_folder target)
    mgi_unity(${target})
    set_target_properties(${target} PROPERTIES UNITY_BUILD_MODE GROUP)
    get_target_property(sources ${target} SOURCES)
    foreach(source IN LISTS sources)
        cmake_path(GET source PARENT_PATH folder)
        cmake_path(RELATIVE_PATH folder BASE_DIRECTORY "${PROJECT_SOURCE_DIR}/tests")
        string(REPLACE "/" "_" group "${folder}")
        # A unit of more than this takes so long that other cores have nothing left to do, and that a
        # change of one source is slow to see.
        math(EXPR count_${group} "0${count_${group}} + 1")
        math(EXPR part "(${count_${group}} - 1) / 10")
        set_source_files_properties("${source}" PROPERTIES UNITY_GROUP "${group}_${part}")
    endforeach()
endfunction()

# mgi_test_headers(<target>): what most tests include is read once; not without the unity build, where each
# source must include what it uses.
function(mgi_test_headers target)
    if(MGI_UNITY)
        target_precompile_headers(${target} PRIVATE
            <gtest/gtest.h> <algorithm> <atomic> <chrono> <cstring> <filesystem> <functional> <map>
            <memory> <mutex> <optional> <set> <span> <sstream> <string> <thread> <unordered_map> <vector>
            <mgi/runtime.hpp>)
    endif()
endfunction()

# mgi_optimize_little(<target>): for what takes longer to compile than it will ever gain by being faster.
function(mgi_optimize_little target)
    target_compile_options(${target} PRIVATE $<$<NOT:$<CONFIG:Debug>>:-O1>)
endfunction()

# mgi_test_defaults(<target>): a test is compiled more often than it runs.
function(mgi_test_defaults target)
    mgi_target_defaults(${target})
    mgi_optimize_little(${target})
endfunction()

# mgi_discover_tests(<target>): each test of a GoogleTest program is one of ctest's, found when ctest runs.
function(mgi_discover_tests target)
    if(MGI_SANITIZE STREQUAL "thread")
        set_target_properties(${target} PROPERTIES
            CROSSCOMPILING_EMULATOR "${PROJECT_SOURCE_DIR}/tools/fixed_addresses.sh")
    endif()
    gtest_discover_tests(${target} DISCOVERY_MODE PRE_TEST DISCOVERY_TIMEOUT 60 PROPERTIES TIMEOUT 300)
endfunction()
