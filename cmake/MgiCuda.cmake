# What nvcc compiles: the operators over tables in GPU memory, and mgi_gpu_bench. In a build that is for GPUs
# alone (MGI_BUILD_CUDA=ON) every other .cu source as well (those of bench/gpu with MGI_BUILD_BENCH), for each
# architecture, without a GPU and without linking: the proof that device code is one source for both compilers.

# mgi_gpu_operators: <mgi/gpu_operators.hpp>, linked beside mgi, with CUDA's runtime inside.
mgi_glob(gpu_operator_sources src/operators/gpu/*.cu)
add_library(mgi_gpu_operators STATIC ${gpu_operator_sources})
add_library(mgi::gpu_operators ALIAS mgi_gpu_operators)
mgi_target_defaults(mgi_gpu_operators)
mgi_cuda_defaults(mgi_gpu_operators)
set_target_properties(mgi_gpu_operators PROPERTIES
    CUDA_RUNTIME_LIBRARY Static CUDA_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON
    OPTIMIZE_DEPENDENCIES ON)  # to be compiled it needs mgi's headers, not mgi
# Two blocks of 256 threads for each multiprocessor: kernels that send would take 234 registers.
target_compile_options(mgi_gpu_operators PRIVATE $<$<COMPILE_LANGUAGE:CUDA>:-maxrregcount=128>)
target_link_libraries(mgi_gpu_operators PUBLIC mgi)

mgi_glob(gpu_bench_sources bench/gpu/*.cu)
# Processes of a benchmark meet as those of tests do.
add_executable(mgi_gpu_bench EXCLUDE_FROM_ALL ${gpu_bench_sources} tests/support/meeting.cpp)
mgi_cuda_defaults(mgi_gpu_bench)
target_include_directories(mgi_gpu_bench PRIVATE "${PROJECT_SOURCE_DIR}/tests" "${PROJECT_SOURCE_DIR}/src")
target_link_libraries(mgi_gpu_bench PRIVATE mgi mgi_gpu_operators)

if(NOT MGI_BUILD_CUDA STREQUAL "AUTO")
    mgi_glob(cuda_sources examples/*.cu tests/cuda/*.cu tests/gpu/*.cu)
    if(MGI_BUILD_BENCH)
        list(APPEND cuda_sources ${gpu_bench_sources})
    endif()
    add_library(mgi_cuda_objects OBJECT EXCLUDE_FROM_ALL ${cuda_sources})
    mgi_cuda_defaults(mgi_cuda_objects)
    target_include_directories(mgi_cuda_objects PRIVATE
        "${PROJECT_SOURCE_DIR}/include" "${PROJECT_SOURCE_DIR}/tests")
    target_link_libraries(mgi_cuda_objects PRIVATE mgi::cccl)
endif()
