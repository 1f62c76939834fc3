"""Work on whole files: explode, implode, repack, upgrade, compare, check, mirror."""
