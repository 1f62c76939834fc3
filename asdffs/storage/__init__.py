"""Where the bytes live: files, their neighbours, the journal, growth, locks.

Level 0: store; 1: file_store memory_store lock; 2: journal replace overlay; 3: recovery gap.
"""
