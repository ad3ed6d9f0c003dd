"""The kernels of local steps on GPUs: CUDA C++, into which an expression's text is put."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

#: Rows of a block of the kernels that filter, and its threads.
TILE, THREADS = 4096, 256

_HEAD = r"""
typedef long long i64;

// Of days since 1970-01-01 (Howard Hinnant's civil_from_days).
__device__ inline int year_of(i64 days) {
    i64 const shifted = days + 719468;
    i64 const era = (shifted >= 0 ? shifted : shifted - 146096) / 146097;
    unsigned const day = (unsigned)(shifted - era * 146097);
    unsigned const year = (day - day / 1460 + day / 36524 - day / 146096) / 365;
    unsigned const month = (5 * (day - (365 * year + year / 4 - year / 100)) + 2) / 153;
    return (int)(year + era * 400) + (month >= 10);
}

__device__ inline bool is_at(char const* text, char const* wanted, int size) {
    for (int k = 0; k < size; ++k) {
        if (text[k] != wanted[k]) return false;
    }
    return true;
}

// Behind the first place from `begin` on where it stands; -1 where it does not.
__device__ inline i64 behind(char const* text, i64 begin, i64 end, char const* wanted, int size) {
    for (; begin + size <= end; ++begin) {
        if (is_at(text + begin, wanted, size)) return begin + size;
    }
    return -1;
}

// A text's first characters, in UTF-8, the first byte highest.
__device__ inline unsigned long long packed(char const* text, i64 size, int count) {
    unsigned long long word = 0;
    for (int k = 0; k < 8; ++k) {
        unsigned char const byte = k < size ? text[k] : 0;
        count -= (byte & 0xc0) != 0x80;
        if (count < 0) size = 0;
        word = word << 8 | (count < 0 ? 0 : byte);
    }
    return word;
}

__device__ inline bool is_valid(unsigned char const* bits, i64 i) {
    return bits[i / 8] >> (i % 8) & 1;
}
"""

#: Each thread's own row of the output.
_PROJECT = """
extern "C" __global__ void project({params}i64 rows{outputs}) {{
    i64 const step = (i64)gridDim.x * blockDim.x;
    for (i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x; i < rows; i += step) {{
        i64 const o = i;
        {writes}
    }}
}}
"""

#: A bit for each row, and the number of rows of each block's tile for which the condition holds.
_MARK = """
extern "C" __global__ void mark({params}i64 rows, unsigned* words, unsigned* counts) {{
    __shared__ unsigned total;
    if (threadIdx.x == 0) total = 0;
    __syncthreads();
    i64 const first = (i64)blockIdx.x * {tile};
    #pragma unroll 4
    for (int strip = 0; strip < {tile}; strip += {threads}) {{
        i64 const i = first + strip + threadIdx.x;
        bool const holds = i < rows && ({condition});
        unsigned const word = __ballot_sync(~0u, holds);
        if (threadIdx.x % 32 == 0) {{
            words[i / 32] = word;
            if (word != 0) atomicAdd(&total, __popc(word));
        }}
    }}
    __syncthreads();
    if (threadIdx.x == 0) counts[blockIdx.x] = total;
}}
"""

#: Writes the marked rows of each tile, in their order, before the end that `ends` has for it.
_COMPACT = """
extern "C" __global__ void compact({params}unsigned const* words, i64 const* ends{outputs}) {{
    constexpr int kWords = {tile} / 32;
    __shared__ unsigned before[kWords];
    words += (i64)blockIdx.x * kWords;
    if (threadIdx.x < 32) {{
        unsigned total = 0;
        for (int w = threadIdx.x; w < kWords; w += 32) {{
            unsigned const count = __popc(words[w]);
            unsigned sum = count;
            for (int d = 1; d < 32; d *= 2) {{
                unsigned const other = __shfl_up_sync(~0u, sum, d);
                if (threadIdx.x >= d) sum += other;
            }}
            before[w] = total + sum - count;
            total += __shfl_sync(~0u, sum, 31);
        }}
    }}
    __syncthreads();
    i64 const begin = blockIdx.x == 0 ? 0 : ends[blockIdx.x - 1];
    unsigned const lane = threadIdx.x % 32;
    for (int w = threadIdx.x / 32; w < kWords; w += {threads} / 32) {{
        unsigned const word = words[w];
        if ((word >> lane & 1) == 0) continue;
        i64 const i = ((i64)blockIdx.x * kWords + w) * 32 + lane;
        i64 const o = begin + before[w] + __popc(word & ((1u << lane) - 1));
        {writes}
    }}
}}
"""

#: Each thread folds rows into slots of its own, which lie beside those of the block's others; its
#: block adds them up in 128 bits. A thread has a few thousand rows at most.
_FOLD = """
extern "C" __global__ void fold({params}i64 rows, i64* out) {{
    extern __shared__ i64 slots[];
    for (int s = 0; s < {slots}; ++s) {{
        slots[s * blockDim.x + threadIdx.x] = first_of(s % {aggregates});
    }}
    i64 const step = (i64)gridDim.x * blockDim.x;
    for (i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x; i < rows; i += step) {{
        if (!({condition})) continue;
        i64* const mine = slots + ({group}) * {aggregates} * blockDim.x + threadIdx.x;
        {folds}
    }}
    __syncthreads();
    for (int s = threadIdx.x; s < {slots}; s += blockDim.x) {{
        i64 const* const all = slots + s * blockDim.x;
        __int128 folded = all[0];
        for (int t = 1; t < blockDim.x; ++t) folded = merged(s % {aggregates}, folded, all[t]);
        out[((i64)blockIdx.x * {slots} + s) * 2] = (i64)folded;
        out[((i64)blockIdx.x * {slots} + s) * 2 + 1] = (i64)(folded >> 64);
    }}
}}
"""


def _outputs(outputs: Sequence[tuple[str, str]]) -> dict[str, str]:
    """Of type and value of each."""
    return {
        "outputs": "".join(f", {kind}* out{k}" for k, (kind, _) in enumerate(outputs)),
        "writes": "\n        ".join(
            f"out{k}[o] = ({kind})({value});" for k, (kind, value) in enumerate(outputs)
        ),
    }


def project_text(params: str, outputs: Sequence[tuple[str, str]]) -> str:
    """``project(params, rows, outputs)``."""
    return _PROJECT.format(params=params, **_outputs(outputs))


def filter_text(params: str, condition: str, outputs: Sequence[tuple[str, str]]) -> str:
    """``mark(params, rows, words, counts)`` and ``compact(params, words, ends, outputs)``."""
    sizes = {"params": params, "tile": TILE, "threads": THREADS}
    mark = _MARK.format(condition=condition, **sizes)
    return mark + _COMPACT.format(**sizes, **_outputs(outputs))


def fold_text(
    params: str, condition: str, group: str, groups: int, folds: Sequence[tuple[str, str]]
) -> str:
    """``fold(params, rows, out)``: 128 bits for each block, group, and fold (function, value)."""
    place = "mine[{k} * blockDim.x]"
    how = {
        "sum": ("0", "{at} += {value};", "a + b"),
        "min": ("0x7fffffffffffffff", "if ({value} < {at}) {at} = {value};", "a < b ? a : b"),
        "max": ("-0x7fffffffffffffff - 1", "if ({value} > {at}) {at} = {value};", "a < b ? b : a"),
    }
    firsts, merges, lines = [], [], []
    for k, (function, value) in enumerate(folds):
        first, line, merge = how[function]
        firsts.append(f"case {k}: return {first};")
        merges.append(f"case {k}: return {merge};")
        text = line.format(at=place.format(k=k), value="value")
        lines.append(f"{{ i64 const value = (i64)({value}); {text} }}")
    functions = f"""
__device__ inline i64 first_of(int aggregate) {{
    switch (aggregate) {{ {" ".join(firsts)} }}
    return 0;
}}
__device__ inline __int128 merged(int aggregate, __int128 a, __int128 b) {{
    switch (aggregate) {{ {" ".join(merges)} }}
    return 0;
}}
"""
    return functions + _FOLD.format(
        params=params,
        condition=condition,
        group=group,
        slots=groups * len(folds),
        aggregates=len(folds),
        folds="\n        ".join(lines),
    )


@functools.cache
def module(text: str, device: int) -> Any:
    """Compiled for a GPU, once."""
    import cupy

    with cupy.cuda.Device(device):
        return cupy.RawModule(code=_HEAD + text, options=("-std=c++17", "--device-int128"))
