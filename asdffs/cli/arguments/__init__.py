"""What the command line of each command is.  Light: nothing of the floors below is imported for ``--help``."""
