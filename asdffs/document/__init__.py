"""The open ASDF file: what is in it, and every change to it.

Level 0: report tree; 1: arrays validation block_table decoding; 2: transaction;
3: block_editor tree_editor; 4: document; 5: opening.
"""
