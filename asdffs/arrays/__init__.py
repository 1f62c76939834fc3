"""What a tree says about arrays: their descriptions, the branches that lead to them, and where their elements lie.

Pure: nothing here opens a file or waits.
"""
