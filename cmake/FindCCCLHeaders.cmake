# Finds the headers of CCCL 3 (libcu++: <cuda/atomic> and its kin), which plain g++ compiles too.
#
# Looked for in this order:
#   1. MGI_CCCL_INCLUDE_DIR, a CMake or environment variable: the folder that holds cuda/atomic;
#   2. a CUDA toolkit: CUDAToolkit_ROOT, CUDA_HOME, CUDA_PATH, the nvcc on PATH, /usr/local/cuda;
#   3. the PyPI package nvidia-cuda-cccl in CMAKE_PREFIX_PATH (pip builds), the active virtual
#      environment, or the .venv of this project.
# An older CCCL on the way is passed over. Defines the target mgi::cccl; its headers are system
# headers to the compiler. Nothing is cached, so that a removed environment is noticed.
set(_mgi_cccl_tried "")

# Sets _mgi_cccl_dir to <candidate> when a CCCL 3 or newer stands there.
macro(_mgi_try_cccl candidate)
    if(NOT _mgi_cccl_dir AND EXISTS "${candidate}/cuda/atomic")
        set(_mgi_cccl_version 0)
        if(EXISTS "${candidate}/cuda/std/__cccl/version.h")
            file(STRINGS "${candidate}/cuda/std/__cccl/version.h" _mgi_cccl_line
                 REGEX "#define CCCL_VERSION [0-9]+" LIMIT_COUNT 1)
            string(REGEX MATCH "[0-9]+$" _mgi_cccl_version "${_mgi_cccl_line}")
        endif()
        if(_mgi_cccl_version GREATER_EQUAL 3000000)
            math(EXPR _mgi_cccl_major "${_mgi_cccl_version} / 1000000")
            math(EXPR _mgi_cccl_minor "${_mgi_cccl_version} / 1000 % 1000")
            math(EXPR _mgi_cccl_patch "${_mgi_cccl_version} % 1000")
            set(CCCLHeaders_VERSION "${_mgi_cccl_major}.${_mgi_cccl_minor}.${_mgi_cccl_patch}")
            set(_mgi_cccl_dir "${candidate}")
        else()
            string(APPEND _mgi_cccl_tried "\n  ${candidate} (older than CCCL 3)")
        endif()
    endif()
endmacro()

set(_mgi_cccl_dir "")
foreach(_mgi_override IN ITEMS "${MGI_CCCL_INCLUDE_DIR}" "$ENV{MGI_CCCL_INCLUDE_DIR}")
    if(_mgi_override AND NOT _mgi_cccl_dir)
        _mgi_try_cccl("${_mgi_override}")
        if(NOT _mgi_cccl_dir)
            message(FATAL_ERROR
                "MGI_CCCL_INCLUDE_DIR is ${_mgi_override}, but no CCCL 3 is there: "
                "it must be the folder that contains cuda/atomic.")
        endif()
    endif()
endforeach()

if(NOT _mgi_cccl_dir)
    set(_mgi_roots "${CUDAToolkit_ROOT}" "$ENV{CUDAToolkit_ROOT}" "$ENV{CUDA_HOME}" "$ENV{CUDA_PATH}")
    find_program(_mgi_nvcc nvcc NO_CACHE)
    if(_mgi_nvcc)
        file(REAL_PATH "${_mgi_nvcc}" _mgi_nvcc)
        cmake_path(GET _mgi_nvcc PARENT_PATH _mgi_nvcc_bin)
        cmake_path(GET _mgi_nvcc_bin PARENT_PATH _mgi_nvcc_root)
        list(APPEND _mgi_roots "${_mgi_nvcc_root}")
    endif()
    list(APPEND _mgi_roots /usr/local/cuda)
    foreach(_mgi_root IN LISTS _mgi_roots)
        if(_mgi_root)
            _mgi_try_cccl("${_mgi_root}/include/cccl")
            _mgi_try_cccl("${_mgi_root}/include")
            _mgi_try_cccl("${_mgi_root}/targets/${CMAKE_SYSTEM_PROCESSOR}-linux/include/cccl")
            _mgi_try_cccl("${_mgi_root}/targets/${CMAKE_SYSTEM_PROCESSOR}-linux/include")
        endif()
    endforeach()
endif()

if(NOT _mgi_cccl_dir)
    set(_mgi_packages "")
    foreach(_mgi_prefix IN LISTS CMAKE_PREFIX_PATH)
        list(APPEND _mgi_packages "${_mgi_prefix}")
    endforeach()
    foreach(_mgi_venv IN ITEMS "$ENV{VIRTUAL_ENV}" "${PROJECT_SOURCE_DIR}/.venv"
                               "${CMAKE_SOURCE_DIR}/.venv" "${CMAKE_CURRENT_LIST_DIR}/../.venv")
        if(_mgi_venv)
            file(GLOB _mgi_site "${_mgi_venv}/lib/python3*/site-packages")
            list(APPEND _mgi_packages ${_mgi_site})
        endif()
    endforeach()
    foreach(_mgi_site IN LISTS _mgi_packages)
        file(GLOB _mgi_candidates "${_mgi_site}/nvidia/*/include/cccl" "${_mgi_site}/nvidia/*/include")
        foreach(_mgi_candidate IN LISTS _mgi_candidates)
            _mgi_try_cccl("${_mgi_candidate}")
        endforeach()
    endforeach()
endif()

# An installed mgi remembers where its build found the headers: the last place to look.
if(NOT _mgi_cccl_dir AND MGI_CCCL_BUILD_DIR)
    _mgi_try_cccl("${MGI_CCCL_BUILD_DIR}")
endif()

if(_mgi_cccl_dir)
    set(CCCLHeaders_FOUND TRUE)
    set(CCCLHeaders_INCLUDE_DIR "${_mgi_cccl_dir}")
    if(NOT TARGET mgi::cccl)
        add_library(mgi::cccl INTERFACE IMPORTED)
        set_target_properties(mgi::cccl PROPERTIES
            INTERFACE_INCLUDE_DIRECTORIES "${_mgi_cccl_dir}")
    endif()
    if(NOT CCCLHeaders_FIND_QUIETLY)
        message(STATUS "CCCL ${CCCLHeaders_VERSION}: ${_mgi_cccl_dir}")
    endif()
else()
    set(CCCLHeaders_FOUND FALSE)
    set(CCCLHeaders_NOT_FOUND_MESSAGE
        "No CCCL 3 headers (cuda/atomic). Install a CUDA toolkit (13 or newer), or run "
        "`pip install nvidia-cuda-cccl` in the active virtual environment, or set "
        "MGI_CCCL_INCLUDE_DIR to the folder that contains cuda/atomic.${_mgi_cccl_tried}")
    string(CONCAT CCCLHeaders_NOT_FOUND_MESSAGE ${CCCLHeaders_NOT_FOUND_MESSAGE})
    if(CCCLHeaders_FIND_REQUIRED)
        message(FATAL_ERROR "${CCCLHeaders_NOT_FOUND_MESSAGE}")
    endif()
endif()
