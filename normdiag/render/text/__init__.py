"""Pages as text for a terminal or a file, folded to the width of the console."""
