"""The command line: the only floor that reads argv and the environment."""
