/// \file
/// The structs of Arrow's C data and stream interfaces, laid out as
/// https://arrow.apache.org/docs/format/CDataInterface.html and CStreamInterface.html prescribe. The
/// guards are the prescribed ones, so that any other library's copy may be included beside this one.
#pragma once

#include <cstdint>

#ifndef ARROW_C_DATA_INTERFACE
#define ARROW_C_DATA_INTERFACE

#define ARROW_FLAG_DICTIONARY_ORDERED 1
#define ARROW_FLAG_NULLABLE 2
#define ARROW_FLAG_MAP_KEYS_SORTED 4

/// Type of an array, its name and its children's.
struct ArrowSchema {
    char const* format;
    char const* name;
    char const* metadata;
    std::int64_t flags;
    std::int64_t n_children;
    ArrowSchema** children;
    ArrowSchema* dictionary;
    void (*release)(ArrowSchema*);  ///< null once released
    void* private_data;
};

/// Buffers of an array and its children's.
struct ArrowArray {
    std::int64_t length;
    std::int64_t null_count;  ///< -1: not counted
    std::int64_t offset;
    std::int64_t n_buffers;
    std::int64_t n_children;
    void const** buffers;
    ArrowArray** children;
    ArrowArray* dictionary;
    void (*release)(ArrowArray*);  ///< null once released
    void* private_data;
};

#endif  // ARROW_C_DATA_INTERFACE

#ifndef ARROW_C_STREAM_INTERFACE
#define ARROW_C_STREAM_INTERFACE

/// A source of arrays of one schema. Callbacks return 0 or an errno code.
struct ArrowArrayStream {
    int (*get_schema)(ArrowArrayStream*, ArrowSchema* out);
    int (*get_next)(ArrowArrayStream*, ArrowArray* out);  ///< a released array at the end
    char const* (*get_last_error)(ArrowArrayStream*);
    void (*release)(ArrowArrayStream*);  ///< null once released
    void* private_data;
};

#endif  // ARROW_C_STREAM_INTERFACE
