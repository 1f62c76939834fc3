"""The arguments of each command.  ``--help`` imports no floor below this one, so that it starts fast."""
