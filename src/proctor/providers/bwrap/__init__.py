"""Provider `bwrap`: sandboxes made with bubblewrap."""
