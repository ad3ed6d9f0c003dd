# Whether this build compiles for GPUs: MGI_WITH_CUDA, and CMAKE_CUDA_COMPILER with it.
#
# MGI_BUILD_CUDA=ON wants nvcc of CUDA 13 or newer. AUTO takes it where it is there and of use: on a machine
# with NVIDIA's driver, or with MGI_CUDA=1 in the environment; it takes minutes, which nobody without a GPU
# should wait for.
set(MGI_WITH_CUDA FALSE)
set(_mgi_gpu_here FALSE)
if(EXISTS "/proc/driver/nvidia/version" OR EXISTS "/dev/nvidiactl")
    set(_mgi_gpu_here TRUE)
endif()
# Of no use elsewhere, and the most of what nvcc has to do.
option(MGI_GPU_BENCH "With CUDA: build mgi_gpu_bench into the Python package" ${_mgi_gpu_here})

if(MGI_BUILD_CUDA STREQUAL "AUTO")
    set(_mgi_wanted FALSE)
    if("$ENV{MGI_CUDA}" STREQUAL "1" OR (_mgi_gpu_here AND NOT "$ENV{MGI_CUDA}" STREQUAL "0"))
        set(_mgi_wanted TRUE)
    endif()
elseif(MGI_BUILD_CUDA)
    set(_mgi_wanted TRUE)
else()
    set(_mgi_wanted FALSE)
endif()

if(_mgi_wanted AND NOT CMAKE_CUDA_COMPILER)
    find_program(_mgi_nvcc nvcc NO_CACHE HINTS "$ENV{CUDACXX}" /usr/local/cuda/bin)
    if(DEFINED ENV{CUDACXX})
        set(_mgi_nvcc "$ENV{CUDACXX}")
    endif()
    set(_mgi_cuda_release 0)
    if(_mgi_nvcc)
        execute_process(COMMAND "${_mgi_nvcc}" --version OUTPUT_VARIABLE _mgi_cuda_says ERROR_QUIET)
        if(_mgi_cuda_says MATCHES "release ([0-9]+)")
            set(_mgi_cuda_release "${CMAKE_MATCH_1}")
        endif()
    endif()
    if(_mgi_cuda_release GREATER_EQUAL 13)
        set(CMAKE_CUDA_COMPILER "${_mgi_nvcc}")
    elseif(MGI_BUILD_CUDA STREQUAL "AUTO")
        message(STATUS "nothing for GPUs without nvcc of CUDA 13 or newer")
        set(_mgi_wanted FALSE)
    endif()
endif()
if(_mgi_wanted)
    set(MGI_WITH_CUDA TRUE)
    if(MGI_CUDA_ARCHITECTURES)
        set(_mgi_architectures "${MGI_CUDA_ARCHITECTURES}")
    elseif(MGI_BUILD_CUDA STREQUAL "AUTO" AND _mgi_gpu_here)
        set(_mgi_architectures native)  # asks the GPU that is there
    else()
        set(_mgi_architectures 80-real 90-real)
    endif()
    set(CMAKE_CUDA_ARCHITECTURES "${_mgi_architectures}")
    enable_language(CUDA)
    message(STATUS "for GPUs (${_mgi_architectures}): ${CMAKE_CUDA_COMPILER}")
endif()

# mgi_cuda_defaults(<target>): how our own .cu sources are compiled.
function(mgi_cuda_defaults target)
    set_target_properties(${target} PROPERTIES
        CUDA_STANDARD 20 CUDA_STANDARD_REQUIRED ON POSITION_INDEPENDENT_CODE ON UNITY_BUILD OFF)
    target_compile_options(${target} PRIVATE
        $<$<COMPILE_LANGUAGE:CUDA>:--expt-relaxed-constexpr --extended-lambda -lineinfo>
        $<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-Wall,-Wno-restrict>)
    if(MGI_CUDA_COMPILE_ONLY)  # a quarter of the time, for code that nobody runs
        target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CUDA>:--Ofast-compile=max>)
    endif()
    if(MGI_WARNINGS_AS_ERRORS)
        target_compile_options(${target} PRIVATE
            $<$<COMPILE_LANGUAGE:CUDA>:-Werror=all-warnings>)
    endif()
    target_include_directories(${target} PRIVATE "${PROJECT_SOURCE_DIR}/src")
endfunction()
