"""The demonstration behind ``mgi demo``: TPC-H tables exchanged, grouped and joined by MGI.

One idea a module: ``options`` (the command line), ``data`` (makes, loads and deals out the
tables), ``operations`` (what is run, by MGI and by DuckDB), ``truth`` (DuckDB), ``verify``
(compares two results in full), ``progress`` (what the terminal shows), ``report`` and its
pictures ``bars``, ``heat_map`` and ``graph_picture`` (the HTML page), ``run`` (the order of
events).
"""
