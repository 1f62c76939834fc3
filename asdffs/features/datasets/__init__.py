"""An ASDF file as a dataset: variables with named axes and attributes, for xarray and for references."""
