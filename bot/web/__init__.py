"""How a move looks in a browser: the FastAPI app, the Chainlit handlers, our own pages. The handlers decide nothing."""
