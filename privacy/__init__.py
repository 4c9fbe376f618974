"""PROTECTION of what a person confides. Imports neither `bot` nor `policies`."""
