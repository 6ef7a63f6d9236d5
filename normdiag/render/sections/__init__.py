"""The sections of the text of a report, one file each, in the order they are read."""
