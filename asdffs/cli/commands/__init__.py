"""The commands of the core, one module each: ``SUMMARY``, ``arguments(parser)``, ``run(arguments)``."""
