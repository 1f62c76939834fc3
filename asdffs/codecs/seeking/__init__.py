"""Decoders that start inside a block, where an independent piece of it begins."""
