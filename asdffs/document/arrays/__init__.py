"""The arrays of an open document.

At the bottom are ``selection`` (what an index selects) and ``elements`` (an array as bytes), with ``chunks`` and
``contained`` for elements in other places; ``finding`` chooses among these.  ``array`` is what programs use, with
``reference`` for other processes, ``masks`` and ``html``.  At the top are ``index``, which finds arrays by their
paths, and ``faults``, for ``check``.
"""
