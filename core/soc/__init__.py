"""What a SOC makes of the meters: traces to judge, a simulated week, and a rule to try on it."""
