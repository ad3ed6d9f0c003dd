# Compiles every .cu source with nvcc, for each GPU architecture, without a GPU and without linking:
# the proof that device code is one source for both compilers.
enable_language(CUDA)

mgi_glob(cuda_sources examples/*.cu tests/cuda/*.cu tests/gpu/*.cu bench/gpu/*.cu)
add_library(mgi_cuda_objects OBJECT ${cuda_sources})
set_target_properties(mgi_cuda_objects PROPERTIES
    CUDA_STANDARD 20 CUDA_STANDARD_REQUIRED ON CUDA_ARCHITECTURES "${MGI_CUDA_ARCHITECTURES}")
target_compile_options(mgi_cuda_objects PRIVATE
    $<$<COMPILE_LANGUAGE:CUDA>:--expt-relaxed-constexpr --extended-lambda -lineinfo>
    $<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-Wall,-Wno-restrict>)
if(MGI_WARNINGS_AS_ERRORS)
    target_compile_options(mgi_cuda_objects PRIVATE
        $<$<COMPILE_LANGUAGE:CUDA>:-Werror=all-warnings>)
endif()
target_include_directories(mgi_cuda_objects PRIVATE
    "${PROJECT_SOURCE_DIR}/include" "${PROJECT_SOURCE_DIR}/tests" "${PROJECT_SOURCE_DIR}/src")
target_link_libraries(mgi_cuda_objects PRIVATE mgi::cccl)
