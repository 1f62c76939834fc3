"""The files of a mount for programs that use fsspec, without a mount: ``asdf://tree.yaml::s3://BUCKET/FILE``."""
