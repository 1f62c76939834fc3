"""Files of other formats that have an ASDF file inside.  ``base`` defines a container; the registry finds them."""
