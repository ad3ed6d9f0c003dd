# Finds nlohmann-json, which is headers only: the messages between applications and their agent are CBOR.
# Defines the target mgi_json.
find_path(NLOHMANN_JSON_INCLUDE_DIR nlohmann/json.hpp)
mark_as_advanced(NLOHMANN_JSON_INCLUDE_DIR)

if(MGI_THIRD_PARTY STREQUAL "OFF" OR NOT NLOHMANN_JSON_INCLUDE_DIR)
    set(JsonHeaders_FOUND FALSE)
    if(NOT TARGET mgi_json)
        add_library(mgi_json INTERFACE)
    endif()
    if(JsonHeaders_FIND_REQUIRED)
        message(FATAL_ERROR
            "No nlohmann-json headers (nlohmann/json.hpp). On Debian or Ubuntu: "
            "apt-get install nlohmann-json3-dev. Elsewhere set NLOHMANN_JSON_INCLUDE_DIR.")
    endif()
    return()
endif()

set(JsonHeaders_FOUND TRUE)
if(NOT TARGET mgi_json)
    add_library(mgi_json INTERFACE)
    target_include_directories(mgi_json SYSTEM INTERFACE "${NLOHMANN_JSON_INCLUDE_DIR}")
endif()
