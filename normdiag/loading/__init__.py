"""A target string becomes something that can be analysed."""
