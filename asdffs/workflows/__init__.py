"""Work on whole files: explode, implode, repack, compare, check, change values."""
