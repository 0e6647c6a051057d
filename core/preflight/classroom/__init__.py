"""The gates of the classroom machine."""
