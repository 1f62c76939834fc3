"""A catalogue of many files: what their trees say, kept in one file, so that a query opens none of them."""
