"""Measurements of asdffs beside its peers, one module for each kind of work; ``scripts/bench`` runs them.

A module of ``SECTIONS`` (``__main__``) has ``TARGETS`` and ``measure(place, figures)``.  Every round runs every peer
once, in turn (A B A B); medians are compared, and ratios within one run are worth more than the figures.
"""
