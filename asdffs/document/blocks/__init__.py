"""The blocks of an open file: where they lie, their content, and every change to either."""
