"""The page of one file in the browser: an ASGI application on loopback.  ``asdffs view`` runs it."""
