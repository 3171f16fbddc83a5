"""Allow-lists of hosts: the proxy that is all that a sandbox reaches."""
