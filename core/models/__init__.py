"""Networks that come with the lab, already trained."""
