"""Processes that work for this one, and end with it, however that ends (``lifeline``).

Everything that asdffs starts is started here, except what shall outlive it (the daemon of a mount), programs of the
user, and programs that end by themselves at once, such as ``fusermount3``.
"""
