"""References: Zarr arrays whose chunks are bytes of ASDF files, as kerchunk and fsspec describe them in JSON."""
