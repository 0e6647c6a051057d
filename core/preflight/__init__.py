"""Preflight: gates that tell, green or red, whether a machine or a long run is ready."""
