"""What each view consists of: the sections of a report, a table of targets, a comparison."""
