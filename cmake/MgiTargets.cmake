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

    if(MGI_SANITIZE)
        set(flags -fsanitize=${MGI_SANITIZE} -fno-omit-frame-pointer)
        if(MGI_SANITIZE MATCHES "undefined")
            # Null and the end of an object AddressSanitizer sees where they are touched.
            list(APPEND flags -fno-sanitize-recover=undefined -fno-sanitize=null,object-size)
        endif()
        target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:${flags}>)
        target_link_options(${target} PRIVATE -fsanitize=${MGI_SANITIZE})
    endif()
endfunction()

# mgi_test_defaults(<target>): a test is compiled more often than it runs, so it is optimized little.
function(mgi_test_defaults target)
    mgi_target_defaults(${target})
    target_compile_options(${target} PRIVATE $<$<NOT:$<CONFIG:Debug>>:-O1>)
endfunction()
