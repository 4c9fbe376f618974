"""The models that can speak, behind one protocol."""
