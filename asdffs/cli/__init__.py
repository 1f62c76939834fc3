"""The command line.  Only this floor reads argv and the environment."""
