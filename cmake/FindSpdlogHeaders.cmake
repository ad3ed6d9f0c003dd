# Finds spdlog and fmt as headers only: logging stays inside libmgi, which then links neither.
# Defines the target mgi_spdlog, which says by MGI_WITH_SPDLOG whether they are there (MGI_THIRD_PARTY).
find_path(SPDLOG_INCLUDE_DIR spdlog/spdlog.h)
find_path(FMT_INCLUDE_DIR fmt/format.h)
mark_as_advanced(SPDLOG_INCLUDE_DIR FMT_INCLUDE_DIR)

if(MGI_THIRD_PARTY STREQUAL "OFF" OR NOT SPDLOG_INCLUDE_DIR OR NOT FMT_INCLUDE_DIR)
    set(SpdlogHeaders_FOUND FALSE)
    if(NOT TARGET mgi_spdlog)
        add_library(mgi_spdlog INTERFACE)
        target_compile_definitions(mgi_spdlog INTERFACE MGI_WITH_SPDLOG=0)
    endif()
    if(SpdlogHeaders_FIND_REQUIRED)
        message(FATAL_ERROR
            "No spdlog headers (spdlog/spdlog.h, fmt/format.h). On Debian or Ubuntu: "
            "apt-get install libspdlog-dev. Elsewhere set SPDLOG_INCLUDE_DIR and FMT_INCLUDE_DIR.")
    endif()
    return()
endif()

set(SpdlogHeaders_FOUND TRUE)
if(NOT TARGET mgi_spdlog)
    add_library(mgi_spdlog INTERFACE)
    target_include_directories(mgi_spdlog SYSTEM INTERFACE
        "${SPDLOG_INCLUDE_DIR}" "${FMT_INCLUDE_DIR}")
    target_compile_definitions(mgi_spdlog INTERFACE MGI_WITH_SPDLOG=1)
    # The two sources that have fmt's and spdlog's code in them; in every source it was a fifth of all
    # compiling.
    set_source_files_properties(
        "${PROJECT_SOURCE_DIR}/src/core/format.cpp" "${PROJECT_SOURCE_DIR}/src/core/log.cpp"
        PROPERTIES COMPILE_DEFINITIONS FMT_HEADER_ONLY SKIP_UNITY_BUILD_INCLUSION ON)
endif()
