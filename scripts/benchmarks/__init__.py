"""Benchmarks of asdffs and its peers, one module for each kind of work.  ``scripts/bench`` runs them.

Each module in ``SECTIONS`` (``__main__``) has ``TARGETS`` and ``measure(place, figures)``.  Each round runs each peer
once, in turn (A B A B), and medians are compared.  Ratios within one run are more reliable than absolute figures.
"""
