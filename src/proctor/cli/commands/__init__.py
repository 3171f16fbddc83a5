"""One module per command, imported when the command is used."""
