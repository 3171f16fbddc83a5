"""What turns an attempt's answer and files into a grade."""
