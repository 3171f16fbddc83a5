"""One module for each format of the record."""
