"""What plugins implement (`api`) and how they are found (`registry`)."""
