# The compiled half of the Python package: nanobind's module _mgi, put beside python/mgi/*.py.
find_package(Python 3.10 REQUIRED COMPONENTS Interpreter Development.Module)

if(NOT nanobind_DIR OR NOT EXISTS "${nanobind_DIR}")
    execute_process(COMMAND "${Python_EXECUTABLE}" -m nanobind --cmake_dir
                    OUTPUT_VARIABLE nanobind_hint OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
endif()
find_package(nanobind CONFIG REQUIRED HINTS "${nanobind_hint}")

mgi_glob(python_sources python/src/*.cpp)
# NOSTRIP: the stacks of a hung process should name functions.
nanobind_add_module(_mgi NB_STATIC NB_SUPPRESS_WARNINGS NOMINSIZE NOSTRIP ${python_sources})
mgi_target_defaults(_mgi)
mgi_unity(_mgi)
target_include_directories(_mgi PRIVATE "${PROJECT_SOURCE_DIR}/src")
target_link_libraries(_mgi PRIVATE mgi mgi_perf mgi_readers mgi_simulation)
target_compile_definitions(_mgi PRIVATE
    MGI_VERSION="${PROJECT_VERSION}" MGI_WITH_GPU_OPERATORS=$<BOOL:${MGI_WITH_CUDA}>)

if(MGI_WITH_CUDA)
    target_link_libraries(_mgi PRIVATE mgi_gpu_operators)
    set_target_properties(_mgi PROPERTIES LINKER_LANGUAGE CXX)
endif()

# What kernels include that are compiled at run time: mgi.include_dirs().
install(DIRECTORY "${PROJECT_SOURCE_DIR}/include/mgi" DESTINATION mgi/include COMPONENT python
        FILES_MATCHING PATTERN "*.hpp" PATTERN "*.inl")
install(TARGETS _mgi LIBRARY DESTINATION mgi COMPONENT python)

# What pip builds: the module and, where its libraries are found, the control plane's program.
add_custom_target(mgi_python DEPENDS _mgi)
if(MGI_WITH_CUDA AND MGI_GPU_BENCH)
    add_dependencies(mgi_python mgi_gpu_bench)
    install(TARGETS mgi_gpu_bench RUNTIME DESTINATION mgi/bin COMPONENT python)
endif()
