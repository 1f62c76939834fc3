"""The kinds of virtual files, a module for each.  ``base`` defines what a view is; the registry finds the modules."""
