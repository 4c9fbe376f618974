"""OFFLINE: what to ask, when to stop, where to send people. Imports neither `bot` nor `privacy`."""
