"""Commands of ``features/drafts``, which the registry finds."""
