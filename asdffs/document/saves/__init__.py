"""What becomes of the text of a tree that somebody typed: committed, or kept."""
