"""Provider `docker`: containers of Docker and Podman."""
