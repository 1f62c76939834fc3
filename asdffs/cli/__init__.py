"""The command line.  In the core, only this layer reads argv and the environment, but for two modules that
``tests/packaging/test_environment.py`` names; in each feature, one module does.
"""
