"""What is believed beside what is true, in everyday situations."""
