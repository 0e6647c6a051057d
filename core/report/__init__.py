"""What a student measured, what it cost, and the lab report. Needs neither Streamlit nor torch."""
