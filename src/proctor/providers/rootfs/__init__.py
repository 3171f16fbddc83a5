"""Images without an engine: root file systems from directories, tars and image archives."""
