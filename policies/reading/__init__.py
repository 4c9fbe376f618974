"""What answers look like: a lexicon, and the lines the reading classifiers learn from."""
