# The install tree: headers, the library, and what find_package(mgi) reads.
include(CMakePackageConfigHelpers)

set(MGI_CMAKE_DIR "${CMAKE_INSTALL_LIBDIR}/cmake/mgi")

install(TARGETS mgi EXPORT mgiTargets COMPONENT development
        ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}")
if(TARGET mgi_gpu_operators)
    set_target_properties(mgi_gpu_operators PROPERTIES EXPORT_NAME gpu_operators)
    install(TARGETS mgi_gpu_operators EXPORT mgiTargets COMPONENT development
            ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}")
endif()
install(DIRECTORY "${PROJECT_SOURCE_DIR}/include/mgi" COMPONENT development
        DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}"
        FILES_MATCHING PATTERN "*.hpp" PATTERN "*.inl" PATTERN "*.cuh" PATTERN "*.h")
install(EXPORT mgiTargets NAMESPACE mgi:: DESTINATION "${MGI_CMAKE_DIR}" COMPONENT development)

configure_package_config_file(
    "${CMAKE_CURRENT_LIST_DIR}/mgiConfig.cmake.in" "${PROJECT_BINARY_DIR}/mgiConfig.cmake"
    INSTALL_DESTINATION "${MGI_CMAKE_DIR}")
write_basic_package_version_file("${PROJECT_BINARY_DIR}/mgiConfigVersion.cmake"
                                 COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/mgiConfig.cmake" "${PROJECT_BINARY_DIR}/mgiConfigVersion.cmake"
              "${CMAKE_CURRENT_LIST_DIR}/FindCCCLHeaders.cmake"
        DESTINATION "${MGI_CMAKE_DIR}" COMPONENT development)
install(FILES "${PROJECT_SOURCE_DIR}/LICENSE" DESTINATION "${CMAKE_INSTALL_DOCDIR}"
        COMPONENT development)
