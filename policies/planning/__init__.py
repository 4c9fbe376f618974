"""What to ask, in which order: the starter library of query-path pairs and its retrieval."""
