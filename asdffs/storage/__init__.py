"""Where the bytes live: files, their linked_files, the journal, growth, locks."""
