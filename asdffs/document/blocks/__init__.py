"""The blocks of an open file: their positions, their content, and all changes of both."""
