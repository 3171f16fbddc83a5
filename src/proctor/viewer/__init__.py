"""The viewer: pages about runs and attempts, rendered here and read in a browser, live or as files."""
