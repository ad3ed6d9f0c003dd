# Compiles every .cu source with nvcc, for each GPU architecture, without a GPU and without linking:
# the proof that device code is one source for both compilers. And the library of operators on GPUs.
enable_language(CUDA)

# mgi_cuda_defaults(<target>): how our own CUDA is compiled.
function(mgi_cuda_defaults target)
    set_target_properties(${target} PROPERTIES
        CUDA_STANDARD 20 CUDA_STANDARD_REQUIRED ON CUDA_ARCHITECTURES "${MGI_CUDA_ARCHITECTURES}")
    target_compile_options(${target} PRIVATE
        $<$<COMPILE_LANGUAGE:CUDA>:--expt-relaxed-constexpr --extended-lambda -lineinfo>
        $<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-Wall,-Wno-restrict>)
    if(MGI_WARNINGS_AS_ERRORS)
        target_compile_options(${target} PRIVATE
            $<$<COMPILE_LANGUAGE:CUDA>:-Werror=all-warnings>)
    endif()
endfunction()

# mgi_gpu_operators: <mgi/gpu_operators.hpp>, linked beside mgi, with CUDA's runtime inside.
mgi_glob(gpu_operator_sources src/operators/gpu/*.cu)
add_library(mgi_gpu_operators STATIC ${gpu_operator_sources})
add_library(mgi::gpu_operators ALIAS mgi_gpu_operators)
mgi_cuda_defaults(mgi_gpu_operators)
set_target_properties(mgi_gpu_operators PROPERTIES
    CUDA_RUNTIME_LIBRARY Static POSITION_INDEPENDENT_CODE ON
    OPTIMIZE_DEPENDENCIES ON)  # to be compiled it needs mgi's headers, not mgi
# Two blocks of 256 threads for each multiprocessor: kernels that send would take 234 registers.
target_compile_options(mgi_gpu_operators PRIVATE $<$<COMPILE_LANGUAGE:CUDA>:-maxrregcount=128>)
target_include_directories(mgi_gpu_operators PRIVATE "${PROJECT_SOURCE_DIR}/src")
target_link_libraries(mgi_gpu_operators PUBLIC mgi)

mgi_glob(cuda_sources examples/*.cu tests/cuda/*.cu tests/gpu/*.cu bench/gpu/*.cu)
add_library(mgi_cuda_objects OBJECT ${cuda_sources})
mgi_cuda_defaults(mgi_cuda_objects)
target_include_directories(mgi_cuda_objects PRIVATE
    "${PROJECT_SOURCE_DIR}/include" "${PROJECT_SOURCE_DIR}/tests" "${PROJECT_SOURCE_DIR}/src")
target_link_libraries(mgi_cuda_objects PRIVATE mgi::cccl)
