"""MGI moves tuples between endpoints while they are still being computed.

The way in is :class:`Runtime`: endpoints, channels, and ``send``, ``flush`` and ``recv`` on Arrow
batches and NumPy arrays. :func:`exchange`, :func:`group_by`, :func:`join` and :func:`sort` work on
whole tables of any library that speaks Arrow's PyCapsule interface (pyarrow, Polars, DuckDB
results).

    import mgi
    parts = mgi.exchange(table, key="customer", endpoints=4)
"""

from mgi._mgi import __version__
from mgi.allocators import (
    GpuAllocator,
    GpuStreamAllocator,
    cupy_allocator,
    rmm_allocator,
    torch_allocator,
)
from mgi.channel import Channel
from mgi.cluster import ClusterClient
from mgi.endpoint import Endpoint
from mgi.errors import (
    Closed,
    Deleted,
    Error,
    GroupFailed,
    Internal,
    Interrupted,
    InvalidArgument,
    NotFound,
    OutOfMemory,
    Refused,
    Stalled,
    Timeout,
)
from mgi.gpu_table import GpuArray, GpuColumn, GpuTable
from mgi.jobs import Job, job
from mgi.kernels import KernelGroups, column_views, include_dirs
from mgi.operators import exchange, group_by, join, sort
from mgi.routing import Balance, Broadcast, Direct, Partition, Range, Routing
from mgi.runtime import Runtime, set_log_level
from mgi.schema import Field, Schema
from mgi.table import RecordBatch, Table

__all__ = [
    "Balance",
    "Broadcast",
    "Channel",
    "Closed",
    "ClusterClient",
    "Deleted",
    "Direct",
    "Endpoint",
    "Error",
    "Field",
    "GpuAllocator",
    "GpuArray",
    "GpuColumn",
    "GpuStreamAllocator",
    "GpuTable",
    "GroupFailed",
    "Internal",
    "Interrupted",
    "InvalidArgument",
    "Job",
    "KernelGroups",
    "NotFound",
    "OutOfMemory",
    "Partition",
    "Range",
    "RecordBatch",
    "Refused",
    "Routing",
    "Runtime",
    "Schema",
    "Stalled",
    "Table",
    "Timeout",
    "__version__",
    "column_views",
    "cupy_allocator",
    "exchange",
    "group_by",
    "include_dirs",
    "job",
    "join",
    "rmm_allocator",
    "set_log_level",
    "sort",
    "torch_allocator",
]
