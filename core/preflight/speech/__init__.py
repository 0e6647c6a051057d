"""The gates of a long speech pre-training run: Audio-JEPA, continued on speech."""
