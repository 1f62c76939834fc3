"""Block compressions, one module each.  ``base`` is their interface, ``seeking`` finds their independent pieces."""
