"""Where the bytes live: files, their neighbours, the journal, growth, locks."""
