# Every examples/*.cpp and *.cu is one program. A .cu source is C++ here; the cuda preset gives the
# very same file to nvcc (MgiCuda.cmake).
add_custom_target(mgi_examples)
mgi_glob(example_sources examples/*.cpp examples/*.cu)
foreach(source IN LISTS example_sources)
    cmake_path(GET source STEM name)
    set_source_files_properties("${source}" PROPERTIES LANGUAGE CXX)
    add_executable(example_${name} "${source}")
    set_target_properties(example_${name} PROPERTIES
        OUTPUT_NAME "${name}" RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/examples")
    mgi_target_defaults(example_${name})
    add_dependencies(mgi_examples example_${name})
    target_link_libraries(example_${name} PRIVATE mgi)
endforeach()
