#!/usr/bin/env bash
# Builds mgi_gpu_bench for the GPU of this machine: tools/gpu/build_bench.sh FOLDER ARCHITECTURE
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
folder=$1 architecture=$2
mkdir -p "$folder"
compile() {
    nvcc -std=c++20 -O3 -lineinfo -arch="$2" --expt-relaxed-constexpr -Iinclude -Isrc \
        -c "$3" -o "$1/$(basename "$3").o"
}
export -f compile
ls bench/gpu/*.cu bench/gpu/*.cpp src/core/{schema,error,text}.cpp src/memory/segment_layout.cpp \
    src/runtime/channel_tables.cpp |
    xargs -P "$(nproc)" -I{} bash -c "compile '$folder' '$architecture' {}"
nvcc -arch="$architecture" "$folder"/*.o -o "$folder/mgi_gpu_bench"
