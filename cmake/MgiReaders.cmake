# Readers of topology files (NCCL, hwloc, nvidia-smi) and of this machine: a library of their own, so that
# libmgi needs no XML. The Python package and the tests use it.
find_package(pugixml CONFIG)
if(NOT pugixml_FOUND)
    message(FATAL_ERROR
        "No pugixml, which reads topology files. On Debian or Ubuntu: apt-get install libpugixml-dev. "
        "Elsewhere set pugixml_DIR to the folder that has pugixml-config.cmake.")
endif()

find_package(JsonHeaders REQUIRED)

mgi_glob(reader_sources src/topology/readers/*.cpp src/topology/machine/*.cpp)
add_library(mgi_readers STATIC ${reader_sources})
mgi_target_defaults(mgi_readers)
mgi_unity(mgi_readers)
target_include_directories(mgi_readers PUBLIC "${PROJECT_SOURCE_DIR}/src")
target_link_libraries(mgi_readers PUBLIC mgi PRIVATE pugixml::pugixml mgi_json ${CMAKE_DL_LIBS})
