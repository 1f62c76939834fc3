"""The command of images."""
